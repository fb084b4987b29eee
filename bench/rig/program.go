package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/bench/contender"
	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/local"
	"github.com/onceledger/onceledger/internal/program"
	"github.com/onceledger/onceledger/internal/receiver"
	"github.com/onceledger/onceledger/internal/worker"
)

const (
	// roleEnv makes a re-executed binary one of the programs.
	roleEnv = "ONCELEDGER_BENCH_PROGRAM"
	// stopLimit is how long a program may take to drain.
	stopLimit = 30 * time.Second
	// starts is how often a program is started that does not become ready.
	starts = 3
	// firstPort is where the search for free ports begins: below devstack's.
	firstPort = "127.0.0.1:18080"
	// profileExt ends the name of a profile.
	profileExt = ".pprof"
)

// Publishing is how a receiver stores what it receives.
type Publishing string

// The two ways.
const (
	GroupCommit Publishing = "group commit"
	OneByOne    Publishing = "one by one"
)

// role is what a child is, handed over in its environment.
type role struct {
	Receiver *Publishing    `json:",omitempty"`
	Worker   *worker.Tuning `json:",omitempty"`
	// Contender is the name of one, and Parts what it does.
	Contender string          `json:",omitempty"`
	Parts     contender.Parts `json:",omitzero"`
	Profile   string          `json:",omitempty"`
}

// Main becomes a receiver, a worker, a contender or the NATS server, and exits, if this
// process was started for that. Call it first in main.
func Main() {
	devstack.Main()
	text, ok := os.LookupEnv(roleEnv)
	if !ok {
		return
	}
	var own role
	if err := json.Unmarshal([]byte(text), &own); err != nil {
		fmt.Fprintln(os.Stderr, "read role:", err)
		os.Exit(exit.Usage)
	}
	os.Exit(own.program().Main(os.Args[1:]))
}

func (own role) program() program.Program {
	p := program.Program{Name: "bench", Needs: []config.Connection{config.NeedNATS}}
	run := func(ctx context.Context, cat *catalog.Catalog, log zerolog.Logger) error {
		var options []receiver.Option
		if *own.Receiver == OneByOne {
			options = append(options, receiver.WithoutGroupCommit())
		}
		return receiver.RunWith(ctx, cat, log, options...)
	}
	if own.Worker != nil {
		p.Needs = append(p.Needs, config.NeedDatabase)
		run = func(ctx context.Context, cat *catalog.Catalog, log zerolog.Logger) error {
			return worker.RunTuned(ctx, cat, log, *own.Worker)
		}
	}
	if c, ok := contender.Find(own.Contender); ok {
		p.Needs = append(p.Needs, config.NeedDatabase, config.NeedRedis)
		run = func(ctx context.Context, cat *catalog.Catalog, log zerolog.Logger) error {
			return c.Run(ctx, cat, log, own.Parts)
		}
	}
	p.Run = func(ctx context.Context, cat *catalog.Catalog, log zerolog.Logger) error {
		return profiled(own.Profile, func() error { return run(ctx, cat, log) })
	}
	return p
}

// blockRate samples waits in proportion to their length: one of this many
// nanoseconds on average is in the profile.
const blockRate = 10_000

// profiled runs f and writes its CPU profile to path, if there is one, and beside it
// what it allocated and where it waited.
func profiled(path string, f func() error) error {
	if path == "" {
		return f()
	}
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create profile: %w", err)
	}
	defer out.Close()
	runtime.SetBlockProfileRate(blockRate)
	if err := pprof.StartCPUProfile(out); err != nil {
		return fmt.Errorf("start profile: %w", err)
	}
	err = f()
	pprof.StopCPUProfile()
	for _, kind := range []string{"allocs", "block"} {
		err = errors.Join(err, writeProfile(strings.TrimSuffix(path, profileExt)+"."+kind+profileExt, kind))
	}
	return err
}

func writeProfile(path, kind string) error {
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create %s profile: %w", kind, err)
	}
	if err := errors.Join(pprof.Lookup(kind).WriteTo(out, 0), out.Close()); err != nil {
		return fmt.Errorf("write %s profile: %w", kind, err)
	}
	return nil
}

// Program is a running receiver or worker.
type Program struct {
	*devstack.Process
	// URL is a receiver's webhook address.
	URL string

	rig  *Rig
	name string
}

// Stop lets the program drain, and reports an exit code other than 0.
func (p *Program) Stop(ctx context.Context) error {
	p.rig.forget(p.name)
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if err := p.Process.Stop(ctx); err != nil {
		return err
	}
	if code := p.ExitCode(); code != exit.OK {
		return fmt.Errorf("stop %s: it ended with %s", p.name, p.State())
	}
	return nil
}

// StartReceiver starts a receiver and returns when it is ready.
func (r *Rig) StartReceiver(ctx context.Context, publishing Publishing) (*Program, error) {
	ports, err := new(local.Ports).TakeMany(firstPort, 2)
	if err != nil {
		return nil, err
	}
	listen, admin := ports[0], ports[1]
	p, err := r.run(ctx, "receiver "+string(publishing), role{Receiver: &publishing},
		[]string{"RECEIVER_LISTEN=" + listen, "RECEIVER_ADMIN=" + admin},
		func(ctx context.Context) error { return probe(ctx, "http://"+admin+"/readyz") })
	if err != nil {
		return nil, err
	}
	p.URL = "http://" + listen + "/webhooks/" + Source
	return p, nil
}

// StartWorker starts a worker and returns at once: its consumer shows when it
// began.
func (r *Rig) StartWorker(ctx context.Context, tuning worker.Tuning) (*Program, error) {
	return r.run(ctx, "worker", role{Worker: &tuning}, []string{"WORKER_ADMIN=127.0.0.1:0"}, nil)
}

// StartWorkers starts n workers as production has them, and returns when all of
// them are ready. They end together.
func (r *Rig) StartWorkers(ctx context.Context, n int) ([]*Program, error) {
	var ports local.Ports
	started := make([]*Program, n)
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range started {
		all.Go(func() {
			started[i], errs[i] = r.startReady(ctx, fmt.Sprintf("worker %d", i+1), &ports)
		})
	}
	all.Wait()
	return started, errors.Join(errs...)
}

// startReady tries again where somebody else was faster to take the port.
func (r *Rig) startReady(ctx context.Context, name string, ports *local.Ports) (p *Program, err error) {
	for range starts {
		admin, taken := ports.Take(firstPort)
		if taken != nil {
			return nil, taken
		}
		p, err = r.run(ctx, name, role{Worker: &worker.Tuning{}}, []string{"WORKER_ADMIN=" + admin},
			func(ctx context.Context) error { return probe(ctx, "http://"+admin+"/readyz") })
		if err == nil {
			return p, nil
		}
	}
	return nil, err
}

func (r *Rig) run(ctx context.Context, name string, own role, env []string, ready func(context.Context) error) (*Program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own executable: %w", err)
	}
	own.Profile = r.nextProfile(name)
	text, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("write role: %w", err)
	}
	process, err := devstack.StartProcess(ctx, devstack.Command{
		Name:    name,
		Path:    self,
		Args:    []string{"--config", r.ConfigPath(), "--log", "warn"},
		Env:     append(append(append(os.Environ(), r.env()...), env...), roleEnv+"="+string(text)),
		LogFile: filepath.Join(r.dir, name+".log"),
		Ready:   ready,
	})
	if err != nil {
		return nil, err
	}
	p := &Program{Process: process, rig: r, name: name}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.programs[name] = p
	return p, nil
}

func (r *Rig) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.programs, name)
}

func (r *Rig) nextProfile(name string) string {
	if r.options.Profile == "" {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.profiles++
	return filepath.Join(r.options.Profile, fmt.Sprintf("%02d-%s%s", r.profiles, name, profileExt))
}

func probe(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("probe %s: %s", url, response.Status)
	}
	return nil
}
