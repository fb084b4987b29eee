// Package program is what the long-running programs share: flags, the
// configuration, signals and exit codes. A main is then a name, a help text
// and a Run.
//
//	func main() {
//		os.Exit(program.Program{Name: "onceledger-worker", Help: help, Run: worker.Run}.Main(os.Args[1:]))
//	}
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/telemetry"
)

// ExitCodes is the part of a help text that explains them.
const ExitCodes = `Exit codes:
  0  told to stop (SIGINT, SIGTERM) and drained
  1  failed at run time; starting again may help
  2  bad flags or configuration: every fault is printed with file:line:column
  3  refused to start: a service would lose money; the message says what to change
A second signal ends it at once, with whatever that signal's code is.
`

// Program is a daemon.
type Program struct {
	Name string
	// Help is printed by --help, in front of the flags' own text.
	Help string
	// Needs are the connections without which it cannot start.
	Needs []config.Connection
	// Run works until ctx ends and then drains.
	Run func(ctx context.Context, cat *catalog.Catalog, log zerolog.Logger) error
}

// Main runs the program until a signal stops it, and returns its exit code.
func (p Program) Main(args []string) int {
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // faults are printed once, below
	path := flags.String("config", "", "path of onceledger.yaml (default: $ONCELEDGER_CONFIG, else onceledger.yaml)")
	level := flags.String("log", "info", "lowest level that is logged: debug, info, warn or error")
	version := flags.Bool("version", false, "print the version and exit")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		p.printHelp(os.Stdout, flags)
		return exit.OK
	case err != nil, flags.NArg() > 0:
		if err == nil {
			err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
		}
		fmt.Fprintf(os.Stderr, "%s: %v; see %s --help\n", p.Name, err, p.Name)
		return exit.Usage
	case !telemetry.KnownLevel(*level):
		fmt.Fprintf(os.Stderr, "%s: --log %q is not debug, info, warn or error; see %s --help\n", p.Name, *level, p.Name)
		return exit.Usage
	case *version:
		fmt.Printf("%s %s\n", p.Name, telemetry.Version())
		return exit.OK
	}
	cat, err := p.load(*path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exit.Usage
	}
	log := telemetry.NewLogger(os.Stderr, *level).With().Str(telemetry.KeyProgram, p.Name).Logger()
	paceCollector()
	ctx, stop := Interruptible()
	defer stop()
	return code(p.Run(ctx, cat, log), log)
}

func (p Program) printHelp(w io.Writer, flags *flag.FlagSet) {
	fmt.Fprintf(w, "%s\nFlags:\n", p.Help)
	flags.VisitAll(func(f *flag.Flag) { fmt.Fprintf(w, "  --%-8s %s\n", f.Name, f.Usage) })
	fmt.Fprintf(w, "  --%-8s %s\n\n%s", "help", "print this text", ExitCodes)
}

func (p Program) load(path string) (*catalog.Catalog, error) {
	cat, err := catalog.Load(config.Path(path, os.LookupEnv), os.LookupEnv)
	if err != nil {
		return nil, err
	}
	return cat, cat.Config.Require(p.Needs...)
}

// Interruptible returns a context that the first SIGINT or SIGTERM ends. When it
// has ended, signals work as if nobody caught them: a second one ends the process.
func Interruptible() (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
		}
		signal.Stop(signals)
		stop()
	}()
	return ctx, stop
}

// code logs why a program ended and returns its exit code.
func code(err error, log zerolog.Logger) int {
	if err == nil || errors.Is(err, context.Canceled) {
		return exit.OK
	}
	how := "stopped by an error"
	if exit.Code(err) == exit.Refused {
		how = "refused to start"
	}
	log.Error().Err(err).Msg(how)
	return exit.Code(err)
}
