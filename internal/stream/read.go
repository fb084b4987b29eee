package stream

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/pkg/envelope"
)

const (
	// ReadBatch is how many messages one request asks the broker for.
	ReadBatch = 1000
	// readBytes bounds such a batch.
	readBytes = 8 << 20
)

// Read returns the messages of EVENTS from sequence first on up to last, past
// gaps, at most ReadBatch of them; none where what follows was deleted.
func Read(ctx context.Context, js jetstream.JetStream, first, last uint64) ([]*envelope.Stored, error) {
	found, err := envelope.Read(ctx, js, Events, envelope.Range{From: first, Messages: ReadBatch, Bytes: readBytes})
	if err != nil {
		return nil, err
	}
	for i, m := range found {
		if m.Seq > last {
			return found[:i], nil
		}
	}
	return found, nil
}

// FirstFrom returns the first message of EVENTS with this sequence or a later
// one; nil if there is none.
func FirstFrom(ctx context.Context, js jetstream.JetStream, seq uint64) (*envelope.Stored, error) {
	return first(ctx, js, envelope.Range{From: seq})
}

// FirstSince returns the first message of EVENTS that was stored at a time or
// later; nil if there is none.
func FirstSince(ctx context.Context, js jetstream.JetStream, at time.Time) (*envelope.Stored, error) {
	return first(ctx, js, envelope.Range{Since: at})
}

func first(ctx context.Context, js jetstream.JetStream, r envelope.Range) (*envelope.Stored, error) {
	r.Messages = 1
	found, err := envelope.Read(ctx, js, Events, r)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}
