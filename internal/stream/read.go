package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

const (
	// ReadBatch is how many messages one request asks the broker for.
	ReadBatch = 1000
	// readBytes bounds such a batch.
	readBytes = 8 << 20
	// readTimeout bounds one batch.
	readTimeout = 30 * time.Second
)

// Read returns the messages of EVENTS from sequence first on up to last, past
// gaps, at most ReadBatch of them; none where what follows was deleted.
func Read(ctx context.Context, js jetstream.JetStream, first, last uint64) ([]*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	stored, err := jetstreamext.GetBatch(ctx, js, Events, ReadBatch,
		jetstreamext.GetBatchSeq(first), jetstreamext.GetBatchMaxBytes(readBytes))
	if err != nil {
		return nil, fmt.Errorf("read messages from %d: %w", first, err)
	}
	batch := make([]*jetstream.RawStreamMsg, 0, ReadBatch)
	for raw, err := range stored {
		if errors.Is(err, jetstreamext.ErrNoMessages) {
			return batch, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read messages from %d: %w", first, err)
		}
		if raw.Sequence > last {
			continue // let the answer end by itself
		}
		batch = append(batch, raw)
	}
	return batch, nil
}

// FirstFrom returns the first message of EVENTS with this sequence or a later
// one; nil if there is none.
func FirstFrom(ctx context.Context, js jetstream.JetStream, seq uint64) (*jetstream.RawStreamMsg, error) {
	return first(ctx, js, jetstreamext.GetBatchSeq(seq))
}

// FirstSince returns the first message of EVENTS that was stored at a time or
// later; nil if there is none.
func FirstSince(ctx context.Context, js jetstream.JetStream, at time.Time) (*jetstream.RawStreamMsg, error) {
	return first(ctx, js, jetstreamext.GetBatchStartTime(at))
}

func first(ctx context.Context, js jetstream.JetStream, from jetstreamext.GetBatchOpt) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := jetstreamext.GetBatch(ctx, js, Events, 1, from)
	if err != nil {
		return nil, fmt.Errorf("read messages: %w", err)
	}
	for msg, err := range found {
		if errors.Is(err, jetstreamext.ErrNoMessages) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read messages: %w", err)
		}
		return msg, nil
	}
	return nil, nil
}
