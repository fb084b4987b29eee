package measure

import (
	"context"
	"time"

	"github.com/onceledger/onceledger/bench/traffic"
)

// BareCell is the broker alone: batches of ready messages, one after the other, as a
// receiver's one committer can store them at best.
type BareCell struct {
	// Batch is half of so many senders: one half waits while the other is stored.
	Batch   int `json:"batch"`
	Senders int `json:"senders"`
	// MessagesPerSecond is the mean of Rounds.
	MessagesPerSecond float64   `json:"messages_per_second"`
	Rounds            []float64 `json:"rounds"`
	Cost              PerEvent  `json:"cost"`
}

// bareCells are those of the numbers of senders from which batches follow.
func (s *session) bareCells() (cells []BareCell) {
	for _, senders := range s.Size.Senders {
		if senders >= leastBatched {
			cells = append(cells, BareCell{Batch: senders / 2, Senders: senders})
		}
	}
	return cells
}

// leastBatched is where a receiver publishes batches: see receiver.costs.
const leastBatched = 32

// bare adds one round to c.
func (s *session) bare(ctx context.Context, c *BareCell) error {
	msgs, err := s.rig.Wrap(traffic.NewCharges(s.tag(), s.Size.BodySize), traffic.Distinct(c.Batch))
	if err != nil {
		return err
	}
	stop, n := s.rig.Meter(nil), 0
	began := time.Now()
	for n == 0 || time.Since(began) < s.Size.Measure {
		if err := s.rig.Store(ctx, msgs); err != nil {
			return err
		}
		n += len(msgs)
	}
	took, cost := time.Since(began), stop()
	if err := s.rig.Purge(ctx); err != nil {
		return err
	}
	rate := float64(n) / took.Seconds()
	c.Rounds = append(c.Rounds, rate)
	c.MessagesPerSecond = mean(c.Rounds)
	c.Cost = perEvent(cost, n)
	s.say("%4d a batch, broker alone  %8.0f messages/s   others' load %.1f cores", c.Batch, rate, cost.Foreign())
	return nil
}
