// Command onceledger is the operator's tool: it runs a whole stack on this
// machine, prepares databases and streams, checks configurations, sends test
// events, and shows what became of every event and of every cent.
package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/local"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/program"
)

func main() {
	local.Main() // NATS, receiver and workers of a stack are this binary, executed again
	os.Exit(run())
}

// run executes the command line. The first signal stops the command in order;
// a second one ends the process at once.
func run() int {
	ctx, stop := program.Interruptible()
	defer stop()
	root := newRoot(&operator.Session{
		Name: os.Args[0], Env: os.LookupEnv, Out: os.Stdout, Err: os.Stderr, In: os.Stdin,
		Terminal: term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())),
	})
	if err := root.execute(ctx); err != nil {
		report(err)
		return exit.Code(err)
	}
	return exit.OK
}

// report prints an error. Faults of a configuration begin their lines, as
// editors and CI expect of file:line:column.
func report(err error) {
	var faults config.Faults
	if errors.As(err, &faults) {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Fprintln(os.Stderr, "onceledger:", err)
}
