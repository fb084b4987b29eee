package dedupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Redrive makes a failed event pending again with a fresh budget, and records
// it. It may be repeated after a crash: a pending event stays pending. It
// returns the row as it is then; its Redrives numbers the message that is to be
// published next. A redrive never resets Redrives.
func Redrive(ctx context.Context, tx pgx.Tx, key Key, a Action) (*Row, error) {
	return one(ctx, tx, key, a, RedriveAll)
}

// Reopen makes an event pending that was completed without transfers, so that
// today's rules decide it: the one way out of completed. It is refused for events
// that moved money.
func Reopen(ctx context.Context, tx pgx.Tx, key Key, a Action) (*Row, error) {
	a.Verb = VerbReopen
	return one(ctx, tx, key, a, func(ctx context.Context, tx pgx.Tx, rows []*Row, a Action, details []any) error {
		return open(ctx, tx, rows, a, details, func(r *Row) bool { return r.State == Completed && r.Outcome != Applied })
	})
}

// Discard gives a failed event up, with a note that says why. It stays visible.
func Discard(ctx context.Context, tx pgx.Tx, key Key, a Action) (*Row, error) {
	return one(ctx, tx, key, a, DiscardAll)
}

// one locks the row of key and does to it what is done to many.
func one(ctx context.Context, tx pgx.Tx, key Key, a Action, all func(context.Context, pgx.Tx, []*Row, Action, []any) error) (*Row, error) {
	row, err := Lock(ctx, tx, key)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, fmt.Errorf("%s: %w: %s of %s", a.Verb, ErrNoEvent, key.ID, key.Source)
	}
	if err := all(ctx, tx, []*Row{row}, a, []any{a.Detail}); err != nil {
		return nil, err
	}
	return row, nil
}

// RedriveAll is Redrive for many rows, which tx holds locked: see LockAll.
// details are stored with their actions, one for each row, nil for none. It
// changes all rows or, on an error, none.
func RedriveAll(ctx context.Context, tx pgx.Tx, rows []*Row, a Action, details []any) error {
	return open(ctx, tx, rows, a, details, func(r *Row) bool { return r.State == Failed || r.State == Pending })
}

func open(ctx context.Context, tx pgx.Tx, rows []*Row, a Action, details []any, allowed func(*Row) bool) error {
	numbers, err := act(ctx, tx, rows, a, details, allowed)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE events
		SET state = 'pending', outcome = NULL, reason = NULL, error = NULL, attempts = 0, crashes = 0, dlq_seq = NULL,
		    redrives = redrives + 1, first_failed_at = NULL, next_try_at = NULL, decided_at = now()
		WHERE no = ANY($1)`, numbers)
	if err != nil {
		return fmt.Errorf("%s events: %w", a.Verb, err)
	}
	for _, row := range rows {
		row.State, row.Outcome, row.Reason, row.Error = Pending, "", "", ""
		row.Attempts, row.Crashes, row.DLQSeq = 0, 0, 0
		row.FailingFor, row.BegunFor, row.RetryIn = 0, 0, 0
		row.Redrives++
	}
	return nil
}

// Sent records where the messages of redriven events lie, by event number. An
// event that a worker has taken meanwhile is left alone.
func Sent(ctx context.Context, q Execer, streamCreated time.Time, messages map[int64]uint64) error {
	numbers, sequences := make([]int64, 0, len(messages)), make([]int64, 0, len(messages))
	for no, seq := range messages {
		numbers, sequences = append(numbers, no), append(sequences, int64(seq)) //nolint:gosec // sequences stay far below 2⁶³
	}
	var b pgx.Batch
	b.Queue(`
		WITH waiting AS (
			SELECT e.no, m.seq
			FROM unnest($1::bigint[], $2::bigint[]) AS m (no, seq)
			JOIN events e USING (no)
			WHERE e.state = 'pending' AND e.redrives > 0
			ORDER BY e.source, e.event_id, e.variant
			FOR NO KEY UPDATE OF e)
		UPDATE events e
		SET stream_created = $3, seq = waiting.seq
		FROM waiting
		WHERE e.no = waiting.no`, numbers, sequences, streamCreated)
	if err := q.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("record messages of events: %w", err)
	}
	return nil
}

// DiscardAll is Discard for many rows, which tx holds locked: see LockAll.
// details are as for RedriveAll.
func DiscardAll(ctx context.Context, tx pgx.Tx, rows []*Row, a Action, details []any) error {
	a.Verb = VerbDiscard
	if a.Note == "" {
		return errors.New("discard event: a note is needed that says why")
	}
	numbers, err := act(ctx, tx, rows, a, details, func(r *Row) bool { return r.State == Failed })
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE events SET state = 'discarded', decided_at = now() WHERE no = ANY($1)`, numbers); err != nil {
		return fmt.Errorf("discard events: %w", err)
	}
	for _, row := range rows {
		row.State = Discarded
	}
	return nil
}

// act checks that the state of every row allows the action, records it, and
// returns the rows' numbers.
func act(ctx context.Context, tx pgx.Tx, rows []*Row, a Action, details []any, allowed func(*Row) bool) ([]int64, error) {
	numbers, concerned := make([]int64, len(rows)), make([]*int64, len(rows))
	for i, row := range rows {
		if !allowed(row) {
			return nil, fmt.Errorf("%s: %w: %s of %s is %s", a.Verb, ErrState, row.ID, row.Source, cmp.Or(string(row.Outcome), string(row.State)))
		}
		numbers[i], concerned[i] = row.No, &row.No
	}
	return numbers, record(ctx, tx, a, concerned, details)
}

// LockAll returns the rows of keys that exist and holds them until tx ends. It
// takes them in key order, as workers do.
func LockAll(ctx context.Context, tx pgx.Tx, keys []Key) (map[Key]*Row, error) {
	sorted := slices.SortedFunc(slices.Values(keys), Key.Compare)
	sources, ids, variants := make([]string, len(sorted)), make([]string, len(sorted)), make([]string, len(sorted))
	for i, k := range sorted {
		sources[i], ids[i], variants[i] = k.Source, k.ID, k.Variant
	}
	found, err := tx.Query(ctx, `
		SELECT `+rowColumns+`
		FROM unnest($1::text[], $2::text[], $3::text[]) AS k (source, event_id, variant)
		JOIN events e USING (source, event_id, variant)
		ORDER BY e.source, e.event_id, e.variant
		FOR NO KEY UPDATE OF e`, sources, ids, variants)
	if err != nil {
		return nil, fmt.Errorf("lock events: %w", err)
	}
	rows, err := pgx.CollectRows(found, scanRow)
	if err != nil {
		return nil, fmt.Errorf("lock events: %w", err)
	}
	held := make(map[Key]*Row, len(rows))
	for _, r := range rows {
		held[r.Key] = r
	}
	return held, nil
}
