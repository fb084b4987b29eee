package stage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/faultpoint"
)

// Root is the folder of the project that is tested.
func Root(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/onceledger/onceledger").Output()
	if err != nil {
		return "", fmt.Errorf("find the project: run this below test/torture: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}

// build compiles the three programs with their fault points.
func (s *Stage) build(ctx context.Context) error {
	root, err := Root(ctx)
	if err != nil {
		return err
	}
	args := []string{"build", "-tags", "torture", "-o", s.binary("") + "/"}
	if s.options.Overlay != "" {
		args = append(args, "-overlay", s.options.Overlay)
	}
	if s.options.Race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/receiver", "./cmd/worker", "./cmd/onceledger")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build programs: %w\n%s", err, out)
	}
	return nil
}

func (s *Stage) binary(name string) string { return filepath.Join(s.options.Out, "bin", name) }

// ErrNotRunning is a program that has just ended and is not started again yet.
var ErrNotRunning = errors.New("it is not running")

// Program is a receiver or a worker under a supervisor, which starts it again
// after whatever ended it.
type Program struct {
	stage        *Stage
	name, binary string
	admin        string
	env          []string

	mu      sync.Mutex
	process *devstack.Process
	closed  bool
	wanted  *devstack.Process // it was told to end
}

// Order is the file in which the program looks for what a fault point is to do.
func (s *Stage) Order(name string) string { return filepath.Join(s.options.Out, "orders", name) }

// Start starts the program, and does not wait until it is ready: what it needs
// may be away.
func (p *Program) Start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.process != nil && p.process.State() == "running" {
		return nil
	}
	process, err := devstack.StartProcess(ctx, devstack.Command{
		Name: p.name, Path: p.stage.binary(p.binary), Args: []string{"--config", p.stage.config},
		Env:     append(append(os.Environ(), p.env...), faultpoint.OrderEnv+"="+p.stage.Order(p.name)),
		LogFile: filepath.Join(p.stage.options.Out, p.name+".log"),
	})
	if err != nil {
		return err
	}
	p.process = process
	go p.supervise(process) // ends with the stage, which closes the program
	return nil
}

// supervise starts the program again when it ends, sometimes late.
func (p *Program) supervise(process *devstack.Process) {
	<-process.Done()
	p.mu.Lock()
	wanted := p.wanted == process || p.closed
	p.mu.Unlock()
	if !wanted {
		p.stage.mu.Lock()
		p.stage.ends = append(p.stage.ends, End{time.Now(), p.name, process.State()})
		p.stage.mu.Unlock()
	}
	if p.isClosed() {
		return
	}
	wait := 100 * time.Millisecond
	if rand.IntN(4) == 0 { //nolint:gosec // a delay is no secret
		wait = time.Duration(rand.IntN(4000)) * time.Millisecond //nolint:gosec // as above
	}
	<-time.After(wait)
	if err := p.Start(context.Background()); err != nil {
		p.stage.options.Say("start %s: %v", p.name, err)
	}
}

func (p *Program) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// do acts on the running process.
func (p *Program) do(ends bool, act func(*devstack.Process) error) error {
	p.mu.Lock()
	process := p.process
	running := process != nil && process.State() == "running"
	if running && ends {
		p.wanted = process
	}
	p.mu.Unlock()
	if !running {
		return ErrNotRunning
	}
	return act(process)
}

// Kill ends the program with SIGKILL; its supervisor starts it again.
func (p *Program) Kill() error { return p.do(true, (*devstack.Process).Kill) }

// Pause freezes it.
func (p *Program) Pause() error { return p.do(false, (*devstack.Process).Pause) }

// Resume lets it go on.
func (p *Program) Resume() error { return p.do(false, (*devstack.Process).Resume) }

// Stop ends it in order, and kills it where what it needs stays away for too
// long; its supervisor starts it again.
func (p *Program) Stop(ctx context.Context) error {
	return p.do(true, func(process *devstack.Process) error {
		limited, cancel := context.WithTimeout(ctx, stopLimit)
		defer cancel()
		err := process.Stop(limited)
		if limited.Err() != nil && ctx.Err() == nil {
			p.stage.options.Say("%v", err)
			return nil
		}
		return err
	})
}

func (p *Program) close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	if err := p.Stop(ctx); !errors.Is(err, ErrNotRunning) {
		return err
	}
	return nil
}

func (p *Program) awaitReady(ctx context.Context) error {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	last := errors.New("was never asked")
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(response.Status)
		}
		last = err
		<-time.After(50 * time.Millisecond)
	}
	return fmt.Errorf("wait for %s: %w: %w", p.name, ctx.Err(), last)
}

// Command is a run of the onceledger command, which may be killed.
func (s *Stage) Command(ctx context.Context, order string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.binary("onceledger"), append(args, "--config", s.config)...)
	cmd.Env = append(append(os.Environ(), s.Addresses.Env()...), faultpoint.OrderEnv+"="+s.Order(order))
	return cmd
}
