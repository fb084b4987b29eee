// Command growth predicts how onceledger grows, checks its predictions against
// what the benchmark measured, and writes both into docs/growth.md. It starts no
// service and takes about half a minute.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/onceledger/onceledger/bench/growth"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run() error {
	calibration := flag.String("calibration", "growth/calibration.json", "the model's parameters")
	measured := flag.String("measured", "growth/measured.json", "what the benchmark's -json wrote, to check against")
	calibrate := flag.Bool("calibrate", false, "first take CPU times, bytes and the time of a sync from what was measured, and keep them")
	update := flag.String("update", "", "put the report into this Markdown file, between its marks, and plots into the folder of its name")
	flag.Parse()

	c, err := growth.ReadCalibration(*calibration)
	if err != nil {
		return err
	}
	m, err := growth.ReadMeasured(*measured)
	if err != nil {
		return err
	}
	if *calibrate {
		if err := c.Calibrate(m); err != nil {
			return err
		}
		if err := c.Write(*calibration); err != nil {
			return err
		}
	}
	report := growth.NewReport(c, m)
	if *update == "" {
		fmt.Print(report.Markdown(""))
		return nil
	}
	folder := strings.TrimSuffix(*update, filepath.Ext(*update))
	if err := growth.Plots(c, report.Checks, folder); err != nil {
		return err
	}
	return report.Update(*update, filepath.Base(folder))
}
