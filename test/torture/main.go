// Command torture tries to prove onceledger wrong: it plays a plan of harm to a
// system of real processes while providers send, resend and contradict
// themselves, and holds what is left against an independent model.
//
//	go run . -minutes 5 -seed 42
//
// It ends with 1 when anything was lost, doubled or unexplained, and with 2 when
// the run could not come to its end.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/onceledger/onceledger/test/torture/breakage"
	"github.com/onceledger/onceledger/test/torture/report"
	"github.com/onceledger/onceledger/test/torture/stage"
)

func main() {
	stage.Main()
	os.Exit(command())
}

func command() int {
	minutes := flag.Float64("minutes", 1.5, "for how long harm is done; the end takes another minute or two")
	seed := flag.Uint64("seed", 0, "what decides harm and traffic; 0 draws one, which is printed")
	plan := flag.String("plan", "mixed", "mixed; cluster: NATS as three servers, whose leader is killed; restore: Postgres is restored from an older backup")
	rate := flag.Int("rate", 700, "deliveries a second")
	out := flag.String("out", "", "folder for history, logs and report; default: a new one below the temporary folder")
	broken := flag.String("break", "", "break the product first: "+strings.Join(breakage.Names(), ", ")+"; the run then has to find it, and ends with 0 if it does")
	again := flag.String("resume", "", "take up the run in this folder, which was broken: start everything on its data, wait for rest, and look anew")
	race := flag.Bool("race", false, "build the programs with the race detector: slower, and needs a C compiler")
	list := flag.Bool("list", false, "print the names that -break knows and end")
	show := flag.Bool("show", false, "print the plan of a seed and end")
	publish := flag.String("publish", "", "write the figures of the reports in the folder -out into this Markdown file, between its torture:begin and torture:end marks, and end")
	flag.Parse()
	if *list {
		fmt.Println(strings.Join(breakage.Names(), "\n"))
		return 0
	}
	if *publish != "" {
		if err := report.Publish(*publish, *out); err != nil {
			fmt.Fprintln(os.Stderr, "torture:", err)
			return 2
		}
		return 0
	}

	if *again != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		result, err := resume(ctx, *again)
		return conclude(result, err, options{out: *again})
	}
	if *seed == 0 {
		*seed = uint64(rand.Uint32()) //nolint:gosec // a seed is no secret
	}
	length := time.Duration(*minutes * float64(time.Minute))
	o := options{seed: *seed, length: length, plan: *plan, rate: *rate, race: *race}
	if *broken != "" {
		if o.broken = breakage.Named(*broken); o.broken == nil {
			fmt.Fprintf(os.Stderr, "torture: %q is no breakage\n", *broken)
			return 2
		}
	}
	if *show {
		fmt.Print(o.faults())
		return 0
	}
	dir, err := folder(*out, *seed)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process, and the kernel its children
	o.out = dir
	result, err := torture(ctx, o)
	return conclude(result, err, o)
}

// conclude writes and prints a report, and returns the exit code.
func conclude(result *report.Report, err error, o options) int {
	if err != nil {
		fmt.Fprintf(os.Stderr, "torture: seed %d: %v\n", o.seed, err)
		return 2
	}
	if o.broken != nil {
		result.Find(o.broken)
	}
	if err := result.Write(o.out); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 2
	}
	fmt.Print(result)
	if o.broken != nil {
		fmt.Printf("  found        %s\n", cmp.Or(result.Hit, "NOTHING of what it is known by: "+o.broken.Finds))
	}
	if result.Hit == "" && (o.broken != nil || len(result.Faulty()) > 0) {
		return 1
	}
	return 0
}

// folder makes the folder of a run, empty.
func folder(out string, seed uint64) (string, error) {
	if out == "" {
		out, err := os.MkdirTemp("", fmt.Sprintf("onceledger-torture-%d-", seed))
		if err != nil {
			return "", err
		}
		return out, os.Chmod(out, 0o755) //nolint:gosec // Postgres's user must pass through; what is secret in it is 0600
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	list, err := os.ReadDir(out)
	if err == nil && len(list) > 0 {
		err = fmt.Errorf("use folder %s: it is not empty", out)
	}
	return out, err
}
