package measure

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// The parts of a run.
const (
	PartReceiver   = "receiver"
	PartWorker     = "worker"
	PartLedger     = "ledger"
	PartContenders = "contenders"
	PartOpen       = "open"
	PartBacklog    = "backlog"
	PartGrowth     = "growth"
	PartIdle       = "idle"
)

// part is what can be measured alone.
type part struct {
	name, what string
	// estimate is about how long it takes on two cores.
	estimate time.Duration
	measure  func(ctx context.Context) error
}

// parts are those that are asked for, in their order.
func (s *session) parts(result *Result) ([]part, error) {
	all := []part{
		{PartReceiver, "acks of closed loops, with group commit and one by one", s.Size.receiverTime(), func(ctx context.Context) (err error) {
			result.Receiver, result.Bare, err = s.receivers(ctx)
			return err
		}},
		{PartWorker, "kinds of worker on one backlog", s.Size.workerTime(), func(ctx context.Context) (err error) {
			result.Worker, err = s.drains(ctx)
			return err
		}},
		{PartLedger, "the ledger alone beside bare inserts", s.Size.ledgerTime(), func(ctx context.Context) (err error) {
			result.Ledger, err = s.ledgers(ctx)
			return err
		}},
		{PartContenders, "what people would use instead", s.Size.Contention.time(), func(ctx context.Context) (err error) {
			result.Contenders, err = s.contenders(ctx)
			return err
		}},
		{PartOpen, "the whole path at fixed rates, at its highest, with resends, conflicts and large bodies", s.Size.openTime(), func(ctx context.Context) (err error) {
			result.Open, err = s.opens(ctx)
			return err
		}},
		{PartBacklog, "a backlog for more and more workers", s.Size.backlogTime(), func(ctx context.Context) (err error) {
			result.Backlogs, err = s.backlogs(ctx)
			return err
		}},
		{PartGrowth, "a backlog on tables that are full already", s.Size.growthTime(), func(ctx context.Context) (err error) {
			result.Growth, err = s.growths(ctx)
			return err
		}},
		{PartIdle, "programs with nothing to do", s.Size.idleTime(), func(ctx context.Context) (err error) {
			result.Idle, err = s.idle(ctx)
			return err
		}},
	}
	if s.Only == "" {
		return all, nil
	}
	var names []string
	for _, p := range all {
		if names = append(names, p.name); p.name == s.Only {
			return []part{p}, nil
		}
	}
	return nil, fmt.Errorf("part %q is not one of %s", s.Only, strings.Join(names, ", "))
}

// sayPlan says before anything begins what will be measured, and how long it takes.
func (s *session) sayPlan(parts []part) {
	var sum time.Duration
	for _, p := range parts {
		s.say("%-9s about %4.0f s: %s", p.name, p.estimate.Seconds(), p.what)
		sum += p.estimate
	}
	s.say("in all about %s", sum.Round(10*time.Second))
}

// What goes with a cell besides what is measured: a fresh database, streams and
// programs; and, a second, how many events are published, filled in or recounted.
const (
	setUp         = 1500 * time.Millisecond
	publishRate   = 40_000
	fillRate      = 25_000
	supposedDrain = 8_000
)

func (s Size) receiverTime() time.Duration {
	cell := s.WarmUp + s.Measure + time.Second
	return time.Duration(3*len(s.Senders)*s.Rounds) * cell
}

func (s Size) workerTime() time.Duration {
	return time.Duration(5*s.Drains) * (setUp + min(s.Bound, seconds(s.Backlog, supposedDrain)) + seconds(s.Backlog, publishRate) + seconds(s.Backlog, supposedDrain)/2)
}

func (s Size) ledgerTime() time.Duration {
	return time.Duration(2*2*len(s.Batches)*s.Rounds)*s.Ledger + setUp
}

func (s Size) openTime() time.Duration {
	o := s.Open
	cells, seeks := len(o.Senders)+1+len(o.Rates)+4+2, 1
	if o.Alone {
		cells, seeks = cells+2, 2
	}
	each, once := setUp, time.Duration(0)
	if o.Shared {
		each, once = 0, setUp
	}
	return once + time.Duration(cells)*(each+o.WarmUp+o.Measure+time.Second) + time.Duration(seeks)*(each+time.Duration(o.Tries)*(o.WarmUp+o.Probe+time.Second))
}

func (s Size) backlogTime() time.Duration {
	b := s.Backlogs
	cells, n := len(b.Workers), b.Backlog*len(b.Workers)+b.Long
	if b.Long > 0 {
		cells++
	}
	return time.Duration(cells)*2*setUp + seconds(n, publishRate) + seconds(n, supposedDrain)
}

func (s Size) growthTime() time.Duration {
	var sum time.Duration
	for _, rows := range s.Growth.Rows {
		drain := func(n int) time.Duration {
			return setUp + seconds(n, publishRate) + min(s.Growth.Bound, seconds(n, supposedDrain))
		}
		sum += 2 * (setUp + seconds(rows, fillRate) + drain(s.Growth.Backlog))
		if rows > 0 {
			sum += time.Duration(len(s.Growth.Workers)) * drain(s.Growth.Shared)
		}
	}
	return sum
}

func (s Size) idleTime() time.Duration { return setUp + s.Idle.Settle + s.Idle.Measure }

func seconds(n, perSecond int) time.Duration {
	return time.Duration(n) * time.Second / time.Duration(perSecond)
}
