package dlq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/pkg/envelope"
)

const (
	// listBatch is how many letters one request asks the broker for, and
	// listBytes bounds them: letters may be large.
	listBatch = 500
	listBytes = 8 << 20
	// listTimeout bounds one such request.
	listTimeout = 30 * time.Second
)

// List calls each for every letter that filter selects, oldest first, up to the
// last one stored when it began; letters that are removed meanwhile are passed
// over. It stops at each's first error and returns it. Memory is bounded by a
// batch of 500 letters or 8 MiB.
func List(ctx context.Context, js jetstream.JetStream, filter Filter, each func(*Letter) error) error {
	stream, err := js.Stream(ctx, Stream)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", Stream, err)
	}
	last := stream.CachedInfo().State.LastSeq
	if filter.To != 0 {
		last = min(last, filter.To)
	}
	for next := max(filter.From, 1); next <= last; {
		batch, err := readBatch(ctx, js, filter, next)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			return nil
		}
		if batch[len(batch)-1].Seq < next {
			return fmt.Errorf("read stream %s: the broker answered with letter %d, asked from %d on", Stream, batch[len(batch)-1].Seq, next)
		}
		next = batch[len(batch)-1].Seq + 1
		for _, l := range batch {
			if l.Seq > last {
				return nil
			}
			if !filter.Selects(l) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("read stream %s: %w", Stream, err)
			}
			if err := each(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// readBatch reads letters of the filter's subject from a sequence on, past gaps.
func readBatch(ctx context.Context, js jetstream.JetStream, filter Filter, from uint64) ([]*Letter, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	stored, err := envelope.Read(ctx, js, Stream, envelope.Range{From: from, Subject: filter.subject(), Messages: listBatch, Bytes: listBytes})
	if err != nil {
		return nil, err
	}
	batch := make([]*Letter, len(stored))
	for i, m := range stored {
		batch[i] = letterOf(m)
	}
	return batch, nil
}

func letterOf(m *envelope.Stored) *Letter {
	letter := read(m.Header, m.Data)
	letter.Seq, letter.Parked = m.Seq, m.Time
	return letter
}

// Get returns one letter; ErrNotFound if there is none with that sequence.
func Get(ctx context.Context, js jetstream.JetStream, seq uint64) (*Letter, error) {
	if _, err := js.Stream(ctx, Stream); err != nil {
		return nil, fmt.Errorf("open stream %s: %w", Stream, err)
	}
	m, err := envelope.ReadOne(ctx, js, Stream, seq)
	if errors.Is(err, envelope.ErrNotStored) {
		return nil, fmt.Errorf("%w: %d", ErrNotFound, seq)
	}
	if err != nil {
		return nil, err
	}
	return letterOf(m), nil
}
