package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// paths are the cells so far, and, where they share them, the programs.
type paths struct {
	*session
	cells []OpenCell
	kept  map[int]*flow // by number of workers
}

// opens measures the whole path.
func (s *session) opens(ctx context.Context) (cells []OpenCell, err error) {
	p := &paths{session: s, kept: map[int]*flow{}}
	defer func() {
		for _, f := range p.kept {
			err = errors.Join(err, f.stop(ctx))
		}
	}()
	size := s.Size.Open
	top := 0.0
	for _, senders := range size.Senders {
		if err := p.add(ctx, OpenCell{Name: fmt.Sprintf("closed loop, %d senders", senders), Senders: senders}); err != nil {
			return nil, err
		}
		top = max(top, p.cells[len(p.cells)-1].AcksPerSecond)
	}
	rest := []OpenCell{{Name: ClosedStorm, Senders: size.Senders[len(size.Senders)-1], Resends: stormRate}}
	for _, rate := range size.Rates {
		rest = append(rest, OpenCell{Name: fmt.Sprintf("%.0f/s", rate), Offered: rate, Senders: size.Conns})
	}
	rest = append(rest,
		OpenCell{Name: "5 % conflicts", Offered: size.Mixed, Senders: size.Conns, Conflicts: conflictRate},
		OpenCell{Name: "half of it resends", Offered: size.Mixed, Senders: size.Conns, Resends: stormRate},
		OpenCell{Name: "1 KiB bodies", Offered: size.Large, Senders: size.Conns},
		OpenCell{Name: "64 KiB bodies", Offered: size.Large, Senders: size.Conns, BodySize: largeBody})
	for _, c := range rest {
		if err := p.add(ctx, c); err != nil {
			return nil, err
		}
	}
	if err := p.highest(ctx, top, false); err != nil {
		return nil, err
	}
	if size.Alone {
		if err := p.highest(ctx, top, true); err != nil {
			return nil, err
		}
	}
	return p.cells, nil
}

// flow starts programs on empty services, or returns those that are shared.
func (p *paths) flow(ctx context.Context, workers int) (f *flow, stop func() error, err error) {
	if kept := p.kept[workers]; kept != nil {
		return kept, func() error { return nil }, nil
	}
	if p.Size.Open.Shared {
		for n, other := range p.kept { // they would share the ports
			if err := other.stop(ctx); err != nil {
				return nil, nil, err
			}
			delete(p.kept, n)
		}
	}
	if f, err = p.session.flow(ctx, workers); err != nil {
		return nil, nil, err
	}
	if p.Size.Open.Shared {
		p.kept[workers] = f
		return f, func() error { return nil }, nil
	}
	return f, func() error { return errors.Join(f.stop(ctx), p.rig.Drop(ctx)) }, nil
}

// add measures one more cell.
func (p *paths) add(ctx context.Context, c OpenCell) error {
	if c.BodySize == 0 {
		c.BodySize = p.Size.BodySize
	}
	if err := p.under(ctx, &c); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	p.cells = append(p.cells, c)
	return nil
}

// under measures one cell.
func (p *paths) under(ctx context.Context, c *OpenCell) (err error) {
	f, stop, err := p.flow(ctx, c.workers())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	letters, err := p.rig.Letters(ctx)
	if err != nil {
		return err
	}
	got, err := f.send(ctx, c.plan(p.Size.Open.WarmUp, p.Size.Open.Measure))
	if err != nil {
		return err
	}
	c.fill(got, p.Size.Open.Measure)
	c.ReceiverPeak = inMiB(f.receiver.PeakMemory())
	for _, w := range f.workers {
		c.WorkerPeak = max(c.WorkerPeak, inMiB(w.PeakMemory()))
	}
	if c.Letters, err = p.rig.Letters(ctx); err != nil {
		return err
	}
	c.Letters -= letters
	p.say("%-34s %8.0f acks/s   p50 %7.2f   p99 %8.2f   p99.9 %8.2f ms   %8.0f events/s   lag %6.2f s   others' load %.1f cores",
		c.Name, c.AcksPerSecond, c.P50, c.P99, c.P999, c.EventsPerSecond, c.Lag, c.Cost.Foreign)
	return f.check(ctx)
}

// highest looks for the highest rate that is bearable, and measures it and what one
// would plan with.
func (p *paths) highest(ctx context.Context, top float64, alone bool) error {
	best, err := p.seek(ctx, top, alone)
	if err != nil {
		return fmt.Errorf("search highest rate: %w", err)
	}
	if best == 0 {
		p.say("no rate down to %.0f/s has a p99 under %d ms", top/span, bearable)
		return nil
	}
	name := Highest
	if alone {
		name = HighestAlone
	}
	for _, c := range []OpenCell{
		{Name: name, Offered: math.Round(best)},
		{Name: fmt.Sprintf("%.0f %% of the %s", share*100, name), Offered: math.Round(best * share)},
	} {
		c.Alone, c.Senders = alone, p.Size.Open.Conns
		if err := p.add(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// seek tries rates on one flow, each after the ledger has caught up.
func (p *paths) seek(ctx context.Context, top float64, alone bool) (best float64, err error) {
	size := p.Size.Open
	c := OpenCell{BodySize: p.Size.BodySize, Senders: size.Conns, Alone: alone}
	f, stop, err := p.flow(ctx, c.workers())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	high := top * 1.3 // without a worker it may be more than the closed loop had
	if alone {
		high = top * 3
	}
	best, err = search(top/span, high, size.Tries, func(rate float64) (bool, error) {
		c.Offered = rate
		got, err := f.send(ctx, c.plan(size.WarmUp, size.Probe))
		if err != nil {
			return false, err
		}
		p99 := milliseconds(got.Latency, 99)
		holds := p99 < bearable && got.Failed() == 0 && got.Unsent == 0
		p.say("   %6.0f/s: p99 %8.2f ms, %d failed, %d unsent: %s", rate, p99, got.Failed(), got.Unsent, yes(holds))
		return holds, nil
	})
	if err != nil {
		return 0, err
	}
	return best, f.check(ctx)
}

func yes(holds bool) string {
	if holds {
		return "holds"
	}
	return "too much"
}
