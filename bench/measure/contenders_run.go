package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceledger/onceledger/bench/contender"
	"github.com/onceledger/onceledger/bench/load"
	"github.com/onceledger/onceledger/bench/rig"
	"github.com/onceledger/onceledger/bench/traffic"
)

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
		plan.Resends = storm
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
	r.took, r.cost = time.Since(got.First), stop()
	r.cost.Of["load"] = got.CPU
	r.asked = asked{events: got.Sent, lacking: got.Lacking}

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
