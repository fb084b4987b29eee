package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// listBatch is how many letters one request asks the broker for.
	listBatch = 256
	// listWait is how long it waits for them: so long, where letters were
	// removed since they were counted.
	listWait = 2 * time.Second
)

// Filter selects letters; its zero value selects every message of the stream,
// also those that strangers published there.
type Filter struct {
	Reason Reason
	Source string
	// After selects letters with a higher sequence.
	After uint64
}

// subject is the narrowest that holds all selected letters.
func (f Filter) subject() string {
	if f.Reason == "" && f.Source == "" {
		return "dlq.>"
	}
	return Subject(f.Reason, f.Source)
}

// selects compares what subjects cannot tell apart: a.b and a_b share one.
func (f Filter) selects(l *Letter) bool {
	return (f.Reason == "" || f.Reason == l.Reason) && (f.Source == "" || f.Source == l.Source)
}

// List calls each for every letter that filter selects, oldest first, up to the
// last one stored when it began. It stops at each's first error and returns it.
// Memory is bounded by a batch of 256 letters.
func List(ctx context.Context, js jetstream.JetStream, filter Filter, each func(*Letter) error) error {
	stream, err := js.Stream(ctx, Stream)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", Stream, err)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{filter.subject()},
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:    filter.After + 1,
	})
	if err != nil {
		return fmt.Errorf("read stream %s: %w", Stream, err)
	}
	remaining := consumer.CachedInfo().NumPending
	for remaining > 0 {
		batch, err := consumer.Fetch(int(min(remaining, listBatch)), jetstream.FetchMaxWait(listWait))
		if err != nil {
			return fmt.Errorf("read stream %s: %w", Stream, err)
		}
		got := uint64(0)
		for msg := range batch.Messages() {
			meta, err := msg.Metadata()
			if err != nil {
				return fmt.Errorf("read stream %s: %w", Stream, err)
			}
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("read stream %s: %w", Stream, err)
			}
			got++
			letter := read(msg.Headers(), msg.Data())
			letter.Seq, letter.Parked = meta.Sequence.Stream, meta.Timestamp.UTC()
			if !filter.selects(letter) {
				continue
			}
			if err := each(letter); err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil {
			return fmt.Errorf("read stream %s: %w", Stream, err)
		}
		if got == 0 {
			return nil // letters were removed meanwhile
		}
		remaining -= min(got, remaining)
	}
	return nil
}

// Get returns one letter; ErrNotFound if there is none with that sequence.
func Get(ctx context.Context, js jetstream.JetStream, seq uint64) (*Letter, error) {
	stream, err := js.Stream(ctx, Stream)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", Stream, err)
	}
	msg, err := stream.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, fmt.Errorf("%w: %d", ErrNotFound, seq)
	}
	if err != nil {
		return nil, fmt.Errorf("read dead letter %d: %w", seq, err)
	}
	letter := read(msg.Header, msg.Data)
	letter.Seq, letter.Parked = msg.Sequence, msg.Time.UTC()
	return letter, nil
}
