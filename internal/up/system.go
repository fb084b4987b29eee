package up

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/local"
)

// drainLimit is how long a program may drain before it is killed; a worker gives
// itself 20 seconds.
const drainLimit = 30 * time.Second

// start brings everything up: the services, what they must hold, the programs.
func (s *system) start(ctx context.Context) error {
	s.say("Starting in %s", s.Data)
	if err := s.startStack(ctx); err != nil {
		return err
	}
	if err := s.checkListen(); err != nil {
		return err
	}
	if err := s.prepareServices(ctx); err != nil {
		return err
	}
	return s.startPrograms(ctx)
}

func (s *system) startStack(ctx context.Context) error {
	o := devstack.Options{Dir: s.Data}
	o.NATSURL, _ = s.Env("NATS_URL")
	o.NATSMonitorURL, _ = s.Env("NATS_MONITOR_URL")
	o.DatabaseURL, _ = s.Env("DATABASE_URL")
	o.RedisURL, _ = s.Env("REDIS_URL")

	var err error
	s.stack, err = devstack.Start(ctx, o)
	if err != nil {
		return inUse(err)
	}
	s.guard.Add(s.stack.NATS.Process(), s.stack.Redis.Process(), s.stack.Postgres.Process())
	for _, line := range []struct {
		name    string
		service *devstack.Service
	}{{"postgres", s.stack.Postgres}, {"redis", s.stack.Redis}, {"nats", s.stack.NATS}} {
		if line.service == nil {
			s.say("  %-9s yours, from the environment", line.name)
		} else {
			s.say("  %-9s running", line.name)
		}
	}
	return nil
}

// inUse says what to do where another stack runs in the folder.
func inUse(err error) error {
	if errors.Is(err, devstack.ErrInUse) {
		return fmt.Errorf("%w; stop it first, or give this one another folder with --data", err)
	}
	return err
}

// prepareServices brings the schema and the streams to what the programs need.
func (s *system) prepareServices(ctx context.Context) error {
	applied, err := local.Prepare(ctx, s.stack.Addresses, s.cat.Config.NATS)
	if applied > 0 {
		s.say("  %-9s brought up to date (%d migrations)", "schema", applied)
	}
	return err
}

// startPrograms starts the receiver and the workers side by side.
func (s *system) startPrograms(ctx context.Context) error {
	programs, err := s.programs()
	if err != nil {
		return err
	}
	started := make([]*local.Process, len(programs))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, p := range programs {
		group.Go(func() error {
			process, err := p.StartAnywhere(groupCtx, s.place)
			if err == nil {
				s.guard.Add(process.Process)
				started[i] = process
			}
			return err
		})
	}
	err = group.Wait()
	s.receiver = started[0]
	for _, process := range started[1:] {
		if process != nil {
			s.workers = append(s.workers, process)
		}
	}
	if err != nil {
		return err
	}
	for _, process := range started {
		s.say("  %-9s ready, metrics at http://%s/metrics", process.Name, process.Admin)
	}
	s.stack.ReceiverURL = baseURL(s.Listen)
	if s.stack.Config, err = filepath.Abs(s.path); err != nil {
		return fmt.Errorf("find configuration: %w", err)
	}
	return s.stack.WriteAddresses()
}

// programs are the receiver, then the workers, each with an admin port.
func (s *system) programs() ([]local.Program, error) {
	programs := []local.Program{{Kind: local.Receiver, Name: "receiver", Listen: s.Listen}}
	for i := range s.Workers {
		programs = append(programs, local.Program{Kind: local.Worker, Name: fmt.Sprintf("worker-%d", i+1)})
	}
	for i := range programs {
		p := &programs[i]
		p.Config, p.Env = s.path, s.stack.Env()
		p.LogFile = filepath.Join(s.logs(), p.Name+".log")
		if err := s.place(p); err != nil {
			return nil, err
		}
	}
	return programs, nil
}

// place gives a program an admin address: the configured one, or the next above it.
func (s *system) place(p *local.Program) (err error) {
	first := s.cat.Config.Worker.Admin
	if p.Kind == local.Receiver {
		first = s.cat.Config.Receiver.Admin
	}
	p.Admin, err = s.ports.Take(first)
	return err
}

// watch waits for ctx to end, or for the first child that ends by itself.
func (s *system) watch(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	watch := func(name string, process *devstack.Process, log string) {
		if process == nil {
			return
		}
		group.Go(func() error {
			select {
			case <-groupCtx.Done():
				return nil
			case <-process.Done():
				s.say("\n%s ended by itself", name)
				return fmt.Errorf("%s ended by itself (%s); see %s", name, process.State(), log)
			}
		})
	}
	watch("postgres", s.stack.Postgres.Process(), filepath.Join(s.logs(), "postgres.log"))
	watch("redis", s.stack.Redis.Process(), filepath.Join(s.logs(), "redis.log"))
	watch("nats", s.stack.NATS.Process(), filepath.Join(s.logs(), "nats.log"))
	for _, p := range append(s.workers, s.receiver) {
		watch(p.Name, p.Process, p.LogFile)
	}
	return group.Wait()
}

// stop ends what runs, each before what it depends on: the receiver, so that
// nothing new is promised; the workers, which finish what they have begun; then
// NATS, Redis and Postgres.
func (s *system) stop(ctx context.Context) error {
	if s.stack == nil {
		return nil
	}
	s.say("Stopping")
	var errs []error
	if s.receiver != nil {
		errs = append(errs, s.stopProgram(ctx, s.receiver))
	}
	var group errgroup.Group
	for _, worker := range s.workers {
		group.Go(func() error { return s.stopProgram(ctx, worker) })
	}
	errs = append(errs, group.Wait(), s.stack.Stop(ctx))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.say("Stopped; the data stays in %s", s.Data)
	return nil
}

func (s *system) stopProgram(ctx context.Context, p *local.Process) error {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		return err
	}
	s.say("  %-9s stopped", p.Name)
	return nil
}
