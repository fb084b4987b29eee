// Package worker turns stored events into ledger transfers, each event once.
//
// Guarantee: a delivery is acknowledged only after a terminal row of its event
// is committed, in the transaction that moved its money. Redis, the broker and
// clocks may lie: they change how fast that happens, never what happens.
//
//	cat, err := catalog.Load("onceledger.yaml", os.LookupEnv)
//	err = worker.Run(ctx, cat, log)   // until ctx ends, then drains
package worker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/alert"
	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

const (
	// loops is how many batches a worker has under way: a second one decodes
	// while the first waits for Postgres; more gain nothing.
	loops = 2
	// finishedQueue is how many batches may wait for Redis to be told.
	finishedQueue = 16
	// drainLimit bounds how long a stopping worker finishes what it has begun.
	drainLimit = 20 * time.Second
	// parkedLines bounds the log lines about parked events, a second.
	parkedLines = 10
	// claimPrefix keeps our keys apart in a Redis that others use too.
	claimPrefix = "onceledger:"
)

// Tuning sizes the batches. The zero value is what programs use; benchmarks and
// tests compare others.
type Tuning struct {
	// Batch is the most deliveries in one transaction. Default 500.
	Batch int
	// Linger is how long a batch waits to fill. Default 10 ms.
	Linger time.Duration
	// NoRedis leaves the claims out.
	NoRedis bool
}

func (t Tuning) orDefault() Tuning {
	if t.Batch == 0 {
		t.Batch = 500
	}
	if t.Linger == 0 {
		t.Linger = 10 * time.Millisecond
	}
	return t
}

// worker is one process's share of the pool.
type worker struct {
	cat     *catalog.Catalog
	log     zerolog.Logger
	sampled zerolog.Logger
	tuning  Tuning
	ackWait time.Duration
	metrics *metrics
	reg     *prometheus.Registry

	conn   *stream.Conn
	js     jetstream.JetStream
	pool   *pgxpool.Pool
	claims *dedupe.Claims

	events     atomic.Pointer[events]
	deliveries chan delivery
	finished   chan finished
	woken      chan int64      // numbers of events whose parent has come
	work       context.Context // outlives the stop by drainLimit
	gate       *gate
	slow       *telemetry.Outage // Postgres answers, but statements time out
	fetching   *telemetry.Outage
	claiming   *telemetry.Outage
	lying      *telemetry.Outage // Redis answers, but not the truth
	letters    *breaker
	// letterDelay bounds how long an event is put off whose letter cannot be stored.
	letterDelay time.Duration
	lanes       map[string]*lane // by source
	alerts      *alert.Sender    // nil: nobody is told
	streak      streak
	debts       debts
	known       ledger.Known // accounts that need not be opened any more

	// between is called between the two round trips, thinking before the rules
	// of an event, answering before a batch is answered, waking before events are
	// tried whose parent has come; for tests.
	between   func()
	waking    func()
	thinking  func(*envelope.Event)
	answering func()
}

// decision is what an event's source makes of it, with the version of its rules.
type decision struct {
	rules.Decision
	rules int64
}

// Run works until ctx ends, then finishes what it has begun and returns nil.
// Start-up refusals are errors that wrap stream.ErrRefused.
func Run(ctx context.Context, cat *catalog.Catalog, log zerolog.Logger) error {
	return RunTuned(ctx, cat, log, Tuning{})
}

// RunTuned is Run with other batches.
func RunTuned(ctx context.Context, cat *catalog.Catalog, log zerolog.Logger, tuning Tuning) error {
	w := newWorker(cat, log, tuning)
	return w.run(ctx)
}

func newWorker(cat *catalog.Catalog, log zerolog.Logger, tuning Tuning) *worker {
	reg := telemetry.NewRegistry()
	tuning = tuning.orDefault()
	w := &worker{
		cat:        cat,
		log:        log,
		sampled:    log.Sample(&zerolog.BurstSampler{Burst: parkedLines, Period: time.Second}),
		tuning:     tuning,
		ackWait:    cat.Config.Worker.AckWait,
		metrics:    newMetrics(reg),
		reg:        reg,
		deliveries: make(chan delivery, tuning.Batch),
		finished:   make(chan finished, finishedQueue),
		woken:      make(chan int64, wokenQueue),
		debts:      debts{delay: outageDelay},

		letterDelay: letterDelay,
	}
	w.outages()
	w.newLanes()
	return w
}

func (w *worker) run(ctx context.Context) error {
	defer w.close()
	if err := w.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to stop before it had begun
		}
		return err
	}
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	w.work = work
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(drainLimit, func() { cancel(errors.New("drain limit reached")) })
	})
	defer stop()

	// Order of a stop: the consumer stops fetching and hands over what it has,
	// the loops finish it and end, then Redis is told, then connections close.
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return telemetry.ServeAdmin(running, w.cat.Config.Worker.Admin, w.reg, w.ready) })
	group.Go(func() error { return w.gate.run(running) })
	group.Go(func() error { return w.upkeep(running) })
	group.Go(func() error { return w.holdDebts(running) })
	group.Go(func() error { return w.recallAlerts(running) })
	group.Go(func() error { return w.alerts.Run(running) })
	group.Go(func() error {
		defer close(w.deliveries)
		return w.consume(running)
	})
	group.Go(func() error {
		defer close(w.finished)
		return w.runLoops(running)
	})
	group.Go(func() error { return w.tellRedis() })
	w.log.Info().Str(telemetry.KeyVersion, telemetry.Version()).Str(telemetry.KeyAddress, w.cat.Config.Worker.Admin).Msg("worker started")
	err := group.Wait()
	last, done := context.WithTimeout(work, drainLimit)
	defer done()
	w.debts.settle(last)
	w.log.Info().Msg("worker stopped")
	return err
}

func (w *worker) runLoops(ctx context.Context) error {
	name := nuid.Next()
	defer w.runWaker(name)()
	endLanes := w.runLanes(ctx, name)
	defer endLanes()
	var group errgroup.Group
	for i := range loops {
		l := &loop{w: w, name: fmt.Sprintf("%s/%d", name, i)}
		group.Go(func() error { return l.run(ctx) })
	}
	return group.Wait()
}

// tellRedis writes finished marks until the loops have ended.
func (w *worker) tellRedis() error {
	for f := range w.finished {
		w.claims.Finish(w.work, f.token, f.done, f.released)
	}
	return nil
}

// events is the stream that sequences belong to. It may be created again while
// the worker runs.
type events struct {
	created time.Time // in the database's resolution
}

// incarnation is when the stream was created that sequences belong to.
func (w *worker) incarnation() time.Time { return w.events.Load().created }

// unreadable is the decision about an event that no rules can read: it means
// its bytes, so that two different ones are never taken for one.
func unreadable(reason dlq.Reason, data []byte, err error) rules.Decision {
	return rules.Decision{Parked: reason, Err: err, Fingerprint: sha256.Sum256(data)}
}

func (w *worker) budget(source string) config.Retry {
	if s, ok := w.cat.Sources[source]; ok {
		return s.Retry
	}
	return w.cat.Config.Retry
}

// limit tells the ledger which accounts are bounded.
func (w *worker) limit(account string) (ledger.Limit, bool) { return w.cat.Limit(account) }
