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

// Name implements System.
func (o ours) Name() string { return o.name }

// Queue implements System.
func (o ours) Queue() bool { return true }

// Batches implements System.
func (o ours) Batches() bool { return o.tuning.Batch != 1 }

// Prepare has nothing to do that Reset has not done.
func (o ours) Prepare(context.Context, *Rig) error { return nil }

// Fill implements System.
func (o ours) Fill(ctx context.Context, r *Rig, charges *traffic.Charges, numbers []int) error {
	return r.Publish(ctx, charges, numbers)
}

// Start implements System.
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

// Watch implements System.
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

// Recount implements System.
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
