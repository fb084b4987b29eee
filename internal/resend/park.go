package resend

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// Park gives a message that holds no event the failed row it lost, since its
// place is its key; the sweep's next round stores its letter. dedupe.ErrState
// means that somebody was first.
func (s *Sender) Park(ctx context.Context, u audit.Unaccounted, unreadable *NoEventError) error {
	raw := unreadable.Raw
	hash := sha256.Sum256(raw.Data)
	row := &dedupe.Row{
		Key: u.Key, State: dedupe.Failed, Reason: string(dlq.BadEnvelope), Error: unreadable.Error(), Occurred: raw.Time,
		Content:  dedupe.Content{BodyHash: hash, Fingerprint: hash},
		Position: dedupe.Position{StreamCreated: s.Stream.Created, Seq: u.Seq},
	}
	var numbers dedupe.Numbers
	if err := numbers.Reserve(ctx, s.Pool, 1); err != nil {
		return err
	}
	row.No = numbers.Take()
	return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		var b pgx.Batch
		reserved := dedupe.Reserve(&b, []*dedupe.Row{row})
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return fmt.Errorf("reserve event: %w", err)
		}
		if !reserved.New(row.No) {
			return fmt.Errorf("park message %d: %w", u.Seq, dedupe.ErrState)
		}
		return dedupe.Record(ctx, tx, dedupe.Action{Actor: s.Actor, Verb: s.Verb, Note: "answered, and its row is missing"}, &row.No)
	})
}
