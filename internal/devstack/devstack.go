// Package devstack starts the services onceledger needs on this machine: NATS
// with JetStream, Postgres and Redis, on free loopback ports, with everything
// they write under one folder.
//
// The settings are those of production: every message is fsynced before its
// ack, and so is every commit. Data, ports and passwords outlive a stop, so a
// second start in the same folder continues. Only one stack runs in a folder.
// Nothing is left running by Stop, by a failed Start or, on Linux, by a crash
// of this process.
//
//	func main() {
//		devstack.Main() // the NATS server is this binary, executed again
//		stack, err := devstack.Start(ctx, devstack.Options{Dir: ".data"})
//		…
//		defer stack.Stop(context.WithoutCancel(ctx))
//	}
package devstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

const (
	loopback = "127.0.0.1"
	userName = "onceledger"
	// stopLimit is how long each service may take to end before it is killed.
	stopLimit = 30 * time.Second
	// launchTries is how often a service that lost its port to another program
	// gets a new one.
	launchTries = 3
)

// ErrMissing is a service that is not installed on this machine.
var ErrMissing = errors.New("service is not installed")

// Kind names a service of a stack.
type Kind string

// The services of a stack.
const (
	NATS     Kind = "nats"
	Postgres Kind = "postgres"
	Redis    Kind = "redis"
)

// Options configures Start. The zero value is a stack of all three services in
// a temporary folder.
type Options struct {
	// Dir keeps data, ports, passwords and logs; made if missing. Empty: a
	// temporary folder that Stop removes.
	Dir string
	// Small makes a stack for tests: 128 MiB for Postgres instead of a quarter
	// of the memory, and no store limit that many small streams could meet.
	Small bool
	// Statements lets Postgres count what each statement costs, with its module
	// pg_stat_statements.
	Statements bool
	// Only lists the services to start; empty: all.
	Only []Kind
	// Log is told what a person who watches the start wants to know; the
	// servers' own logs are files in Dir/logs. The zero value is silent.
	Log zerolog.Logger

	// These replace a service by one that runs already. A NATSMonitorURL goes
	// with a NATSURL and may be empty.
	NATSURL, NATSMonitorURL, DatabaseURL, RedisURL string
}

// Stack is a set of running services. A service that is replaced or left out
// is nil; its methods return ErrNotOurs.
type Stack struct {
	Addresses
	NATS, Postgres, Redis *Service

	options   Options
	dir       string
	temporary bool
	lock      *os.File
	state     *state
	stop      sync.Once
	stopErr   error
}

// Start starts the services side by side and returns when all are ready. ctx
// bounds the start alone. ErrMissing: one is not installed. ErrInUse: a stack
// runs in Options.Dir already.
func Start(ctx context.Context, options Options) (*Stack, error) {
	s := &Stack{options: options, temporary: options.Dir == ""}
	s.NATSURL, s.NATSMonitorURL = options.NATSURL, options.NATSMonitorURL
	s.DatabaseURL, s.RedisURL = options.DatabaseURL, options.RedisURL
	if err := s.openDir(); err != nil {
		return nil, fmt.Errorf("start stack: %w", err)
	}
	if err := s.startServices(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start stack: %w", err), s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// Dir returns the folder of the stack.
func (s *Stack) Dir() string { return s.dir }

// Keep makes Stop leave a temporary folder where it is, for whoever wants to see
// what happened in it.
func (s *Stack) Keep() { s.temporary = false }

// WriteAddresses writes the addresses to stack.json in Dir, where ReadAddresses
// finds them; call it after setting ReceiverURL and Config. Only the owner may read it, as
// it holds passwords.
func (s *Stack) WriteAddresses() error { return s.Addresses.write(s.dir) }

// Stop ends the services in order, Postgres last, and returns when nothing of
// them is left. One that does not end within 30 seconds, or before ctx ends, is
// killed and reported. Stop whoever uses the stack first. A second call does
// nothing and returns what the first did.
func (s *Stack) Stop(ctx context.Context) error {
	s.stop.Do(func() { s.stopErr = s.stopAll(ctx) })
	return s.stopErr
}

func (s *Stack) stopAll(ctx context.Context) error {
	errs := []error{removeIfThere(filepath.Join(s.dir, addressFile))}
	for _, service := range []*Service{s.NATS, s.Redis, s.Postgres} {
		if service != nil {
			errs = append(errs, s.stopService(ctx, service))
		}
	}
	if s.temporary {
		errs = append(errs, os.RemoveAll(s.dir))
		if s.state.PostgresDir != "" {
			errs = append(errs, os.RemoveAll(filepath.Dir(s.state.PostgresDir)))
		}
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

func (s *Stack) stopService(ctx context.Context, service *Service) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	return service.Stop(ctx)
}

// openDir makes the folder this process's and reads what it remembers.
func (s *Stack) openDir() error {
	var err error
	if s.temporary {
		s.dir, err = os.MkdirTemp("", "onceledger-")
	} else if s.dir, err = filepath.Abs(s.options.Dir); err == nil {
		err = os.MkdirAll(s.dir, 0o755) // Postgres's user must pass through; what is secret is 0600
	}
	if err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	if s.temporary {
		// MkdirTemp's 0700 would keep Postgres's user out.
		if err := os.Chmod(s.dir, 0o711); err != nil { //nolint:gosec // as above
			return errors.Join(fmt.Errorf("make data folder: %w", err), os.RemoveAll(s.dir))
		}
	}
	if s.lock, err = lockDir(s.dir); err != nil {
		return err
	}
	if err = os.MkdirAll(filepath.Join(s.dir, "logs"), 0o700); err == nil {
		s.state, err = openState(s.dir)
	}
	if err != nil {
		return errors.Join(err, s.lock.Close())
	}
	return nil
}

// startServices starts what is wanted side by side. What several of them need
// from the state is settled first, so that each then changes its own part only.
func (s *Stack) startServices(ctx context.Context) error {
	// A program that was killed may have left services that are just dying and
	// still hold their ports.
	for _, kind := range []Kind{NATS, Postgres, Redis} {
		if err := awaitUnlocked(ctx, s.lockPath(kind)); err != nil {
			return fmt.Errorf("wait for the %s of an earlier run to end: %w", kind, err)
		}
	}
	for _, port := range s.state.ports() {
		claimPort(port)
	}
	if s.wants(Postgres, s.options.DatabaseURL) {
		if err := s.placePostgres(); err != nil {
			return fmt.Errorf("place postgres data: %w", err)
		}
	}
	if err := s.state.save(s.dir); err != nil {
		return err
	}

	group, groupCtx := errgroup.WithContext(ctx)
	if s.wants(NATS, s.options.NATSURL) {
		group.Go(func() error { return s.startNATS(groupCtx) })
	}
	if s.wants(Postgres, s.options.DatabaseURL) {
		group.Go(func() error { return s.startPostgres(groupCtx) })
	}
	if s.wants(Redis, s.options.RedisURL) {
		group.Go(func() error { return s.startRedis(groupCtx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return errors.Join(s.state.save(s.dir), s.WriteAddresses())
}

// wants reports whether the stack runs a service that url would replace.
func (s *Stack) wants(kind Kind, url string) bool {
	return url == "" && (len(s.options.Only) == 0 || slices.Contains(s.options.Only, kind))
}

// launch starts the command that build makes. Where another program took one of
// its ports between the choice and the start, it is built again with others.
func (s *Stack) launch(ctx context.Context, build func() (Command, error), ports ...*int) (*Service, error) {
	for try := 1; ; try++ {
		command, err := build()
		if err != nil {
			return nil, err
		}
		service := &Service{command: command}
		if err = service.Start(ctx); err == nil {
			s.options.Log.Info().Int("port", *ports[0]).Msg(command.Name + " is ready")
			return service, nil
		}
		if !errors.Is(err, ErrPortTaken) || try == launchTries {
			return nil, err
		}
		for _, port := range ports {
			claimPort(port)
		}
	}
}
