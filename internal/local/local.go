// Package local runs the receiver and workers as child processes of this very
// binary, so that `onceledger up` and `onceledger demo` need no other program
// and can stop, or kill, each one alone.
//
//	func main() {
//		local.Main() // this process may be the child: `onceledger run worker …`
//		…
//		worker, err := local.Program{Kind: local.Worker, Name: "worker-1", …}.Start(ctx)
//		err = worker.Stop(ctx) // drains
//	}
package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/program"
	"github.com/onceledger/onceledger/internal/receiver"
	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/internal/worker"
)

// Kind is what a child is.
type Kind string

// The kinds, as they follow `run` on the command line.
const (
	Receiver Kind = "receiver"
	Worker   Kind = "worker"
)

// command is the first argument of a child.
const command = "run"

// Main becomes the receiver or a worker, and exits, if this process was started
// as `run receiver` or `run worker`. It is the NATS server of a stack in the
// same way: see devstack.Main. Call it first in main and in TestMain.
func Main() {
	devstack.Main()
	if len(os.Args) < 3 || os.Args[1] != command {
		return
	}
	p := program.Program{Name: "onceledger " + command + " " + os.Args[2]}
	switch Kind(os.Args[2]) {
	case Receiver:
		p.Needs = []config.Connection{config.NeedNATS}
		p.Run = func(ctx context.Context, cat *catalog.Catalog, log zerolog.Logger) error {
			return receiver.Run(ctx, cat, log)
		}
	case Worker:
		p.Needs, p.Run = []config.Connection{config.NeedNATS, config.NeedDatabase}, worker.Run
	default:
		return
	}
	os.Exit(p.Main(os.Args[3:]))
}

// Program is a child to start.
type Program struct {
	Kind Kind
	// Name is used in messages: "worker-2".
	Name string
	// Config is the configuration file, Env what wins over it.
	Config string
	Env    []string
	// Listen is the receiver's public address; Admin serves health and metrics.
	Listen, Admin string
	// LogFile receives what it logs.
	LogFile string
}

// Process is a running receiver or worker.
type Process struct {
	*devstack.Process
	Program
}

const (
	// startTries bounds how often a child gets other addresses.
	startTries = 10
	// answerTimeout bounds one question to a child: whoever has taken its port may
	// never answer. It is more than a child gives its own check.
	answerTimeout = 3 * time.Second
)

// StartAnywhere is Start for a child that may listen elsewhere: where another
// program took an address between its choice and the child's listening there, move
// gives the child others, and it is started again.
func (p Program) StartAnywhere(ctx context.Context, move func(*Program) error) (*Process, error) {
	for try := 1; ; try++ {
		process, err := p.Start(ctx)
		if !errors.Is(err, ErrPortTaken) || try == startTries {
			return process, err
		}
		if err := move(&p); err != nil {
			return nil, err
		}
	}
}

// Start starts the child and returns when it is ready for work. An early exit
// is an error that holds the end of its log; it is also ErrPortTaken where the
// child could not listen on one of its addresses.
func (p Program) Start(ctx context.Context) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own executable: %w", err)
	}
	env := slices.Concat(os.Environ(), p.Env)
	if p.Kind == Receiver {
		env = append(env, "RECEIVER_LISTEN="+p.Listen, "RECEIVER_ADMIN="+p.Admin)
	} else {
		env = append(env, "WORKER_ADMIN="+p.Admin)
	}
	var answering int
	child, err := devstack.StartProcess(ctx, devstack.Command{
		Name:    p.Name,
		Path:    self,
		Args:    []string{command, string(p.Kind), "--config", p.Config},
		Env:     env,
		LogFile: p.LogFile,
		Ready: func(ctx context.Context) (err error) {
			answering, err = p.ready(ctx)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	if answering != child.PID() { // the child has not noticed yet
		return nil, errors.Join(fmt.Errorf("start %s at %s: %w", p.Name, p.Admin, ErrPortTaken), child.Kill())
	}
	return &Process{child, p}, nil
}

// ready asks the child's own health page, and returns the process that answers.
func (p Program) ready(ctx context.Context) (process int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+"/readyz", http.NoBody)
	if err != nil {
		return 0, err
	}
	client := http.Client{Timeout: answerTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s is not ready: %s", p.Name, response.Status)
	}
	process, _ = strconv.Atoi(response.Header.Get(telemetry.HeaderProcess)) // 0 is nobody's
	return process, nil
}
