package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/onceledger/onceledger/bench/load"
	"github.com/onceledger/onceledger/bench/rig"
)

// ReceiverCell is one way to publish under one number of senders.
type ReceiverCell struct {
	Publishing rig.Publishing `json:"publishing"`
	Senders    int            `json:"senders"`
	// AcksPerSecond is the mean of Rounds.
	AcksPerSecond float64   `json:"acks_per_second"`
	Rounds        []float64 `json:"rounds"`
	// P50 and P99 are milliseconds to an answer, over all rounds.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	// Accepted and Stored were found equal; Failed got another answer or none.
	Accepted int      `json:"accepted"`
	Stored   int      `json:"stored"`
	Failed   int      `json:"failed"`
	Cost     PerEvent `json:"cost"`

	latency *hdrhistogram.Histogram
	cost    rig.Cost
}

// receivers runs both receivers side by side, one of them always idle, and
// sends to them in turn, and to the broker alone.
func (s *session) receivers(ctx context.Context) (cells []ReceiverCell, bare []BareCell, err error) {
	if err := s.rig.Reset(ctx); err != nil {
		return nil, nil, err
	}
	arms := []rig.Publishing{rig.GroupCommit, rig.OneByOne}
	programs := map[rig.Publishing]*rig.Program{}
	for _, arm := range arms {
		program, err := s.rig.StartReceiver(ctx, arm)
		if err != nil {
			return nil, nil, err
		}
		programs[arm] = program
		defer func() { err = errors.Join(err, program.Stop(context.WithoutCancel(ctx))) }()
	}

	for _, senders := range s.Size.Senders {
		for _, arm := range arms {
			cells = append(cells, ReceiverCell{Publishing: arm, Senders: senders, latency: load.NewHistogram()})
		}
	}
	bare = s.bareCells()
	for range s.Size.Rounds {
		for i := range cells {
			if err := s.receive(ctx, &cells[i], programs[cells[i].Publishing]); err != nil {
				return nil, nil, err
			}
		}
		for i := range bare {
			if err := s.bare(ctx, &bare[i]); err != nil {
				return nil, nil, err
			}
		}
	}
	for i := range cells {
		c := &cells[i]
		c.AcksPerSecond = mean(c.Rounds)
		c.P50, c.P99 = milliseconds(c.latency, 50), milliseconds(c.latency, 99)
		c.Cost = perEvent(c.cost, c.Accepted)
	}
	return cells, bare, nil
}

// receive adds one round to c.
func (s *session) receive(ctx context.Context, c *ReceiverCell, program *rig.Program) error {
	stop := s.rig.Meter(map[string]*rig.Program{"receiver": program})
	got, err := load.Run(ctx, load.Plan{
		URL: program.URL, Config: s.rig.ConfigPath(), Source: rig.Source,
		Tag: s.tag(), Size: s.Size.BodySize, Senders: c.Senders,
		WarmUp: s.Size.WarmUp, Measure: s.Size.Measure,
	})
	if err != nil {
		return err
	}
	cost := stop()
	cost.Of["load"] = got.CPU
	stored, err := s.rig.CountEvents(ctx)
	if err != nil {
		return err
	}
	if err := compare(got, stored); err != nil {
		return fmt.Errorf("%s, %d senders: %w", c.Publishing, c.Senders, err)
	}

	rate := float64(got.Measured) / s.Size.Measure.Seconds()
	c.Rounds = append(c.Rounds, rate)
	c.Accepted += got.Accepted
	c.Stored += stored.Messages
	c.Failed += got.Failed()
	c.latency.Merge(got.Latency)
	c.cost.Add(cost)
	s.say("%4d senders, %-12s %8.0f acks/s   p50 %7.2f ms   p99 %7.2f ms   others' load %.1f cores",
		c.Senders, c.Publishing, rate, milliseconds(got.Latency, 50), milliseconds(got.Latency, 99), cost.Foreign())
	return nil
}

// compare holds the answers against the stream. What was not accepted may be
// stored all the same, when only its answer was lost.
func compare(got *load.Result, stored rig.Stored) error {
	switch {
	case stored.Distinct != stored.Messages:
		return mismatch("the stream holds %d messages of %d different events, though each was sent once", stored.Messages, stored.Distinct)
	case stored.Messages < got.Accepted:
		return mismatch("%d were accepted and only %d are in the stream", got.Accepted, stored.Messages)
	case stored.Messages > got.Accepted+got.Failed():
		return mismatch("%d were sent and %d are in the stream", got.Accepted+got.Failed(), stored.Messages)
	case got.Accepted == 0:
		return mismatch("nothing was accepted; answers: %v, none: %d", got.Refused, got.Unanswered)
	}
	return nil
}

func milliseconds(h *hdrhistogram.Histogram, percentile float64) float64 {
	return float64(h.ValueAtQuantile(percentile)) / float64(time.Millisecond/time.Microsecond)
}
