package audit

import (
	"context"
	"crypto/sha256"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
)

const (
	// readBatch is how many messages are read at a time, and how many keys one
	// query looks up.
	readBatch = stream.ReadBatch
	// readAhead is how many batches are read while one is looked up.
	readAhead = 2
)

// message is one message of EVENTS on its way into the sum.
type message struct {
	seq     uint64
	stored  time.Time
	key     dedupe.Key
	hash    [32]byte
	redrive bool
	// copy is the message with which this one was sent again; 0 if none.
	copy uint64
	// carried is set if an earlier run has read the message, so that its bytes
	// are not at hand.
	carried bool
	// open is set while the message is in audit_open.
	open bool
	// event is nil if the message holds none, or once its meaning is known.
	event *envelope.Event
	// meaning is set once somebody asked for it.
	meaning *dedupe.Content
	// raw is kept in a survey.
	raw *jetstream.RawStreamMsg
}

// messages reads the stream up to the fixed end, a batch ahead of the rows.
func (a *auditor) messages(ctx context.Context) error {
	batches := make(chan []*message, readAhead)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(batches)
		return a.readAll(ctx, batches, max(a.report.Stream.First, 1), a.report.Stream.Last)
	})
	group.Go(func() error {
		for batch := range batches {
			if err := a.account(ctx, batch); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

func (a *auditor) readAll(ctx context.Context, batches chan<- []*message, first, last uint64) error {
	for next := first; next <= last; {
		batch, err := a.readBatch(ctx, next, last)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			return nil // what follows was deleted
		}
		next = batch[len(batch)-1].seq + 1
		select {
		case batches <- batch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// readBatch reads messages from sequence first on up to last, past gaps.
func (a *auditor) readBatch(ctx context.Context, first, last uint64) ([]*message, error) {
	stored, err := stream.Read(ctx, a.JS, first, last)
	if err != nil {
		return nil, err
	}
	batch := make([]*message, len(stored))
	for i, raw := range stored {
		batch[i] = a.decode(raw)
	}
	return batch, nil
}

// decode reads a message as the worker does.
func (a *auditor) decode(raw *jetstream.RawStreamMsg) *message {
	m := &message{seq: raw.Sequence, stored: raw.Time, hash: sha256.Sum256(raw.Data)}
	if a.survey != nil {
		m.raw = raw
	}
	event, err := envelope.Decode(raw.Header, raw.Data)
	if err != nil {
		m.key = dedupe.Unreadable(dedupe.Position{StreamCreated: a.created, Seq: raw.Sequence})
		return m
	}
	m.event, m.redrive = event, event.Redrive > 0
	m.key = dedupe.Key{Source: event.Source, ID: event.ID}
	return m
}

// account puts a batch of messages into the sum.
func (a *auditor) account(ctx context.Context, batch []*message) error {
	found, err := a.lookUp(ctx, batch)
	if err != nil {
		return err
	}
	for _, m := range batch {
		class, err := a.classify(ctx, m, found)
		if err != nil {
			return err
		}
		a.report.Sum.Messages++
		if class.problem != "" && a.suspect(m, class) {
			continue // it is counted when it has been looked at again
		}
		a.count(m, class)
	}
	return nil
}

// lookUp reads the rows of messages: those of their keys, and where these do
// not explain the bytes, those of parked conflicts, and what was sent again.
func (a *auditor) lookUp(ctx context.Context, batch []*message) (map[dedupe.Key]*dedupe.Row, error) {
	keys := make([]dedupe.Key, len(batch))
	for i, m := range batch {
		keys[i] = m.key
	}
	found, err := dedupe.Read(ctx, a.Pool, keys)
	if err != nil {
		return nil, err
	}
	var variants []dedupe.Key
	for _, m := range batch {
		if row := found[m.key]; row == nil || row.BodyHash != m.hash {
			variants = append(variants, dedupe.Conflict(m.key, m.hash))
		}
	}
	if len(variants) > 0 {
		conflicts, err := dedupe.Read(ctx, a.Pool, variants)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, conflicts)
	}
	return found, a.copied(ctx, batch, found)
}
