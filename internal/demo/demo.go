// Package demo shows that each event is applied once, whatever is sent twice,
// changed, forged or killed: it starts a whole system, sends it a plan of
// traffic as two providers would, kills a worker in the middle, and holds the
// ledger against a model that shares no code with it.
//
//	report, err := demo.Run(ctx, demo.Options{Seed: 42, Out: os.Stdout})
//	// an error unless every balance is right to the cent and the audit is clean
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/local"
	"github.com/onceledger/onceledger/internal/postgres"
)

// ErrWrong is a run whose ledger is not what it must be.
var ErrWrong = errors.New("the demo failed")

var errInterrupted = errors.New("interrupted; everything is stopped")

// Options configures Run.
type Options struct {
	// Seed decides the whole traffic.
	Seed uint64
	// Out is told what happens; nil is silence.
	Out io.Writer
	// Bar shows progress; nil where nobody sees it.
	Bar io.Writer

	size size // of tests
	// meddle is called before the ledger is read; for tests.
	meddle func(ctx context.Context, s *stage) error
}

// Run runs the demo on a stack of its own and stops all of it. Unless the ledger
// is right and the audit is clean, the error wraps ErrWrong, beside the report,
// and the folder of the stack is kept. Where it could not come to an end, there
// is an error and no report. A second signal ends the process at once.
func Run(ctx context.Context, o Options) (*Report, error) {
	var guard local.Guard
	ctx, release := guard.Interruptible(ctx)
	defer release()
	if o.size.events == 0 {
		o.size = full
	}
	if o.Out == nil {
		o.Out = io.Discard
	}

	d := &demo{Options: o, plan: newPlan(o.Seed, o.size), began: time.Now()}
	d.report = newReport(o.Seed, d.plan)
	d.say("onceledger demo, seed %d", o.Seed)
	d.say("%s deliveries of %s events, 2 providers, %s customers\n",
		thousands(len(d.plan.deliveries)), thousands(len(d.plan.events)), thousands(d.plan.customers))
	err := d.run(ctx, &guard)
	d.report.WallSeconds = time.Since(d.began).Seconds()
	keep := err != nil && ctx.Err() == nil
	if keep && d.stage.stack != nil {
		d.report.Kept = d.stage.stack.Dir()
		err = fmt.Errorf("%w; everything is kept in %s", err, d.report.Kept)
	}
	if ctx.Err() != nil {
		d.say("\nStopping")
		err = errInterrupted
	}
	report := d.report
	if err != nil && !errors.Is(err, ErrWrong) {
		report = nil
	}
	return report, errors.Join(err, d.stage.close(context.WithoutCancel(ctx), keep))
}

// demo is one run.
type demo struct {
	Options
	plan   *plan
	stage  *stage
	report *Report
	began  time.Time
}

func (d *demo) run(ctx context.Context, guard *local.Guard) error {
	var err error
	if d.stage, err = openStage(ctx, guard); err != nil {
		return err
	}
	d.say("  %-8s NATS, Postgres, Redis, a receiver and two workers in %s", "started", seconds(time.Since(d.began)))
	sender, err := d.send(ctx)
	if err != nil {
		return err
	}
	if err := d.drain(ctx); err != nil {
		return err
	}
	if d.meddle != nil {
		if err := d.meddle(ctx, d.stage); err != nil {
			return err
		}
	}
	if err := d.compare(ctx, sender); err != nil {
		return err
	}
	if err := d.audit(ctx); err != nil {
		return err
	}
	if !d.report.Equal || !d.report.Audit.Clean {
		return fmt.Errorf("%w: %d differences from the expectation, audit: %s", ErrWrong, len(d.report.Differences), d.report.Audit.Verdict())
	}
	return nil
}

// send sends the plan, and kills a worker when half of it is answered.
func (d *demo) send(ctx context.Context) (*sender, error) {
	bar := d.bar("sending", len(d.plan.deliveries))
	half, sent := make(chan struct{}), make(chan struct{})
	answered := counter{at: len(d.plan.deliveries) / 2, reached: half, bar: bar}
	s := newSender(d.stage.cat, d.stage.url, d.plan, answered.add)

	began := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(sent)
		err := s.send(groupCtx, d.plan)
		d.report.sent(time.Since(began), s)
		return err
	})
	group.Go(func() error {
		select {
		case <-half:
		case <-groupCtx.Done():
			return nil
		}
		var err error
		d.report.Killed.Unanswered, err = d.stage.killWorker(groupCtx, sent)
		return err
	})
	err := group.Wait()
	_ = bar.Finish() // a progress bar that cannot be drawn is no error
	if err != nil {
		return nil, err
	}
	d.say("  %-8s %s deliveries in %s, %s/s", "sent", thousands(len(d.plan.deliveries)),
		seconds(time.Since(began)), thousands(int(d.report.DeliveriesPerSecond)))
	d.say("  %-8s a worker with SIGKILL after half of them, and replaced it", "killed")
	return s, nil
}

// drain waits for the workers. What the killed one held comes back after the
// ack wait.
func (d *demo) drain(ctx context.Context) error {
	began := time.Now()
	bar := d.bar("applying", 0)
	p, err := d.stage.drain(ctx, func(answered, of int) {
		bar.ChangeMax(of)
		_ = bar.Set(answered)
	})
	_ = bar.Finish()
	d.report.drained(p, time.Since(began))
	if err == nil {
		d.say("  %-8s everything in another %s (ack wait %s)", "applied",
			seconds(time.Since(began)), d.stage.cat.Config.Worker.AckWait)
	}
	return err
}

func (d *demo) compare(ctx context.Context, s *sender) error {
	f, err := readLedger(ctx, d.stage.stack.DatabaseURL)
	if err != nil {
		return err
	}
	letters, err := d.stage.letters(ctx)
	if err != nil {
		return err
	}
	differences := compare(d.plan, f, s.maybeTwice(d.plan))
	for r, n := range countReasons(f) {
		if letters[r] < n {
			differences = append(differences, fmt.Sprintf("%d dead letters say %s, want %d", letters[r], r, n))
		}
	}
	d.report.compared(f, differences)
	return nil
}

func (d *demo) audit(ctx context.Context) error {
	pool, err := postgres.Open(ctx, d.stage.stack.DatabaseURL, postgres.Owner)
	if err != nil {
		return err
	}
	defer pool.Close()
	d.report.Audit, err = audit.Run(ctx, audit.Options{
		JS: d.stage.conn.JS, Pool: pool, Meaning: audit.Meaning(d.stage.cat),
	})
	return err
}

// bar is a progress bar, which nobody sees where Options.Bar is nil.
func (d *demo) bar(what string, total int) *progressbar.ProgressBar {
	out := d.Bar
	if out == nil {
		out = io.Discard
	}
	return progressbar.NewOptions(total,
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetVisibility(d.Bar != nil),
		progressbar.OptionSetDescription(fmt.Sprintf("  %-8s", what)),
		progressbar.OptionSetWidth(24),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionThrottle(50*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.Out, format+"\n", args...) }
