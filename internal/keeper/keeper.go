// Package keeper is the standing upkeep that one worker at a time does for all:
// it audits what arrived since it last looked, sends again what was accepted and
// has no outcome, removes what is accounted for from EVENTS before it fills, and
// takes holds that have expired off their accounts.
//
// Guarantee: whatever of it happens twice, or is cut short, changes nothing that
// is true: copies meet the event's row, repairs look at the row again under its
// lock, and only what is accounted for is removed. Its errors never stop the
// worker.
//
//	err := keeper.Run(ctx, keeper.Options{Pool: pool, JS: js, Config: cfg.Keeper, Meaning: audit.Meaning(cat), …})
package keeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/compensator"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

const (
	// actor is who the recorded actions name.
	actor = "keeper"
	// roundLimit bounds one round; the database bounds each statement.
	roundLimit = 10 * time.Minute
	// retryAfter is how soon a round that failed is tried again, at most.
	retryAfter = 10 * time.Second
	// moreAfter keeps rounds that follow at once from taking everything.
	moreAfter = 100 * time.Millisecond
	// longOverdue is for how long nothing came for an event whose message may
	// still be delivered, before it is sent again.
	longOverdue = 15 * time.Minute
)

// Options says what is kept.
type Options struct {
	Pool   *pgxpool.Pool
	JS     jetstream.JetStream
	Config config.Keeper
	// Meaning reads events by today's rules; see audit.Meaning.
	Meaning func(*envelope.Event) (fingerprint [32]byte, rules int64)
	// Limits tells which accounts are bounded, as the workers have it; nil: expired
	// holds are not released.
	Limits   func(account string) (ledger.Limit, bool)
	Log      zerolog.Logger
	Registry prometheus.Registerer

	// Grace is how old a message without an outcome may be, LongOverdue how long
	// nothing may come for an event that waits; for tests.
	Grace, LongOverdue time.Duration
	// ForgetEvery is how often notes of waiting events are looked through; for tests.
	ForgetEvery time.Duration
	// Observe is called after each round with what the audit found; for tests.
	Observe func(*audit.Progress, error)
}

// keeper is one process that leads or waits to.
type keeper struct {
	Options
	metrics *metrics
	// compensator sends parked events again.
	compensator *compensator.Compensator
	trouble     condition
	wrong       string
	backlog     condition
	filling     condition
	// steady is since when rounds have succeeded in a row.
	steady time.Time
	// forgot is when the notes of waiting events were last looked through.
	forgot time.Time
}

// Run waits until this process leads and keeps house while it does, until ctx
// ends. It returns nil.
func Run(ctx context.Context, o Options) error {
	o.Grace = cmp.Or(o.Grace, audit.DefaultGrace)
	o.LongOverdue = cmp.Or(o.LongOverdue, longOverdue)
	o.ForgetEvery = cmp.Or(o.ForgetEvery, forgetEvery)
	k := &keeper{Options: o, forgot: time.Now(), metrics: newMetrics(o.Registry), compensator: compensator.New(compensator.Options{
		Pool: o.Pool, JS: o.JS, Log: o.Log, Registry: o.Registry, Off: o.Config.Compensate == "off",
	})}
	for ctx.Err() == nil {
		k.candidate(ctx)
	}
	return nil
}

// keep does round after round while ctx, the leadership, lasts.
func (k *keeper) keep(ctx context.Context) {
	k.steady = time.Time{}
	for ctx.Err() == nil {
		more, err := k.bounded(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := k.Config.Interval
		switch {
		case errors.Is(err, audit.ErrFenced):
			return // another process leads; ask for the lock again
		case err != nil:
			k.steady = time.Time{}
			k.trouble.begin(k.Log.Warn().Err(err), "the upkeep cannot work; it is tried again")
			wait = min(wait, retryAfter)
		case more:
			wait = moreAfter
		}
		if err == nil {
			k.trouble.end(k.Log.Info(), "the upkeep works again")
			if k.steady.IsZero() {
				k.steady = time.Now()
			}
		}
		sleep(ctx, wait)
	}
}

func (k *keeper) bounded(ctx context.Context) (more bool, err error) {
	ctx, end := limited(ctx, roundLimit)
	defer end()
	return k.round(ctx)
}

// limited returns a context that ends after d and has no deadline: for the client
// of the broker a deadline replaces its own limit, of one answer, so that an answer
// which is lost would cost all of d.
func limited(ctx context.Context, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() { timer.Stop(); cancel(nil) }
}

// round is one look at everything. More says that there is more to do at once.
func (k *keeper) round(ctx context.Context) (more bool, err error) {
	p, err := audit.Advance(ctx, audit.Options{JS: k.JS, Pool: k.Pool, Meaning: k.Meaning, Grace: k.Grace})
	if k.Observe != nil {
		defer func() { k.Observe(p, err) }()
	}
	if err != nil {
		return false, err
	}
	k.metrics.show(p)
	k.tell(p)
	swept, err := k.sweep(ctx, p)
	if err != nil {
		return false, err
	}
	if err := k.trim(ctx, p); err != nil {
		return false, err
	}
	if err := k.forget(ctx); err != nil {
		return false, err
	}
	released, err := k.release(ctx)
	if err != nil {
		return false, err
	}
	return p.More || swept || released, k.compensator.Run(ctx)
}

// tell writes a line when what is wrong changes.
func (k *keeper) tell(p *audit.Progress) {
	if p.Clean {
		if k.wrong != "" {
			k.Log.Info().Msg("the audit is clean again")
		}
		k.wrong = ""
		return
	}
	first := p.Findings[0]
	wrong := fmt.Sprint(p.Problems, first.Kind, first.Detail)
	if wrong == k.wrong {
		return
	}
	k.wrong = wrong
	k.Log.Error().Int("problems", p.Problems).Int("unaccounted", p.Sum.Unaccounted).Int("money_differences", p.MoneyDifferences).
		Str("first_kind", string(first.Kind)).Uint64(telemetry.KeySequence, first.Seq).Str(telemetry.KeySource, first.Source).
		Str(telemetry.KeyEventID, first.EventID).Str("first", first.Detail).Msg("the audit found problems")
}

// condition turns what many rounds see into a line at its begin and one at its
// end.
type condition struct {
	since time.Time
}

func (c *condition) begin(e *zerolog.Event, message string) {
	if !c.since.IsZero() {
		return
	}
	c.since = time.Now()
	e.Msg(message)
}

func (c *condition) end(e *zerolog.Event, message string) {
	if c.since.IsZero() {
		return
	}
	e.Dur(telemetry.KeyDuration, time.Since(c.since)).Msg(message)
	c.since = time.Time{}
}

// sleep waits, or less when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
