// Package compensator sends parked events again by itself where that can help.
//
// It takes only reasons that sending again can mend: a rule that may have been
// corrected, an account that may have been opened, a parent that may have come;
// never conflicts, unreadable bodies or missing ids. Of each source and reason
// one event goes first, the canary; the rest follow once it was completed. An
// event that was sent again three times, by whomever, stays parked for a person.
//
// Guarantee: it can cost tries, never money: an event is decided as if its
// provider had sent it again. All it needs to know is in Postgres, so that it
// may stop anywhere and go on in another process.
//
//	job := compensator.New(compensator.Options{Pool: pool, JS: js, Log: log, Registry: reg})
//	err := job.Run(ctx) // one pass; one process at a time
package compensator

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

const (
	// actor is who the recorded actions name.
	actor = "compensator"
	// budget is how many redrives an event may have had: a fourth would meet
	// what the first three met, ten hours later.
	budget = 3
	// firstWait is how long an event lies parked before it goes again; each
	// redrive makes the next wait four times as long: 10 min, 40 min, 2 h 40 min.
	firstWait = 10 * time.Minute
	// mostWait bounds the wait between two canaries of a group.
	mostWait = 24 * time.Hour
	// canaryLimit is how long a canary may stay undecided before it counts as
	// failed.
	canaryLimit = 24 * time.Hour
	// passLimit bounds the events of one pass: workers have live ones to decide.
	passLimit = 5000
	// tidyEvery is how often all letters are read to delete the stale ones, for
	// the first time when the process is as old.
	tidyEvery = time.Hour
)

// Options says where the compensator works.
type Options struct {
	Pool     *pgxpool.Pool
	JS       jetstream.JetStream
	Log      zerolog.Logger
	Registry prometheus.Registerer
	// Off leaves sending again to people; stale letters are deleted all the same.
	Off bool
	// FirstWait and TidyEvery are for tests. Defaults 10 minutes and an hour.
	FirstWait, TidyEvery time.Duration
}

// Compensator is the job. One process at a time runs it.
type Compensator struct {
	Options
	store    letters.Store
	patience dedupe.Patience
	metrics  *metrics
	tidied   time.Time
}

// New returns the job; it registers its metrics.
func New(o Options) *Compensator {
	o.TidyEvery = cmp.Or(o.TidyEvery, tidyEvery)
	return &Compensator{
		Options: o, tidied: time.Now(), store: letters.Store{Pool: o.Pool, JS: o.JS}, metrics: newMetrics(o.Registry),
		patience: dedupe.Patience{Reasons: compensable(), Redrives: budget, Base: cmp.Or(o.FirstWait, firstWait)},
	}
}

func compensable() []string {
	var reasons []string
	for _, word := range dlq.Reasons() {
		if info, _ := dlq.Reason(word).Info(); info.Compensable {
			reasons = append(reasons, word)
		}
	}
	return reasons
}

// Run is one pass. It returns early with ctx's error, and loses nothing by that.
func (c *Compensator) Run(ctx context.Context) error {
	if err := c.tidy(ctx); err != nil {
		return err
	}
	if c.Off {
		return nil
	}
	return c.compensate(ctx)
}

// tidy deletes stale letters, now and then.
func (c *Compensator) tidy(ctx context.Context) error {
	if time.Since(c.tidied) < c.TidyEvery {
		return nil
	}
	n, err := c.store.Tidy(ctx)
	c.metrics.stale.Add(float64(n))
	if n > 0 {
		c.Log.Info().Int(telemetry.KeyCount, n).Msg("stale dead letters deleted, their events are decided")
	}
	if err == nil {
		c.tidied = time.Now()
	}
	return err
}

// compensate sends what may go.
func (c *Compensator) compensate(ctx context.Context) error {
	canaries, err := dedupe.Canaries(ctx, c.Pool)
	if err != nil {
		return err
	}
	c.metrics.show(canaries)
	gate := gate{canaries: canaries, wait: c.patience.Base, sent: map[dedupe.Group]bool{}}
	var place dedupe.Place
	for sent := 0; sent < passLimit; {
		var rows []*dedupe.Row
		rows, place, err = dedupe.Compensable(ctx, c.Pool, c.patience, place, letters.Page)
		if err != nil || len(rows) == 0 {
			return err
		}
		n, err := c.send(ctx, gate.pass(rows))
		if err != nil {
			return err
		}
		sent += n
	}
	return nil
}

// send redrives events that may go; it returns how many went.
func (c *Compensator) send(ctx context.Context, going []going) (int, error) {
	n := 0
	for _, canary := range []bool{true, false} {
		list, why := make([]*dlq.Letter, 0, len(going)), map[uint64]dedupe.Compensation{}
		for _, g := range going {
			if g.why.Canary != canary {
				continue
			}
			l, err := dlq.Get(ctx, c.JS, g.row.DLQSeq)
			if err != nil && !errors.Is(err, dlq.ErrNotFound) {
				return n, err
			}
			if err != nil || letters.KeyOf(l) != g.row.Key {
				continue // it is gone: the sweep stores it again
			}
			list, why[l.Seq] = append(list, l), g.why
		}
		if len(list) == 0 {
			continue
		}
		results, err := c.store.Redrive(ctx, list, dedupe.Action{Actor: actor, Verb: dedupe.VerbCompensate, Note: note(canary)},
			func(l *dlq.Letter, _ *dedupe.Row) any { return why[l.Seq] })
		if err != nil {
			return n, err
		}
		for _, r := range results {
			if r.Done {
				n++
				c.metrics.redriven.WithLabelValues(r.Letter.Source, string(r.Letter.Reason)).Inc()
			} else if r.Err != nil && !errors.Is(r.Err, letters.ErrBusy) && !errors.Is(r.Err, dlq.ErrNoEnvelope) {
				return n, r.Err
			}
		}
	}
	if n > 0 {
		c.Log.Info().Int(telemetry.KeyCount, n).Msg("parked events sent again")
	}
	return n, nil
}

func note(canary bool) string {
	if canary {
		return "one event of its source and reason first, to see whether sending again helps"
	}
	return "an event of the same source and reason was completed"
}
