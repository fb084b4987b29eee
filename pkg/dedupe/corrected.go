package dedupe

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Corrected returns the conflicts that were let stand, by the keys of their
// events: other contents under their ids that were applied in place of what came
// first. The last one of an event is the one that stands.
func Corrected(ctx context.Context, q Querier, keys []Key) (map[Key][]*Row, error) {
	sources, ids := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		sources[i], ids[i] = k.Source, k.ID
	}
	found, err := q.Query(ctx, `
		SELECT `+rowColumns+`
		FROM (SELECT DISTINCT source, event_id FROM unnest($1::text[], $2::text[]) AS k (source, event_id)) AS k
		JOIN events e USING (source, event_id)
		WHERE e.variant <> '' AND e.outcome = 'applied'
		ORDER BY e.decided_at, e.no`, sources, ids)
	if err != nil {
		return nil, fmt.Errorf("read corrected events: %w", err)
	}
	rows, err := pgx.CollectRows(found, scanRow)
	if err != nil {
		return nil, fmt.Errorf("read corrected events: %w", err)
	}
	corrected := map[Key][]*Row{}
	for _, r := range rows {
		key := Key{Source: r.Source, ID: r.ID}
		corrected[key] = append(corrected[key], r)
	}
	return corrected, nil
}

// LockEvent returns the row of key, which has no variant, and the conflicts that
// were let stand in its place, as Corrected does; it holds the first until tx
// ends. Nobody lets another one stand without that lock.
func LockEvent(ctx context.Context, tx pgx.Tx, key Key) (row *Row, corrected []*Row, err error) {
	if row, err = Lock(ctx, tx, key); err != nil || row == nil {
		return nil, nil, err
	}
	all, err := Corrected(ctx, tx, []Key{key})
	return row, all[key], err
}

// LetStand completes the row of a conflict, which tx holds locked, as the one
// that stands from now on under its event's id: it was applied.
func LetStand(ctx context.Context, tx pgx.Tx, row *Row) error {
	row.State, row.Outcome, row.Reason, row.Error, row.DLQSeq = Completed, Applied, "", "", 0
	var b pgx.Batch
	Save(&b, row, 0)
	// The order of those that were let stand is that of their locks, which the
	// time at which a transaction began does not tell.
	b.Queue(`UPDATE events SET decided_at = clock_timestamp() WHERE no = $1`, row.No)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("let event stand: %w", err)
	}
	return nil
}

// Stands returns the row whose content stands under an id: the last conflict
// that was let stand, or else the first row.
func Stands(first *Row, corrected []*Row) *Row {
	if n := len(corrected); n > 0 {
		return corrected[n-1]
	}
	return first
}

// Replaced returns, by the numbers of events, those in whose place another event's
// correction was posted last: an operator has decided that they do not stand.
func Replaced(ctx context.Context, q Querier, numbers []int64) (map[int64]int64, error) {
	found, err := q.Query(ctx, `
		SELECT DISTINCT ON (event_no) event_no, (detail->>'by_event_no')::bigint
		FROM actions
		WHERE event_no = ANY($1) AND verb = $2
		ORDER BY event_no, no DESC`, numbers, string(VerbCorrect))
	if err != nil {
		return nil, fmt.Errorf("read corrections: %w", err)
	}
	replaced := map[int64]int64{}
	var no int64
	var by *int64
	_, err = pgx.ForEachRow(found, []any{&no, &by}, func() error {
		if by != nil && *by != no {
			replaced[no] = *by
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read corrections: %w", err)
	}
	return replaced, nil
}
