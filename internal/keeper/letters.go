package keeper

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// unlettered stores the letters of parked events again, from the messages that
// brought them.
func (s *sweep) unlettered(ctx context.Context) error {
	for _, row := range s.p.Unlettered {
		if err := s.letter(ctx, row); err != nil && !errors.Is(err, dedupe.ErrState) {
			return err
		}
	}
	return nil
}

func (s *sweep) letter(ctx context.Context, row *dedupe.Row) error {
	from, err := s.message(ctx, row)
	if err != nil {
		return err
	}
	if from == nil {
		s.unrepairable++
		return nil
	}
	// The name that the worker gives it, so that the two store one letter; but
	// never that of the letter which is gone.
	once := fmt.Sprintf("%d/%d/%x", row.No, row.Redrives, row.BodyHash[:8])
	note := "failed, and its dead letter was never stored"
	if row.DLQSeq != 0 {
		once += fmt.Sprintf("/%d", row.DLQSeq)
		note = fmt.Sprintf("its dead letter %d is gone", row.DLQSeq)
	}
	parking, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	seq, err := dlq.Park(parking, s.JS, dlq.Letter{
		Once: once, Source: row.Source, EventID: row.ID, Variant: row.Variant,
		Reason: dlq.Reason(row.Reason), Error: row.Error, Attempts: row.Attempts,
		FirstSeen: from.at, OriginSeq: row.Seq, Header: from.header, Data: from.data,
	})
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		return dedupe.Reletter(ctx, tx, row, seq, dedupe.Action{Actor: actor, Note: note, Detail: map[string]any{"dlq_seq": seq}})
	})
	if err == nil {
		s.counts["letter"]++
	}
	return err
}

// parkUnreadable gives a message that holds no event the failed row it lost; the
// next round stores its letter.
func (s *sweep) parkUnreadable(ctx context.Context, u audit.Unaccounted, raw *envelope.Stored, cause error) error {
	hash := sha256.Sum256(raw.Data)
	row := &dedupe.Row{
		Key: u.Key, State: dedupe.Failed, Reason: string(dlq.BadEnvelope), Error: cause.Error(), Occurred: raw.Time,
		Content:  dedupe.Content{BodyHash: hash, Fingerprint: hash},
		Position: dedupe.Position{StreamCreated: s.p.Stream.Created, Seq: u.Seq},
	}
	var numbers dedupe.Numbers
	if err := numbers.Reserve(ctx, s.Pool, 1); err != nil {
		return err
	}
	row.No = numbers.Take()
	err := pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		var b pgx.Batch
		reserved := dedupe.Reserve(&b, []*dedupe.Row{row})
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return fmt.Errorf("reserve event: %w", err)
		}
		if !reserved.New(row.No) {
			return fmt.Errorf("park message %d: %w", u.Seq, dedupe.ErrState)
		}
		return dedupe.Record(ctx, tx, dedupe.Action{Actor: actor, Verb: dedupe.VerbSweep, Note: "answered, and its row is missing"}, &row.No)
	})
	if errors.Is(err, dedupe.ErrState) {
		return nil
	}
	if err == nil {
		s.counts["unreadable"]++
	}
	return err
}

// letterBox finds the letters of events whose message the stream has no more: a
// redrive that was cut short leaves one behind. It reads the letters once.
type letterBox struct {
	js   jetstream.JetStream
	read bool
	by   map[dedupe.Key]letterOf
}

type letterOf struct {
	seq  uint64
	hash [32]byte
}

// find returns the bytes of the newest letter with row's key and body.
func (b *letterBox) find(ctx context.Context, row *dedupe.Row) (*stored, error) {
	if !b.read {
		b.by = map[dedupe.Key]letterOf{}
		err := dlq.List(ctx, b.js, dlq.Filter{}, func(l *dlq.Letter) error {
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
	l, err := dlq.Get(ctx, b.js, of.seq)
	if errors.Is(err, dlq.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &stored{header: l.Header, data: l.Data}, nil
}
