// Package up runs a whole onceledger on this machine: NATS, Postgres and Redis,
// a receiver and workers, with everything they keep in one folder.
//
// It guarantees an orderly life: nothing is started twice in one folder, nothing
// that dies is replaced in silence, and nothing is left running afterwards. The
// data stays, and the next start continues with it.
//
//	err := up.Run(ctx, up.Options{Data: ".data", Workers: 2, Out: os.Stdout, Env: os.LookupEnv})
package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/local"
)

// MaxWorkers bounds Options.Workers: each takes up to 8 connections of those
// that Postgres has.
const MaxWorkers = 8

// Options configures Run.
type Options struct {
	// Data is the folder of the stack; made if missing.
	Data string
	// Config is the configuration file; empty: ONCELEDGER_CONFIG, else the data
	// folder's own, which is written if it is missing.
	Config string
	// Listen is the public address of the receiver; empty: the configuration's.
	Listen string
	// Workers is how many workers run, 1 to MaxWorkers.
	Workers int
	// JSON prints one object when everything runs, instead of text for a person.
	JSON bool
	// Command is how this program was called, for the commands it suggests.
	Command string
	// Out is where a person reads; Env is os.LookupEnv outside of tests.
	Out io.Writer
	Env func(string) (string, bool)
}

// Run starts everything, says how to use it, and stops it in order when ctx ends
// or a signal comes, and returns nil. A second signal ends the process at once,
// with nothing left behind. A child that ends by itself takes the others down,
// in order, and is an error.
func Run(ctx context.Context, o Options) error {
	if o.Workers < 1 || o.Workers > MaxWorkers {
		return exit.Usagef("--workers is %d; 1 to %d are possible", o.Workers, MaxWorkers)
	}
	var guard local.Guard
	ctx, release := guard.Interruptible(ctx)
	defer release()

	s := &system{Options: o, guard: &guard}
	if err := s.prepare(); err != nil {
		return err
	}
	err := s.start(ctx)
	if err == nil {
		if err = s.announce(); err == nil {
			err = s.watch(ctx)
		}
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // a signal during the start
	}
	return errors.Join(err, s.stop(context.WithoutCancel(ctx)))
}

// system is one stack with its programs.
type system struct {
	Options
	guard *local.Guard

	path      string // of the configuration
	ownConfig bool   // it is the data folder's
	cat       *catalog.Catalog

	stack    *devstack.Stack
	ports    local.Ports
	receiver *local.Process
	workers  []*local.Process

	printing sync.Mutex
}

// prepare finds every fault that can be found before anything is started.
func (s *system) prepare() error {
	// A stack that runs here has the port, too; Start says it better then.
	_, running := devstack.ReadAddresses(s.Data)

	var err error
	if s.path, s.ownConfig, err = s.configuration(); err != nil {
		return err
	}
	if s.cat, err = catalog.Load(s.path, s.offline); err != nil {
		return err
	}
	if s.Listen, err = local.Chosen(cmp.Or(s.Listen, s.cat.Config.Receiver.Listen)); err != nil {
		return err
	}
	if running != nil {
		return s.checkListen()
	}
	return nil
}

// offline is the environment with addresses that need not answer, so that a
// configuration can be checked before its services run.
func (s *system) offline(name string) (string, bool) {
	if value, ok := s.Env(name); ok && value != "" {
		return value, ok
	}
	switch name {
	case "NATS_URL":
		return "nats://127.0.0.1:4222", true
	case "DATABASE_URL":
		return "postgres://127.0.0.1:5432/onceledger", true
	case "REDIS_URL":
		return "redis://127.0.0.1:6379/0", true
	}
	return s.Env(name)
}

func (s *system) checkListen() error {
	err := local.Free(s.Listen)
	if errors.Is(err, local.ErrPortTaken) {
		return fmt.Errorf("%w; choose another address with --listen, or let --listen 127.0.0.1:0 take a free one", err)
	}
	return exit.With(exit.Usage, err)
}

// say prints a line for a person.
func (s *system) say(format string, args ...any) {
	out := s.Out
	if s.JSON {
		out = os.Stderr
	}
	s.printing.Lock()
	defer s.printing.Unlock()
	fmt.Fprintf(out, format+"\n", args...)
}

func (s *system) logs() string { return filepath.Join(s.Data, "logs") }
