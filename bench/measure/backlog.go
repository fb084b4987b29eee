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

// cellLimit ends what is measured of a backlog that takes too long.
const cellLimit = time.Minute

// BacklogSize is how much of PartBacklog is measured.
type BacklogSize struct {
	// Workers are the numbers of workers that share a Backlog.
	Workers []int
	Backlog int
	// Long is a backlog for one worker whose memory is watched; 0: none.
	Long int
}

// GrowthSize is how much of PartGrowth is measured.
type GrowthSize struct {
	// Rows are how many events are there already.
	Rows []int
	// Backlog is what one worker gets. More Workers get Shared, on full tables whose
	// ids are in order: PartBacklog has the empty ones.
	Backlog int
	Workers []int
	Shared  int
	// Bound ends the measured part of a drain.
	Bound time.Duration
}

// The orders of event ids.
const (
	Ordered = "in order"
	Random  = "random"
)

// BacklogCell is workers on a backlog.
type BacklogCell struct {
	Workers int `json:"workers"`
	Backlog int `json:"backlog"`
	// Rows are the events that were there already, IDs the order of theirs and of
	// the new ones.
	Rows int    `json:"rows"`
	IDs  string `json:"ids"`
	// EventsPerSecond is from when all workers, ready and waiting, were let at the
	// backlog to the last acknowledgement of Measured events.
	EventsPerSecond float64 `json:"events_per_second"`
	Measured        int     `json:"measured"`
	Seconds         float64 `json:"seconds"`
	// WAL and Postgres are bytes written per event, a checkpoint at the end included;
	// the WAL is among them.
	WAL      float64 `json:"wal_bytes_per_event"`
	Postgres float64 `json:"postgres_bytes_per_event"`
	// Syncs of the WAL and Flushes of the disk, by whomever, for each event.
	Syncs   float64 `json:"wal_syncs_per_event"`
	Flushes float64 `json:"disk_flushes_per_event"`
	// Peak is the most memory of one worker, in MiB.
	Peak    float64  `json:"worker_peak_mib"`
	Moments []Moment `json:"moments"`
	Cost    PerEvent `json:"cost"`
}

// backlogs gives a backlog to more and more workers.
func (s *session) backlogs(ctx context.Context) (cells []BacklogCell, err error) {
	size := s.Size.Backlogs
	for _, n := range size.Workers {
		cells = append(cells, BacklogCell{Workers: n, Backlog: size.Backlog, IDs: Ordered})
	}
	if size.Long > 0 {
		cells = append(cells, BacklogCell{Workers: 1, Backlog: size.Long, IDs: Ordered})
	}
	for i := range cells {
		if err := s.backlog(ctx, cells[i:i+1], cellLimit); err != nil {
			return nil, err
		}
	}
	return cells, nil
}

// growths gives workers a backlog on larger and larger tables.
func (s *session) growths(ctx context.Context) (cells []BacklogCell, err error) {
	size := s.Size.Growth
	for _, rows := range size.Rows {
		for _, ids := range []string{Ordered, Random} {
			same := []BacklogCell{{Workers: 1, Backlog: size.Backlog, Rows: rows, IDs: ids}}
			if rows > 0 && ids == Ordered {
				for _, n := range size.Workers {
					same = append(same, BacklogCell{Workers: n, Backlog: size.Shared, Rows: rows, IDs: ids})
				}
			}
			if err := s.backlog(ctx, same, size.Bound); err != nil {
				return nil, err
			}
			cells = append(cells, same...)
		}
	}
	return cells, nil
}

// tables are what cells fill one after the other.
type tables struct {
	history rig.History
	// events were published after it, and move amount.
	events int
	amount int64
}

// backlog measures cells that have rows and ids in common, on the same tables.
func (s *session) backlog(ctx context.Context, cells []BacklogCell, bound time.Duration) error {
	if err := s.rig.Reset(ctx); err != nil {
		return err
	}
	charges := func() *traffic.Charges {
		made := traffic.NewCharges(s.tag(), s.Size.BodySize)
		if cells[0].IDs == Random {
			made = made.Random()
		}
		return made
	}
	// The model of everything that is there already.
	if err := s.model(ctx, charges()); err != nil {
		return fmt.Errorf("apply model: %w", err)
	}
	began, there := time.Now(), &tables{}
	var err error
	if there.history, err = s.rig.Fill(ctx, cells[0].Rows, cells[0].IDs == Random); err != nil {
		return err
	}
	for i := range cells {
		c := &cells[i]
		if c.Rows > 0 {
			if err := s.rig.Audit(ctx); err != nil {
				return err
			}
		}
		if c.Rows > 0 && i == 0 {
			s.say("   filled with %d events in %.0f s, %d MiB", c.Rows, time.Since(began).Seconds(), there.history.Bytes/mib)
		}
		if err := s.share(ctx, c, bound, there, charges()); err != nil {
			return fmt.Errorf("%d workers, %d rows, ids %s: %w", c.Workers, c.Rows, c.IDs, err)
		}
	}
	return s.rig.Drop(ctx)
}

// share gives the workers of a cell their backlog.
func (s *session) share(ctx context.Context, c *BacklogCell, bound time.Duration, there *tables, charges *traffic.Charges) error {
	got, err := s.workTogether(ctx, c.Workers, bound, func() error {
		if err := s.rig.Publish(ctx, charges, traffic.Distinct(c.Backlog)); err != nil {
			return err
		}
		// The first change of a page after it is written whole: the worst of the cycle.
		return s.rig.Checkpoint(ctx)
	})
	if err != nil {
		return err
	}
	there.events += c.Backlog
	for i := range c.Backlog {
		there.amount += traffic.Amount(i)
	}
	return s.settle(ctx, c, got, there)
}

// model lets a worker apply one event.
func (s *session) model(ctx context.Context, charges *traffic.Charges) error {
	if err := s.rig.Publish(ctx, charges, traffic.Distinct(1)); err != nil {
		return err
	}
	_, err := s.work(ctx, worker.Tuning{}, drainLimit)
	return err
}

// settle takes the figures of a cell and recounts.
func (s *session) settle(ctx context.Context, c *BacklogCell, got *drained, there *tables) error {
	if err := s.rig.Checkpoint(ctx); err != nil {
		return err
	}
	after, err := s.rig.Written(ctx)
	if err != nil {
		return err
	}
	// What was under way when a worker was told to stop is done as well.
	end, err := s.rig.Progress(ctx)
	if err != nil {
		return err
	}
	events, transfers, amount, err := s.rig.CheckGrown(ctx, there.history)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	letters, err := s.rig.Letters(ctx)
	if err != nil {
		return err
	}
	if applied := end.Acked - 1; events != applied || transfers != applied || letters != 0 {
		return mismatch("%d events are acknowledged, %d applied, %d transfers and %d dead letters made", applied, events, transfers, letters)
	}
	if events == there.events && amount != there.amount {
		return mismatch("the transfers move %d, and must move %d", amount, there.amount)
	}

	own := end.Acked - got.from
	n, written := float64(own), after.Since(got.before)
	c.EventsPerSecond, c.Measured, c.Seconds = float64(got.acked)/got.took.Seconds(), got.acked, got.took.Seconds()
	c.WAL, c.Postgres = float64(written.WAL)/n, float64(written.Postgres)/n
	c.Syncs, c.Flushes = float64(written.Syncs)/n, float64(written.Flushes)/n
	c.Peak, c.Moments = got.peak, got.moments
	c.Cost = perEvent(got.cost, own)
	s.say("%d workers, %8d rows, ids %-8s %8.0f events/s   %7d in %5.2f s   WAL %5.0f B an event   peak %3.0f MiB   others' load %.1f cores",
		c.Workers, c.Rows, c.IDs, c.EventsPerSecond, got.acked, c.Seconds, c.WAL, c.Peak, c.Cost.Foreign)
	return nil
}

// drained is what workers did together, from the delivery on that had the number from.
type drained struct {
	from    int
	acked   int
	took    time.Duration
	peak    float64
	cost    rig.Cost
	moments []Moment
	before  rig.Written
}

// workTogether lets n workers wait until prepare has given them a backlog, and then
// work until nothing is left, or for as long as bound.
func (s *session) workTogether(ctx context.Context, n int, bound time.Duration, prepare func() error) (d *drained, err error) {
	f := &flow{session: s}
	if f.workers, err = s.rig.StartWorkers(ctx, n); err != nil {
		return nil, err
	}
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		var errs []error
		for _, w := range f.workers {
			errs = append(errs, w.Stop(context.WithoutCancel(ctx)))
		}
		return errors.Join(errs...)
	}
	defer func() { err = errors.Join(err, stop()) }()
	resume, err := s.rig.Pause(ctx)
	if err != nil {
		return nil, err
	}
	if err := prepare(); err != nil {
		return nil, err
	}
	first, err := s.rig.Progress(ctx)
	if err != nil {
		return nil, err
	}
	d = &drained{from: first.Acked}
	if d.before, err = s.rig.Written(ctx); err != nil {
		return nil, err
	}
	programs := f.programs()
	delete(programs, "receiver")
	meter := s.rig.Meter(programs)
	watched := f.watch(ctx)
	began := time.Now()
	if err := resume(); err != nil {
		return nil, err
	}
	end, err := f.finish(ctx, began, bound)
	notes, watchErr := watched()
	if err := errors.Join(err, watchErr); err != nil {
		return nil, err
	}
	d.cost, d.acked, d.took = addWorkers(meter(), n), end.Acked-first.Acked, end.Until.Sub(began)
	for _, w := range f.workers {
		d.peak = max(d.peak, inMiB(w.PeakMemory()))
	}
	for _, one := range notes {
		d.moments = append(d.moments, one.since(began, first.Acked))
	}
	return d, stop()
}

// finish waits until nothing is left or bound is over.
func (f *flow) finish(ctx context.Context, began time.Time, bound time.Duration) (rig.Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, bound+drainLimit)
	defer cancel()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		p, err := f.rig.Progress(ctx)
		if err != nil || p.Done() || p.Acked > 0 && time.Since(began) >= bound {
			return p, err
		}
		select {
		case <-ctx.Done():
			return p, fmt.Errorf("wait for workers: %d of %d are done: %w", p.Acked, p.Total, ctx.Err())
		case <-ticker.C:
		}
	}
}
