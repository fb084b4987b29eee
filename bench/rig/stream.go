package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/onceledger/onceledger/bench/traffic"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/envelope"
)

const (
	// publishBatch is the broker's own bound of an atomic batch.
	publishBatch = 1000
	// readLimit bounds one read of a whole stream.
	readLimit = time.Minute
)

// Publish stores the charges of the given numbers in order, as a receiver
// would, and returns when the stream has them on disk.
func (r *Rig) Publish(ctx context.Context, charges *traffic.Charges, numbers []int) error {
	for chunk := range slices.Chunk(numbers, publishBatch) {
		msgs, err := r.Wrap(charges, chunk)
		if err != nil {
			return err
		}
		if err := r.Store(ctx, msgs); err != nil {
			return err
		}
	}
	return nil
}

// Wrap makes the messages that a receiver stores of charges.
func (r *Rig) Wrap(charges *traffic.Charges, numbers []int) (msgs []*nats.Msg, err error) {
	source := r.Catalog.Sources[Source]
	header := http.Header{"Content-Type": {"application/json"}}
	msgs = make([]*nats.Msg, len(numbers))
	for i, number := range numbers {
		if msgs[i], err = source.Events(provider.Post(header, charges.Append(nil, number)), time.Now())[0].Msg(); err != nil {
			return nil, err
		}
	}
	return msgs, nil
}

// Store publishes messages as one batch, at most 1,000, and returns when the stream has
// them on disk.
func (r *Rig) Store(ctx context.Context, msgs []*nats.Msg) error {
	if _, err := jetstreamext.PublishMsgBatch(ctx, r.conn.JS, msgs); err != nil {
		return fmt.Errorf("publish batch: %w", err)
	}
	return nil
}

// Purge empties the stream of events.
func (r *Rig) Purge(ctx context.Context) error {
	events, err := r.conn.JS.Stream(ctx, stream.Events)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", stream.Events, err)
	}
	if err := events.Purge(ctx); err != nil {
		return fmt.Errorf("empty stream %s: %w", stream.Events, err)
	}
	return nil
}

// Stored is what a stream holds.
type Stored struct {
	Messages int
	// Distinct counts the different event ids among them.
	Distinct int
}

// CountEvents reads the whole stream of events, and empties it.
func (r *Rig) CountEvents(ctx context.Context) (Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	events, err := r.conn.JS.Stream(ctx, stream.Events)
	if err != nil {
		return Stored{}, fmt.Errorf("open stream %s: %w", stream.Events, err)
	}
	got := Stored{Messages: int(events.CachedInfo().State.Msgs)}
	ids := make(map[string]struct{}, got.Messages)
	if got.Messages > 0 {
		consumer, err := events.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{HeadersOnly: true})
		if err != nil {
			return Stored{}, fmt.Errorf("read stream %s: %w", stream.Events, err)
		}
		messages, err := consumer.Messages(jetstream.PullMaxMessages(publishBatch))
		if err != nil {
			return Stored{}, fmt.Errorf("read stream %s: %w", stream.Events, err)
		}
		defer messages.Stop()
		for range got.Messages {
			msg, err := messages.Next(jetstream.NextContext(ctx))
			if err != nil {
				return Stored{}, fmt.Errorf("read stream %s: %w", stream.Events, err)
			}
			ids[msg.Headers().Get(envelope.HeaderID)] = struct{}{}
		}
	}
	got.Distinct = len(ids)
	return got, r.Purge(ctx)
}

// Letters counts the dead letters.
func (r *Rig) Letters(ctx context.Context) (int, error) {
	letters, err := r.conn.JS.Stream(ctx, stream.DLQ)
	if err != nil {
		return 0, fmt.Errorf("open stream %s: %w", stream.DLQ, err)
	}
	return int(letters.CachedInfo().State.Msgs), nil
}

// Progress is how far the workers are.
type Progress struct {
	// Acked deliveries of the stream's Total are done with.
	Acked, Total int
	// Took is from the first worker's readiness to consume to the last
	// acknowledgement, or until now when something is left. Both times are the
	// broker's.
	Took time.Duration
	// Until is when Took ended.
	Until time.Time
}

// Done reports whether nothing is left.
func (p Progress) Done() bool { return p.Total > 0 && p.Acked == p.Total }

// Progress asks the broker; before a worker came it is zero.
func (r *Rig) Progress(ctx context.Context) (Progress, error) {
	consumer, err := r.conn.JS.Consumer(ctx, stream.Events, stream.Consumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return Progress{}, nil
	}
	if err != nil {
		return Progress{}, fmt.Errorf("look at consumer %s: %w", stream.Consumer, err)
	}
	events, err := r.conn.JS.Stream(ctx, stream.Events)
	if err != nil {
		return Progress{}, fmt.Errorf("open stream %s: %w", stream.Events, err)
	}
	info := consumer.CachedInfo()
	// The stream is new, so that its sequences count its messages. NumPending
	// would not do: a consumer that was just created says 0, whatever waits.
	p := Progress{Total: int(events.CachedInfo().State.LastSeq)}
	p.Acked = int(info.Delivered.Stream) - info.NumAckPending
	until := info.TimeStamp
	if last := info.AckFloor.Last; p.Done() && last != nil {
		until = *last
	}
	p.Took, p.Until = until.Sub(info.Created), until
	return p, nil
}

func (r *Rig) dropStream(ctx context.Context, name string) error {
	if err := r.conn.JS.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("remove stream %s: %w", name, err)
	}
	return nil
}

// Messages is how many messages the stream of events has got so far.
func (r *Rig) Messages(ctx context.Context) (int, error) {
	events, err := r.conn.JS.Stream(ctx, stream.Events)
	if err != nil {
		return 0, fmt.Errorf("open stream %s: %w", stream.Events, err)
	}
	return int(events.CachedInfo().State.LastSeq), nil
}

// Pause lets the workers wait, whatever comes, until the function that it returns is
// called. Their consumer must be there.
func (r *Rig) Pause(ctx context.Context) (resume func() error, err error) {
	if _, err := r.conn.JS.PauseConsumer(ctx, stream.Events, stream.Consumer, time.Now().Add(time.Hour)); err != nil {
		return nil, fmt.Errorf("pause consumer %s: %w", stream.Consumer, err)
	}
	return func() error {
		if _, err := r.conn.JS.ResumeConsumer(ctx, stream.Events, stream.Consumer); err != nil {
			return fmt.Errorf("resume consumer %s: %w", stream.Consumer, err)
		}
		return nil
	}, nil
}
