package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/onceledger/onceledger/bench/contender"
	"github.com/onceledger/onceledger/bench/load"
	"github.com/onceledger/onceledger/bench/rig"
)

// Contention is how much of each contender is measured.
type Contention struct {
	// Rounds is how often each cell is measured.
	Rounds int
	// Senders are the numbers of concurrent senders end to end, Storm is that of
	// the retry storm.
	Senders []int
	Storm   int
	// WarmUp goes before Measure, which counts acks. Both are part of the way end
	// to end, which ends when the ledger is complete.
	WarmUp, Measure time.Duration
	// Backlog is what a system that posts in batches has to drain, and Small what
	// one has that posts one by one: in about the same time.
	Backlog, Small int
	// Rows are how many events are there already where the plain handler is measured
	// once more, end to end with as many senders as the storm; 0: it is not.
	Rows int
	// Limit ends the wait for a ledger that does not become complete.
	Limit time.Duration
}

// storm is the share of resends in a retry storm.
const storm = 0.5

// The sizes.
var (
	shortContention = Contention{
		Rounds: 1, Senders: []int{256}, Storm: 256, WarmUp: 300 * time.Millisecond, Measure: 1500 * time.Millisecond,
		Backlog: 24_000, Small: 1000, Limit: 30 * time.Second,
	}
	fullContention = Contention{
		Rounds: 2, Senders: []int{64, 256}, Storm: 256, WarmUp: 500 * time.Millisecond, Measure: 4 * time.Second,
		Backlog: 80_000, Small: 4000, Rows: 1_000_000, Limit: 45 * time.Second,
	}
	smokeContention = Contention{
		Rounds: 1, Storm: 8, WarmUp: 20 * time.Millisecond, Measure: 200 * time.Millisecond,
		Backlog: 300, Small: 100, Rows: 500, Limit: 20 * time.Second,
	}
)

// time is about how long it takes.
func (c Contention) time() time.Duration {
	systems := len(rig.Systems())
	sending := time.Duration(systems*(len(c.Senders)+1)) * (setUp + c.WarmUp + c.Measure + time.Second)
	draining := time.Duration(systems) * (setUp + seconds(c.Backlog, supposedDrain))
	filling := seconds(c.Rows, fillRate)
	return time.Duration(c.Rounds) * (sending + draining + filling)
}

// Work is what is asked of a contender.
type Work string

// The kinds of work. In each, one account is in every event.
const (
	EndToEnd   Work = "end to end"
	Drain      Work = "drain"
	RetryStorm Work = "retry storm"
)

// ContenderCell is one system doing one kind of work.
type ContenderCell struct {
	Work Work   `json:"work"`
	Name string `json:"name"`
	// Senders is 0 in a drain.
	Senders int `json:"senders,omitempty"`
	// Rows are the events that were in the ledger already.
	Rows int `json:"rows,omitempty"`
	// EventsPerSecond counts different events from the first request, or from the
	// first look at a running drain, until the ledger was complete; the mean of
	// Rounds.
	EventsPerSecond float64   `json:"events_per_second"`
	Rounds          []float64 `json:"rounds"`
	// AcksPerSecond counts 2xx; P50 and P99 are milliseconds to one.
	AcksPerSecond float64 `json:"acks_per_second,omitempty"`
	P50           float64 `json:"p50_ms,omitempty"`
	P99           float64 `json:"p99_ms,omitempty"`
	// Refused counts deliveries without a 2xx.
	Refused int `json:"refused,omitempty"`
	// Verdict is what the recounts found, in the sum.
	Verdict Verdict `json:"verdict"`
	// Cost is per event.
	Cost PerEvent `json:"cost"`

	system   rig.System
	acks     int
	measured time.Duration
	latency  *hdrhistogram.Histogram
	cost     rig.Cost
}

// contenders gives every system the same work, in turn.
func (s *session) contenders(ctx context.Context) ([]ContenderCell, error) {
	cells := s.contenderCells()
	for range s.Size.Contention.Rounds {
		for i := range cells {
			c := &cells[i]
			if err := s.contend(ctx, c); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", c.Work, c.Name, err)
			}
		}
	}
	for i := range cells {
		c := &cells[i]
		c.EventsPerSecond = mean(c.Rounds)
		c.Cost = perEvent(c.cost, c.Verdict.Posted)
		if c.Senders > 0 {
			c.AcksPerSecond = float64(c.acks) / c.measured.Seconds()
			c.P50, c.P99 = milliseconds(c.latency, 50), milliseconds(c.latency, 99)
		}
	}
	return cells, nil
}

func (s *session) contenderCells() (cells []ContenderCell) {
	size := s.Size.Contention
	add := func(work Work, senders, rows int) {
		for _, system := range rig.Systems() {
			if work == Drain && !system.Queue() || rows > 0 && system.Name() != contender.Naive {
				continue
			}
			cells = append(cells, ContenderCell{
				Work: work, Name: system.Name(), Senders: senders, Rows: rows, system: system, latency: load.NewHistogram(),
			})
		}
	}
	for _, n := range size.Senders {
		add(EndToEnd, n, 0)
	}
	add(RetryStorm, size.Storm, 0)
	add(Drain, 0, 0)
	if size.Rows > 0 {
		add(EndToEnd, size.Storm, size.Rows)
	}
	return cells
}

// round is what one system did once.
type round struct {
	asked
	// before is what of it was done before took began.
	before int
	took   time.Duration
	left   int
	cost   rig.Cost
}

// contend adds one round to c, and holds the ledger against what was sent. What a
// contender lost or doubled is a result; onceledger must not.
func (s *session) contend(ctx context.Context, c *ContenderCell) error {
	if err := s.rig.Reset(ctx); err != nil {
		return err
	}
	if err := c.system.Prepare(ctx, s.rig); err != nil {
		return err
	}
	if c.Rows > 0 {
		if err := contender.FillTables(ctx, s.rig.Catalog.Config, c.Rows); err != nil {
			return err
		}
	}
	do := s.drainOnce
	if c.Senders > 0 {
		do = s.sendOnce
	}
	r, err := do(ctx, c)
	if err != nil {
		return err
	}
	books, err := c.system.Recount(ctx, s.rig)
	if err != nil {
		return err
	}
	v := judge(r.asked, r.left, books)
	if _, theirs := contender.Find(c.Name); !theirs && v.Wrong() {
		return mismatch("of %d events it %s", r.events, v)
	}

	rate := float64(v.Posted-r.before) / r.took.Seconds()
	c.Rounds = append(c.Rounds, rate)
	c.Verdict.add(v)
	c.cost.Add(r.cost)
	s.say("%-12s %4d senders, %7d rows, %-24s %8.0f events/s   %6d in %5.2f s   others' load %.1f cores   %s",
		c.Work, c.Senders, c.Rows, c.Name, rate, v.Posted, r.took.Seconds(), r.cost.Foreign(), v)
	return nil
}
