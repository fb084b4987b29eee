package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceledger/onceledger/bench/rig"
	"github.com/onceledger/onceledger/bench/traffic"
	"github.com/onceledger/onceledger/internal/worker"
)

const (
	// look is how often a drain's progress is read. It bounds how long a
	// drain is waited for too long, not what is measured: see rig.Progress.
	look = 50 * time.Millisecond
	// drainLimit ends a drain that hangs.
	drainLimit = 90 * time.Second
)

// The names of the drains that are compared.
const (
	Batches        = "batches"
	EachAlone      = "one transaction per event"
	BatchesNoRedis = "batches, no Redis"
	Storm          = "every event twice"
	StormNoRedis   = "every event twice, no Redis"
)

// DrainCell is one way to work through a backlog.
type DrainCell struct {
	Name string `json:"name"`
	// DebitsPerSecond counts transfers, DeliveriesPerSecond messages: with
	// resends there are more of them. Both are means of Rounds.
	DebitsPerSecond     float64   `json:"debits_per_second"`
	DeliveriesPerSecond float64   `json:"deliveries_per_second"`
	Rounds              []float64 `json:"rounds"` // debits
	// Measured is how many deliveries the rates are from, of Backlog: a slow
	// drain is ended, and what it left is done in batches. All of it was
	// recounted.
	Measured int      `json:"measured"`
	Backlog  int      `json:"backlog"`
	Cost     PerEvent `json:"cost"` // per delivery

	tuning  worker.Tuning
	numbers []int
	events  int
	took    time.Duration
	cost    rig.Cost
}

// drains gives each kind of worker the same backlog, in turn.
func (s *session) drains(ctx context.Context) ([]DrainCell, error) {
	distinct := traffic.Distinct(s.Size.Backlog)
	storm := traffic.Storm(s.Size.Backlog/2, s.Size.Window)
	alone, noRedis := worker.Tuning{Batch: 1}, worker.Tuning{NoRedis: true}
	cells := []DrainCell{
		{Name: Batches, numbers: distinct, events: len(distinct)},
		{Name: EachAlone, numbers: distinct, events: len(distinct), tuning: alone},
		{Name: BatchesNoRedis, numbers: distinct, events: len(distinct), tuning: noRedis},
		{Name: Storm, numbers: storm, events: len(storm) / 2},
		{Name: StormNoRedis, numbers: storm, events: len(storm) / 2, tuning: noRedis},
	}
	for range s.Size.Drains {
		for i := range cells {
			if err := s.drain(ctx, &cells[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", cells[i].Name, err)
			}
		}
	}
	for i := range cells {
		c := &cells[i]
		c.DebitsPerSecond = mean(c.Rounds)
		c.DeliveriesPerSecond = float64(c.Measured) / c.took.Seconds()
		c.Cost = perEvent(c.cost, c.Measured)
	}
	return cells, nil
}

// drain adds one round to c.
func (s *session) drain(ctx context.Context, c *DrainCell) error {
	if err := s.rig.Reset(ctx); err != nil {
		return err
	}
	if err := s.rig.Publish(ctx, traffic.NewCharges(s.tag(), s.Size.BodySize), c.numbers); err != nil {
		return err
	}
	done, err := s.work(ctx, c.tuning, s.Size.Bound)
	if err != nil {
		return err
	}
	// A worker that is told to stop finishes what it has begun, which may be all.
	left, err := s.rig.Progress(ctx)
	if err != nil {
		return err
	}
	if !left.Done() {
		if _, err := s.work(ctx, worker.Tuning{}, drainLimit); err != nil {
			return fmt.Errorf("finish the backlog: %w", err)
		}
	}
	if err := s.recount(ctx, c.events); err != nil {
		return err
	}

	debits, deliveries := float64(done.debits)/done.Took.Seconds(), float64(done.Acked)/done.Took.Seconds()
	c.Rounds = append(c.Rounds, debits)
	c.Measured += done.Acked
	c.Backlog += len(c.numbers)
	c.took += done.Took
	c.cost.Add(done.cost)
	s.say("%-28s %8.0f debits/s   %8.0f deliveries/s   %6d in %5.2f s   others' load %.1f cores",
		c.Name, debits, deliveries, done.Acked, done.Took.Seconds(), done.cost.Foreign())
	return nil
}

// done is what one worker did.
type done struct {
	rig.Progress
	debits int
	cost   rig.Cost
}

// work runs a worker until nothing is left, or for as long as bound.
func (s *session) work(ctx context.Context, tuning worker.Tuning, bound time.Duration) (d done, err error) {
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	program, err := s.rig.StartWorker(ctx, tuning)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, program.Stop(context.WithoutCancel(ctx))) }()
	stop := s.rig.Meter(map[string]*rig.Program{"worker": program})
	began := time.Now()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return d, fmt.Errorf("wait for worker: %d of %d are done: %w", d.Acked, d.Total, ctx.Err())
		case <-program.Done():
			return d, errors.New("wait for worker: it ended by itself")
		case <-ticker.C:
		}
		if d.Progress, err = s.rig.Progress(ctx); err != nil {
			return d, err
		}
		if d.Done() || d.Acked > 0 && time.Since(began) >= bound {
			d.cost = stop()
			d.debits, err = s.rig.CountTransfers(ctx)
			return d, err
		}
	}
}

// recount holds the ledger against what the events 0 to n-1 must have made.
func (s *session) recount(ctx context.Context, n int) error {
	ledger, err := s.rig.CountLedger(ctx)
	if err != nil {
		return err
	}
	letters, err := s.rig.Letters(ctx)
	if err != nil {
		return err
	}
	var amount int64
	for i := range n {
		amount += traffic.Amount(i)
	}
	want := rig.Ledger{Applied: n, Transfers: n, Amount: amount}
	if ledger != want || letters != 0 {
		return mismatch("the ledger holds %+v and %d dead letters, and must hold %+v and none", ledger, letters, want)
	}
	return nil
}
