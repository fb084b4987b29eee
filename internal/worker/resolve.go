package worker

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/pkg/dedupe"
)

// resolve ends the row of a conflict that was sent again and is none: it means what
// stands under its id, or nothing stands there and it is to be decided as the event
// itself. Its own row must not wait for a message that will not come.
func (l *loop) resolve(ctx context.Context, tx pgx.Tx, it *item) error {
	if it.event.Redrive == 0 {
		return nil
	}
	row, err := dedupe.Lock(ctx, tx, dedupe.Conflict(it.key, it.content.BodyHash))
	if err != nil || row == nil || row.State != dedupe.Pending {
		return err
	}
	row.State, row.Outcome, row.Seq, row.StreamCreated = dedupe.Completed, dedupe.DuplicateOperation, it.seq, it.row.StreamCreated
	var b pgx.Batch
	dedupe.Save(&b, row, 0)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("resolve conflict: %w", err)
	}
	return nil
}
