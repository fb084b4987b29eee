package devstack

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrNotOurs is returned by the methods of a nil Service: one that a URL of
// Options replaced, or that Options.Only left out.
var ErrNotOurs = errors.New("service is not run by this stack")

// Service is one server of a stack. Start after Stop or Kill brings it back on
// the same port with the same data.
type Service struct {
	command Command

	mu      sync.Mutex
	process *Process
}

// Start starts a stopped or killed service and returns when it is ready.
func (s *Service) Start(ctx context.Context) error {
	if s == nil {
		return ErrNotOurs
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		select {
		case <-s.process.Done():
		default:
			return fmt.Errorf("start %s: it is running as process %d", s.command.Name, s.process.PID())
		}
	}
	process, err := StartProcess(ctx, s.command)
	if err != nil {
		return err
	}
	s.process = process
	return nil
}

// Stop ends the service in order; when ctx ends first it is killed.
func (s *Service) Stop(ctx context.Context) error {
	return s.with(func(p *Process) error { return p.Stop(ctx) })
}

// Kill ends the service, every process of it, with SIGKILL, and returns when
// all are gone.
func (s *Service) Kill() error { return s.with((*Process).Kill) }

// Pause freezes the service, every process of it, with SIGSTOP.
func (s *Service) Pause() error { return s.with((*Process).Pause) }

// Resume lets a paused service go on.
func (s *Service) Resume() error { return s.with((*Process).Resume) }

// Process returns the running process, or the last one; nil for a nil Service.
func (s *Service) Process() *Process {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (s *Service) with(f func(*Process) error) error {
	if s == nil {
		return ErrNotOurs
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	return f(s.process)
}
