package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/onceledger/onceledger/bench/contender"
	"github.com/onceledger/onceledger/bench/load"
	"github.com/onceledger/onceledger/bench/rig"
	"github.com/onceledger/onceledger/bench/traffic"
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
	// Limit ends the wait for a ledger that does not become complete.
	Limit time.Duration
	// Twice is about how many deliveries lie between the two of an event in the
	// retry storm.
	Twice int
}

// The sizes.
var (
	fullContention = Contention{
		Rounds: 2, Senders: []int{64, 256}, Storm: 256, WarmUp: 500 * time.Millisecond, Measure: 4 * time.Second,
		Backlog: 80_000, Small: 4000, Limit: 45 * time.Second, Twice: 2000,
	}
	smokeContention = Contention{
		Rounds: 1, Storm: 8, WarmUp: 20 * time.Millisecond, Measure: 200 * time.Millisecond,
		Backlog: 300, Small: 100, Limit: 20 * time.Second, Twice: 20,
	}
)

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
	add := func(work Work, senders int) {
		for _, system := range rig.Systems() {
			if work == Drain && !system.Queue() {
				continue
			}
			cells = append(cells, ContenderCell{
				Work: work, Name: system.Name(), Senders: senders, system: system, latency: load.NewHistogram(),
			})
		}
	}
	for _, n := range s.Size.Contention.Senders {
		add(EndToEnd, n)
	}
	add(RetryStorm, s.Size.Contention.Storm)
	add(Drain, 0)
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
	if _, ours := contender.Find(c.Name); !ours && v.Wrong() {
		return mismatch("of %d events it %s", r.events, v)
	}

	rate := float64(v.Posted-r.before) / r.took.Seconds()
	c.Rounds = append(c.Rounds, rate)
	c.Verdict.add(v)
	c.cost.Add(r.cost)
	s.say("%-12s %4d senders, %-24s %8.0f events/s   %6d in %5.2f s   others' load %.1f cores   %s",
		c.Work, c.Senders, c.Name, rate, v.Posted, r.took.Seconds(), r.cost.Foreign(), v)
	return nil
}

// sendOnce sends for a while and waits until the ledger is complete.
func (s *session) sendOnce(ctx context.Context, c *ContenderCell) (r round, err error) {
	size := s.Size.Contention
	running, err := c.system.Start(ctx, s.rig, contender.Parts{Serve: true, Work: true})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, running.Stop(context.WithoutCancel(ctx))) }()
	plan := load.Plan{
		URL: running.URL, Config: s.rig.ConfigPath(), Source: rig.Source,
		Tag: s.tag(), Size: s.Size.BodySize, Senders: c.Senders, WarmUp: size.WarmUp, Measure: size.Measure,
	}
	if c.Work == RetryStorm {
		plan.Twice = size.Twice
	}
	stop := s.rig.Meter(running.Programs)
	got, err := load.Run(ctx, plan)
	if err != nil {
		return r, err
	}
	left, unwatch, err := c.system.Watch(ctx, s.rig)
	if err != nil {
		return r, err
	}
	defer unwatch()
	if r.left, err = s.wait(ctx, running, left, 0); err != nil {
		return r, err
	}
	r.took, r.cost = time.Since(got.Began), stop()
	r.cost.Of["load"] = got.CPU
	r.asked = asked{events: got.Events, lacking: got.Lacking}

	c.acks += got.Measured
	c.measured += size.Measure
	c.Refused += got.Failed()
	c.latency.Merge(got.Latency)
	return r, nil
}

// drainOnce times a backlog from the first look at which some of it is done.
func (s *session) drainOnce(ctx context.Context, c *ContenderCell) (r round, err error) {
	r.events = s.Size.Contention.Small
	if c.system.Batches() {
		r.events = s.Size.Contention.Backlog
	}
	if err := c.system.Fill(ctx, s.rig, traffic.NewCharges(s.tag(), s.Size.BodySize), traffic.Distinct(r.events)); err != nil {
		return r, err
	}
	left, unwatch, err := c.system.Watch(ctx, s.rig)
	if err != nil {
		return r, err
	}
	defer unwatch()
	began := time.Now()
	running, err := c.system.Start(ctx, s.rig, contender.Parts{Work: true})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, running.Stop(context.WithoutCancel(ctx))) }()
	stop := s.rig.Meter(running.Programs)
	if r.left, err = s.wait(ctx, running, left, r.events-1); err != nil {
		return r, err
	}
	if r.left > 0 { // else it was too quick to see it begin
		r.before, began = r.events-r.left, time.Now()
		r.left, err = s.wait(ctx, running, left, 0)
	}
	r.took, r.cost = time.Since(began), stop()
	return r, err
}

// wait waits until at most so many deliveries are left, or for as long as the
// limit, and returns how many are.
func (s *session) wait(ctx context.Context, running *rig.Running, count contender.Left, most int) (left int, err error) {
	limit := time.After(s.Size.Contention.Limit)
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		if left, err = count(ctx); err != nil || left <= most {
			return left, err
		}
		if err := running.Ended(); err != nil {
			return left, err
		}
		select {
		case <-ctx.Done():
			return left, fmt.Errorf("wait for the ledger: %d deliveries are left: %w", left, ctx.Err())
		case <-limit:
			return left, nil
		case <-ticker.C:
		}
	}
}
