// Command bench measures onceledger on this machine: real services, the real
// receiver and worker as processes, a load generator of its own. Each figure
// stands beside the same program without the idea that is measured, the two
// taking turns within one run.
//
// It ends with 1 when anything was lost or doubled, and never because something
// was slow: how fast is what it is there to find out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/onceledger/onceledger/bench/load"
	"github.com/onceledger/onceledger/bench/measure"
	"github.com/onceledger/onceledger/bench/report"
	"github.com/onceledger/onceledger/bench/rig"
)

// limit ends a run that hangs; a whole one takes less than half of it, a full one
// as well of fullLimit.
const limit, fullLimit = 10 * time.Minute, 2 * time.Hour

func main() {
	rig.Main()
	load.Main()
	os.Exit(run())
}

func run() int {
	short := flag.Bool("short", false, "a few hundred events instead of minutes: shows that everything works, measures nothing")
	full := flag.Bool("full", false, "everything, for about an hour: larger backlogs, up to ten million rows, more workers")
	only := flag.String("only", "", "measure one part alone: receiver, worker, ledger, contenders, open, backlog, growth or idle")
	jsonPath := flag.String("json", "", "write every figure to this file as JSON")
	update := flag.String("update", "", "put the tables into this Markdown file, between its bench:begin and bench:end marks")
	plots := flag.String("plots", "", "draw the figures as PNG into this folder")
	dir := flag.String("dir", "", "write data below this folder instead of the system's temporary one: its disk is what is measured")
	profile := flag.String("profile", "", "write profiles of receiver and worker into this folder (CPU, allocations, waits), and what Postgres's statements cost")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process, and the kernel its children
	size, atMost := measure.Short, limit
	switch {
	case *short:
		size = measure.Smoke
	case *full:
		size, atMost = measure.Full, fullLimit
	}
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()

	result, err := measure.Run(ctx, measure.Options{
		Size: size, Only: *only,
		Rig:   rig.Options{Dir: *dir, Small: *short, Profile: *profile},
		Print: func(line string) { fmt.Fprintln(os.Stderr, line) },
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	report.Print(os.Stdout, result)
	if err := save(result, *jsonPath, *update, *plots); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func save(result *measure.Result, jsonPath, update, plots string) error {
	if jsonPath != "" {
		if err := report.WriteJSON(jsonPath, result); err != nil {
			return err
		}
	}
	if plots != "" {
		if err := report.Plot(plots, result); err != nil {
			return err
		}
	}
	if update != "" {
		return report.UpdateMarkdown(update, result)
	}
	return nil
}
