package resend

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// Undelivered returns when the first message was stored that no worker has been
// given; zero if there is none. A copy of an event that became what it is later
// than that may be among what is still to come.
func (s *Sender) Undelivered(ctx context.Context) (time.Time, error) {
	consumer, err := s.Events.Consumer(ctx, stream.Consumer)
	if err != nil {
		return time.Time{}, fmt.Errorf("read consumer: %w", err)
	}
	next, err := stream.FirstFrom(ctx, s.JS, consumer.CachedInfo().Delivered.Stream+1)
	if err != nil || next == nil {
		return time.Time{}, err
	}
	return next.Time, nil
}

// Undecided sends the event of a row again that waits, or whose attempt has
// begun, and for which nothing will come: from its message, or else from has, a
// delivery at hand, or from its dead letter. The row is made pending first, and
// the action recorded, so that of two senders one does it: dedupe.ErrState means
// that somebody has come for it, ErrNoBytes that there is nothing to send. It
// returns the copy's sequence.
func (s *Sender) Undecided(ctx context.Context, row *dedupe.Row, has *envelope.Stored, letters *Letters, note string) (uint64, error) {
	from, err := s.Message(ctx, row)
	if err == nil && from == nil && has != nil && sha256.Sum256(has.Data) == row.BodyHash {
		from = has
	}
	if err == nil && from == nil {
		from, err = letters.find(ctx, row)
	}
	if err != nil {
		return 0, err
	}
	if from == nil {
		return 0, fmt.Errorf("send event %s of %s again: %w", row.ID, row.Source, ErrNoBytes)
	}
	if _, err := Again(from, 1); err != nil {
		return 0, fmt.Errorf("send event %s of %s again: %w: %w", row.ID, row.Source, ErrNoBytes, err)
	}
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		return dedupe.SendAgain(ctx, tx, row, dedupe.Action{Actor: s.Actor, Verb: s.Verb, Note: note})
	})
	if err != nil {
		return 0, err
	}
	msg, err := Again(from, row.Redrives)
	if err != nil {
		return 0, err
	}
	publishing, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	ack, err := s.JS.PublishMsg(publishing, msg)
	if err != nil {
		return 0, fmt.Errorf("send event %s of %s again: %w", row.ID, row.Source, err)
	}
	// Where the copy lies tells who looks next that it is still to come.
	return ack.Sequence, dedupe.Sent(ctx, s.Pool, s.Stream.Created, map[int64]uint64{row.No: ack.Sequence})
}

// Message returns the message that row names, nil if the stream has it no more.
func (s *Sender) Message(ctx context.Context, row *dedupe.Row) (*envelope.Stored, error) {
	return Message(ctx, s.JS, s.Stream.Created, row)
}

// Message returns the message that row names, nil if the stream, whose
// incarnation is created, has it no more.
func Message(ctx context.Context, js jetstream.JetStream, created time.Time, row *dedupe.Row) (*envelope.Stored, error) {
	if !row.StreamCreated.Equal(created) {
		return nil, nil
	}
	found, err := envelope.ReadOne(ctx, js, stream.Events, row.Seq)
	switch {
	case errors.Is(err, envelope.ErrNotStored):
		return nil, nil
	case err != nil:
		return nil, err
	case sha256.Sum256(found.Data) != row.BodyHash:
		return nil, nil
	}
	return found, nil
}

// Letters finds the letters of events whose message the stream has no more: a
// redrive that was cut short leaves one behind. It reads the letters once.
type Letters struct {
	JS   jetstream.JetStream
	read bool
	by   map[dedupe.Key]letterOf
}

type letterOf struct {
	seq  uint64
	hash [32]byte
}

// find returns the bytes of the newest letter with row's key and body.
func (b *Letters) find(ctx context.Context, row *dedupe.Row) (*envelope.Stored, error) {
	if !b.read {
		b.by = map[dedupe.Key]letterOf{}
		err := dlq.List(ctx, b.JS, dlq.Filter{}, func(l *dlq.Letter) error {
			b.by[dedupe.Key{Source: l.Source, ID: l.EventID, Variant: l.Variant}] = letterOf{l.Seq, sha256.Sum256(l.Data)}
			return nil
		})
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, err
		}
		b.read = true
	}
	of, ok := b.by[row.Key]
	if !ok || of.hash != row.BodyHash {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	l, err := dlq.Get(ctx, b.JS, of.seq)
	if errors.Is(err, dlq.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &envelope.Stored{Header: l.Header, Data: l.Data}, nil
}
