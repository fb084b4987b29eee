package keeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
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
	if err != nil {
		return err
	}
	if from == nil {
		s.unrepairable++
		return s.unletter(ctx, row)
	}
	// The name that the worker gives it, so that the two store one letter; but
	// never that of the letter which is gone.
	once := fmt.Sprintf("%d/%d/%x", row.No, row.Redrives, row.BodyHash[:8])
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
		FirstSeen: from.Time, OriginSeq: row.Seq, Header: from.Header, Data: from.Data,
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

// unletter lets the sender's next delivery store the letter of an event whose
// bytes nothing has any more: its letter is gone, and its message went before,
// with an earlier stream or with what was removed from this one.
func (s *sweep) unletter(ctx context.Context, row *dedupe.Row) error {
	here := row.StreamCreated.Equal(s.p.Stream.Created) && row.Seq >= s.p.Stream.First
	if row.DLQSeq == 0 || here {
		return nil
	}
	note := fmt.Sprintf("its dead letter %d is gone, and so is its message: only its sender has it", row.DLQSeq)
	return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		return dedupe.Unletter(ctx, tx, row, dedupe.Action{Actor: actor, Note: note})
	})
}
