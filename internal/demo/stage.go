package demo

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/local"
	"github.com/onceledger/onceledger/internal/stream"
)

const (
	// minPort and maxPort are where the demo's programs listen: below the ports
	// that systems give to outgoing connections.
	minPort, maxPort = 20_000, 32_000
	// stopWait bounds the drain of one program.
	stopWait = 30 * time.Second
)

//go:embed demo.yaml
var configuration string

// stage is a stack of the demo's own, with a receiver and two workers.
type stage struct {
	stack *devstack.Stack
	guard *local.Guard
	cat   *catalog.Catalog
	conn  *stream.Conn

	config, url string
	ports       local.Ports

	receiver *local.Process
	mu       sync.Mutex
	workers  []*local.Process // the first one is the one to be killed
	launched int
}

// openStage starts everything in a temporary folder. The stage is to be closed
// even after an error.
func openStage(ctx context.Context, guard *local.Guard) (*stage, error) {
	s := &stage{guard: guard}
	var err error
	if s.stack, err = devstack.Start(ctx, devstack.Options{}); err != nil {
		return s, err
	}
	guard.Remove(s.stack.Dir())
	guard.Add(s.stack.NATS.Process(), s.stack.Redis.Process(), s.stack.Postgres.Process())
	if err := s.configure(); err != nil {
		return s, err
	}
	if _, err := local.Prepare(ctx, s.stack.Addresses, s.cat.Config.NATS); err != nil {
		return s, err
	}
	nats := s.cat.Config.NATS
	nats.URL = s.stack.NATSURL
	if s.conn, err = stream.Open(ctx, nats, "onceledger demo", zerolog.Nop()); err != nil {
		return s, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.startReceiver(groupCtx) })
	group.Go(func() error { return s.startWorker(groupCtx) })
	group.Go(func() error { return s.startWorker(groupCtx) })
	return s, group.Wait()
}

// configure writes the configuration, with secrets made up for this run.
func (s *stage) configure() error {
	key := make([]byte, 24)
	_, _ = rand.Read(key) // never fails
	text := strings.NewReplacer(
		"{{stripe}}", "whsec_"+rand.Text(),
		"{{orders}}", "whsec_"+base64.StdEncoding.EncodeToString(key),
	).Replace(configuration)
	s.config = filepath.Join(s.stack.Dir(), config.DefaultPath)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	var err error
	s.cat, err = catalog.Load(s.config, func(string) (string, bool) { return "", false })
	return err
}

func (s *stage) startReceiver(ctx context.Context) error {
	process, err := s.launch(ctx, local.Program{Kind: local.Receiver, Name: "receiver"})
	if err == nil {
		s.receiver, s.url = process, "http://"+process.Listen
	}
	return err
}

func (s *stage) startWorker(ctx context.Context) error {
	s.mu.Lock()
	s.launched++
	name := fmt.Sprintf("worker-%d", s.launched)
	s.mu.Unlock()
	process, err := s.launch(ctx, local.Program{Kind: local.Worker, Name: name})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers = append(s.workers, process)
	return nil
}

func (s *stage) launch(ctx context.Context, p local.Program) (*local.Process, error) {
	p.Config, p.Env = s.config, s.stack.Env()
	p.LogFile = filepath.Join(s.stack.Dir(), "logs", p.Name+".log")
	if err := s.place(&p); err != nil {
		return nil, err
	}
	process, err := p.StartAnywhere(ctx, s.place)
	if err == nil {
		s.guard.Add(process.Process)
	}
	return process, err
}

// place gives a program addresses that nobody listens on.
func (s *stage) place(p *local.Program) (err error) {
	first := fmt.Sprintf("127.0.0.1:%d", minPort+mathrand.IntN(maxPort-minPort)) //nolint:gosec // a port is no secret
	if p.Admin, err = s.ports.Take(first); err != nil || p.Kind != local.Receiver {
		return err
	}
	p.Listen, err = s.ports.Take(first)
	return err
}

// killWorker kills a worker with SIGKILL and starts another one. It freezes the
// worker first, until deliveries are unanswered, so that it does not die idle; where
// everything is sent before, it is killed all the same. It returns how many
// deliveries were unanswered then.
func (s *stage) killWorker(ctx context.Context, sent <-chan struct{}) (unanswered int, err error) {
	s.mu.Lock()
	victim := s.workers[0]
	s.workers = s.workers[1:]
	s.mu.Unlock()
	err = victim.Pause()
	if err == nil {
		unanswered, err = s.awaitUnanswered(ctx, sent)
	}
	if err := errors.Join(err, victim.Kill()); err != nil {
		return 0, err
	}
	return unanswered, s.startWorker(ctx)
}

// awaitUnanswered returns how many deliveries are unanswered: none only where there
// were none when everything was sent.
func (s *stage) awaitUnanswered(ctx context.Context, sent <-chan struct{}) (int, error) {
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	for last := false; ; {
		p, err := s.progress(ctx)
		if err != nil || p.unanswered > 0 || last {
			return p.unanswered, err
		}
		select {
		case <-poll.C:
		case <-sent:
			last = true
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// close stops everything, each before what it depends on. With keep, the folder
// stays.
func (s *stage) close(ctx context.Context, keep bool) error {
	if s.stack == nil {
		return nil
	}
	if keep {
		s.stack.Keep()
	}
	var errs []error
	stop := func(p *local.Process) error {
		if p == nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, stopWait)
		defer cancel()
		return p.Stop(ctx)
	}
	errs = append(errs, stop(s.receiver))
	var group errgroup.Group
	for _, worker := range s.workers {
		group.Go(func() error { return stop(worker) })
	}
	errs = append(errs, group.Wait())
	if s.conn != nil {
		s.conn.Close()
	}
	return errors.Join(append(errs, s.stack.Stop(ctx))...)
}
