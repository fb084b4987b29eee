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

// limit ends a run that hangs; a whole one takes less than half of it.
const limit = 30 * time.Minute

func main() {
	rig.Main()
	load.Main()
	os.Exit(run())
}

func run() int {
	short := flag.Bool("short", false, "a few hundred events instead of minutes: shows that everything works, measures nothing")
	only := flag.String("only", "", "measure one part alone: receiver, worker, ledger or contenders")
	jsonPath := flag.String("json", "", "write every figure to this file as JSON")
	update := flag.String("update", "", "put the tables into this Markdown file, between its bench:begin and bench:end marks")
	dir := flag.String("dir", "", "write data below this folder instead of the system's temporary one: its disk is what is measured")
	profile := flag.String("profile", "", "write CPU profiles of receiver and worker into this folder")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process, and the kernel its children
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	size := measure.Full
	if *short {
		size = measure.Smoke
	}
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
	if err := save(result, *jsonPath, *update); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func save(result *measure.Result, jsonPath, update string) error {
	if jsonPath != "" {
		if err := report.WriteJSON(jsonPath, result); err != nil {
			return err
		}
	}
	if update != "" {
		return report.UpdateMarkdown(update, result)
	}
	return nil
}
