package dedupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// VerbTrim is the removal of accounted messages from the stream; it concerns no
// single event.
const VerbTrim Verb = "trim"

// overdue selects events that wait, or whose attempt has begun, and for which
// nothing has come for too long.
const overdue = `
	SELECT ` + rowColumns + `
	FROM events e
	WHERE state IN ('pending', 'processing')
	  AND GREATEST(decided_at, next_try_at)
	      < now() - interval '1 millisecond' * CASE WHEN stream_created = $1 AND seq > $2 THEN $4::float8 ELSE $3::float8 END`

// Overdue returns events that wait, or whose attempt has begun, and for which
// nothing has come for too long, at most limit: for after if their message was
// answered, that is up to p or in another incarnation of the stream, and for
// long if it may still be delivered.
func Overdue(ctx context.Context, q Querier, p Position, after, long time.Duration, limit int) ([]*Row, error) {
	return findOverdue(ctx, q, overdue+`
		ORDER BY no
		LIMIT $5`, p, after, long, limit)
}

// OverdueAmong returns those of the events with these numbers that are overdue,
// in the sense of Overdue.
func OverdueAmong(ctx context.Context, q Querier, p Position, after, long time.Duration, numbers []int64) ([]*Row, error) {
	return findOverdue(ctx, q, overdue+`
		  AND no = ANY($5)`, p, after, long, numbers)
}

func findOverdue(ctx context.Context, q Querier, query string, p Position, after, long time.Duration, bound any) ([]*Row, error) {
	found, err := q.Query(ctx, query, p.StreamCreated, int64(p.Seq), float64(after.Milliseconds()), float64(long.Milliseconds()), bound) //nolint:gosec // sequences stay far below 2⁶³
	if err != nil {
		return nil, fmt.Errorf("find overdue events: %w", err)
	}
	rows, err := pgx.CollectRows(found, scanRow)
	if err != nil {
		return nil, fmt.Errorf("find overdue events: %w", err)
	}
	return rows, nil
}

// SendAgain makes an overdue event pending, so that the copy of its message that
// is to be published next decides it, and records the action, by default that of
// the sweep. Its budget stays as it is. ErrState means that somebody has come for
// it since it was read.
func SendAgain(ctx context.Context, tx pgx.Tx, row *Row, a Action) error {
	a.Verb = cmp.Or(a.Verb, VerbSweep)
	err := tx.QueryRow(ctx, `
		UPDATE events
		SET state = 'pending', redrives = redrives + 1, next_try_at = NULL, decided_at = now()
		WHERE no = $1 AND state = $2 AND attempt = $3 AND decided_at = $4
		RETURNING redrives`, row.No, string(row.State), row.Attempt, row.Decided).Scan(&row.Redrives)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("send event again: %w: %s of %s has moved on", ErrState, row.ID, row.Source)
	}
	if err != nil {
		return fmt.Errorf("send event again: %w", err)
	}
	row.State = Pending
	return Record(ctx, tx, a, &row.No)
}

// Reletter records the letter that was stored in place of the one that row
// names, or did not have, and the action. ErrState means that the event has
// moved on, even if it was parked anew since.
func Reletter(ctx context.Context, tx pgx.Tx, row *Row, letter uint64, a Action) error {
	a.Verb = VerbSweep
	tag, err := tx.Exec(ctx, `
		UPDATE events
		SET dlq_seq = $3, decided_at = now()
		WHERE no = $1 AND state = 'failed' AND COALESCE(dlq_seq, 0) = $2 AND attempt = $4 AND redrives = $5`,
		row.No, int64(row.DLQSeq), int64(letter), row.Attempt, row.Redrives) //nolint:gosec // as above
	if err != nil {
		return fmt.Errorf("record dead letter: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("record dead letter: %w: %s of %s has moved on", ErrState, row.ID, row.Source)
	}
	return Record(ctx, tx, a, &row.No)
}

// Unletter forgets the letter that row names and that is gone for good, and
// records the action: a delivery with the same content then stores it anew,
// instead of being taken for a duplicate. ErrState means that the event has
// moved on.
func Unletter(ctx context.Context, tx pgx.Tx, row *Row, a Action) error {
	a.Verb = VerbSweep
	tag, err := tx.Exec(ctx, `
		UPDATE events
		SET dlq_seq = NULL
		WHERE no = $1 AND state = 'failed' AND dlq_seq = $2`, row.No, int64(row.DLQSeq)) //nolint:gosec // as above
	if err != nil {
		return fmt.Errorf("forget dead letter: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("forget dead letter: %w: %s of %s has moved on", ErrState, row.ID, row.Source)
	}
	return Record(ctx, tx, a, &row.No)
}

// OldestNeeded returns the first message of this incarnation, from p on, that an
// undecided event or one without its letter names; 0 if there is none.
func OldestNeeded(ctx context.Context, q Querier, p Position) (uint64, error) {
	var seq int64
	err := q.QueryRow(ctx, `
		SELECT COALESCE(min(seq), 0)
		FROM events
		WHERE stream_created = $1 AND seq >= $2
		  AND (state IN ('pending', 'processing') OR state = 'failed' AND dlq_seq IS NULL)`, p.StreamCreated, int64(p.Seq)).Scan(&seq) //nolint:gosec // as above
	if err != nil {
		return 0, fmt.Errorf("find oldest needed message: %w", err)
	}
	return uint64(seq), nil //nolint:gosec // checked by the table
}
