package keeper

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/stream"
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
	from, err := s.sender.Message(ctx, row)
	if err == nil && from == nil && s.gone(row) {
		from, err = s.copyOf(ctx, row)
	}
	if err != nil {
		return err
	}
	if from == nil {
		s.unrepairable++
		return s.unletter(ctx, row)
	}
	// The name that the worker gives it, so that the two store one letter; but
	// never that of the letter which is gone.
	once := row.LetterName(row.BodyHash)
	note := "failed, and its dead letter was never stored"
	if row.DLQSeq != 0 {
		once += fmt.Sprintf("/%d", row.DLQSeq)
		note = fmt.Sprintf("its dead letter %d is gone", row.DLQSeq)
	}
	parking, cancel := context.WithTimeout(ctx, parkTimeout)
	defer cancel()
	seq, err := dlq.Park(parking, s.JS, dlq.Letter{
		Once: once, Source: row.Source, EventID: row.ID, Variant: row.Variant,
		Reason: dlq.Reason(row.Reason), Error: row.Error, Attempts: row.Attempts,
		FirstSeen: from.Time, OriginSeq: from.Seq, Header: from.Header, Data: from.Data,
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

// gone reports whether the letter that row names is lost, and its message as well.
func (s *sweep) gone(row *dedupe.Row) bool {
	here := row.StreamCreated.Equal(s.p.Stream.Created) && row.Seq >= s.p.Stream.First
	return row.DLQSeq != 0 && !here
}

// copyOf returns another delivery of the event that row is about, nil if there is
// none: after a restore, that may be a copy which an earlier redrive sent. It
// reads the stream once for all rows of a run, each of which is asked for once.
func (s *sweep) copyOf(ctx context.Context, row *dedupe.Row) (*envelope.Stored, error) {
	if s.copies == nil {
		if err := s.findCopies(ctx); err != nil {
			return nil, err
		}
	}
	seq, ok := s.copies[audit.Content{Key: dedupe.Key{Source: row.Source, ID: row.ID}, Hash: row.BodyHash}]
	if !ok {
		return nil, nil
	}
	found, err := envelope.ReadOne(ctx, s.JS, stream.Events, seq)
	if errors.Is(err, envelope.ErrNotStored) {
		return nil, nil
	}
	return found, err
}

func (s *sweep) findCopies(ctx context.Context) error {
	s.copies = map[audit.Content]uint64{}
	wanted := make(map[audit.Content]bool, len(s.p.Unlettered))
	for _, row := range s.p.Unlettered {
		wanted[audit.Content{Key: dedupe.Key{Source: row.Source, ID: row.ID}, Hash: row.BodyHash}] = true
	}
	for next := max(s.p.Stream.First, 1); next <= s.p.Stream.Last; {
		batch, err := stream.Read(ctx, s.JS, next, s.p.Stream.Last)
		if err != nil || len(batch) == 0 {
			return err
		}
		for _, m := range batch {
			event, err := envelope.Decode(m.Header, m.Data)
			if err != nil {
				continue
			}
			content := audit.Content{Key: dedupe.Key{Source: event.Source, ID: event.ID}, Hash: sha256.Sum256(m.Data)}
			if wanted[content] {
				s.copies[content] = m.Seq
			}
		}
		next = batch[len(batch)-1].Seq + 1
	}
	return nil
}

// unletter lets the sender's next delivery store the letter of an event whose
// bytes nothing has any more: its letter is gone, and its message went before,
// with an earlier stream or with what was removed from this one.
func (s *sweep) unletter(ctx context.Context, row *dedupe.Row) error {
	if !s.gone(row) {
		return nil
	}
	note := fmt.Sprintf("its dead letter %d is gone, and so is its message: only its sender has it", row.DLQSeq)
	return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		return dedupe.Unletter(ctx, tx, row, dedupe.Action{Actor: actor, Note: note})
	})
}
