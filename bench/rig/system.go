package rig

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/bench/contender"
	"github.com/onceledger/onceledger/bench/traffic"
	"github.com/onceledger/onceledger/internal/local"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/worker"
)

// anyPort is far from those that others search from.
const anyPort = "127.0.0.1:0"

// The names under which onceledger itself is compared.
const (
	Ours         = "onceledger"
	OursOneByOne = "onceledger, one by one"
)

// System is one way to make debits of webhooks, so that whoever measures treats
// all of them alike. Reset goes before Prepare, and Prepare before the rest.
type System interface {
	// Name is for tables.
	Name() string
	// Queue says that it answers before it posts, and can have a backlog.
	Queue() bool
	// Batches says that it posts many events in a transaction.
	Batches() bool
	// Prepare makes what it needs in the services.
	Prepare(ctx context.Context, r *Rig) error
	// Fill stores the charges of the given numbers as if they had been received.
	Fill(ctx context.Context, r *Rig, charges *traffic.Charges, numbers []int) error
	// Start starts its programs and returns when they are ready.
	Start(ctx context.Context, r *Rig, parts contender.Parts) (*Running, error)
	// Watch counts the deliveries that were stored and are not done with, until
	// stop is called.
	Watch(ctx context.Context, r *Rig) (left contender.Left, stop func(), err error)
	// Recount reads its ledger.
	Recount(ctx context.Context, r *Rig) (contender.Books, error)
}

// Systems returns onceledger, the same without its two ideas, and all contenders.
func Systems() []System {
	systems := []System{
		ours{name: Ours, publishing: GroupCommit},
		ours{name: OursOneByOne, publishing: OneByOne, tuning: worker.Tuning{Batch: 1}},
	}
	for _, c := range contender.All() {
		systems = append(systems, theirs{c})
	}
	return systems
}

// Running are the programs of a System.
type Running struct {
	// URL takes webhooks, where that was asked for.
	URL string
	// Programs are for Meter, by a name for tables.
	Programs map[string]*Program
}

// Stop ends them in the order of what they do, and lets each finish.
func (r *Running) Stop(ctx context.Context) error {
	var errs []error
	for _, name := range []string{"receiver", "worker", "contender"} {
		if p, ok := r.Programs[name]; ok {
			errs = append(errs, p.Stop(ctx))
		}
	}
	return errors.Join(errs...)
}

// Ended reports a program that is not there any more.
func (r *Running) Ended() error {
	for name, p := range r.Programs {
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended by itself", name)
		default:
		}
	}
	return nil
}

// startReadyWorker is StartWorker, but returns when it is ready.
func (r *Rig) startReadyWorker(ctx context.Context, tuning worker.Tuning) (*Program, error) {
	admin, err := local.Chosen(anyPort)
	if err != nil {
		return nil, err
	}
	return r.run(ctx, "worker", role{Worker: &tuning}, []string{"WORKER_ADMIN=" + admin},
		func(ctx context.Context) error { return probe(ctx, "http://"+admin+"/readyz") })
}

// ours is onceledger: a receiver and a worker.
type ours struct {
	name       string
	publishing Publishing
	tuning     worker.Tuning
}

func (o ours) Name() string                        { return o.name }
func (o ours) Queue() bool                         { return true }
func (o ours) Batches() bool                       { return o.tuning.Batch != 1 }
func (o ours) Prepare(context.Context, *Rig) error { return nil } // Reset has done it

func (o ours) Fill(ctx context.Context, r *Rig, charges *traffic.Charges, numbers []int) error {
	return r.Publish(ctx, charges, numbers)
}

func (o ours) Start(ctx context.Context, r *Rig, parts contender.Parts) (running *Running, err error) {
	running = &Running{Programs: map[string]*Program{}}
	if parts.Work {
		if running.Programs["worker"], err = r.startReadyWorker(ctx, o.tuning); err != nil {
			return nil, err
		}
	}
	if parts.Serve {
		receiver, err := r.StartReceiver(ctx, o.publishing)
		if err != nil {
			return nil, errors.Join(err, running.Stop(context.WithoutCancel(ctx)))
		}
		running.Programs["receiver"], running.URL = receiver, receiver.URL
	}
	return running, nil
}

func (o ours) Watch(_ context.Context, r *Rig) (contender.Left, func(), error) {
	return r.left, func() {}, nil
}

func (r *Rig) left(ctx context.Context) (int, error) {
	p, err := r.Progress(ctx)
	if err != nil || p.Total > 0 {
		return p.Total - p.Acked, err
	}
	events, err := r.conn.JS.Stream(ctx, stream.Events) // no worker came yet
	if err != nil {
		return 0, fmt.Errorf("open stream %s: %w", stream.Events, err)
	}
	return int(events.CachedInfo().State.LastSeq), nil
}

func (o ours) Recount(ctx context.Context, r *Rig) (books contender.Books, err error) {
	conn, err := pgx.Connect(ctx, r.database)
	if err != nil {
		return books, fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return contender.ReadBooks(ctx, conn, `
		SELECT e.event_id, t.amount
		FROM transfers AS t
		LEFT JOIN events AS e ON e.no = t.event_no AND e.state = 'completed' AND e.outcome = 'applied'`, `accounts`, `transfers`)
}

// theirs is a contender: one process that does what is asked of it.
type theirs struct{ contender.Contender }

func (t theirs) Name() string  { return t.Contender.Name }
func (t theirs) Queue() bool   { return t.Contender.Queue }
func (t theirs) Batches() bool { return false }

func (t theirs) Prepare(ctx context.Context, r *Rig) error {
	return t.Contender.Prepare(ctx, r.Catalog.Config)
}

func (t theirs) Fill(ctx context.Context, r *Rig, charges *traffic.Charges, numbers []int) error {
	bodies := make([][]byte, len(numbers))
	for i, n := range numbers {
		bodies[i] = charges.Append(nil, n)
	}
	return t.Contender.Fill(ctx, r.Catalog.Config, bodies)
}

func (t theirs) Watch(ctx context.Context, r *Rig) (contender.Left, func(), error) {
	return t.Contender.Watch(ctx, r.Catalog.Config)
}

func (t theirs) Recount(ctx context.Context, r *Rig) (contender.Books, error) {
	return contender.Recount(ctx, r.Catalog.Config)
}

func (t theirs) Start(ctx context.Context, r *Rig, parts contender.Parts) (*Running, error) {
	listen, err := local.Chosen(anyPort)
	if err != nil {
		return nil, err
	}
	base := "http://" + listen
	p, err := r.run(ctx, t.Name(), role{Contender: t.Name(), Parts: parts}, []string{"RECEIVER_LISTEN=" + listen},
		func(ctx context.Context) error { return probe(ctx, base+"/readyz") })
	if err != nil {
		return nil, err
	}
	running := &Running{Programs: map[string]*Program{"contender": p}}
	if parts.Serve {
		running.URL = base + "/webhooks/" + Source
	}
	return running, nil
}
