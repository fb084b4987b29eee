package dedupe

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Fence queues the lock of rows whose current attempt is ours, in key order,
// and tells, once its batch has run, which of them are. A row that is missing
// was taken over by somebody else: nothing may be written for it.
func Fence(b *pgx.Batch, rows []*Row) *Reservation {
	numbers, attempts := make([]int64, len(rows)), make([]int32, len(rows))
	for i, r := range rows {
		numbers[i], attempts[i] = r.No, int32(r.Attempt) //nolint:gosec // attempts are few
	}
	held := &Reservation{inserted: make(map[int64]bool, len(rows))}
	b.Queue(`
		SELECT e.no
		FROM unnest($1::bigint[], $2::integer[]) AS mine (no, attempt)
		JOIN events e USING (no, attempt)
		WHERE e.state = 'processing'
		ORDER BY e.source, e.event_id, e.variant
		FOR NO KEY UPDATE OF e`, numbers, attempts).Query(func(found pgx.Rows) error {
		numbers, err := pgx.CollectRows(found, pgx.RowTo[int64])
		if err != nil {
			return fmt.Errorf("lock attempts: %w", err)
		}
		for _, no := range numbers {
			held.inserted[no] = true
		}
		return nil
	})
	return held
}

// Begin queues the begin of an attempt, in one statement for all, of events that
// wait: rows are what was read of them, each with the number of the attempt and the
// message that makes it. It tells, once
// its batch has run, whose attempts have begun; the others have moved on.
func Begin(b *pgx.Batch, rows []*Row) *Reservation {
	n := len(rows)
	numbers, sequences := make([]int64, n), make([]int64, n)
	attempts, redrives, failed := make([]int32, n), make([]int32, n), make([]int32, n)
	bodies, created := make([][]byte, n), make([]time.Time, n)
	for i, r := range rows {
		numbers[i], sequences[i], bodies[i], created[i] = r.No, int64(r.Seq), r.BodyHash[:], r.StreamCreated //nolint:gosec // sequences stay far below 2⁶³
		attempts[i], redrives[i], failed[i] = int32(r.Attempt), int32(r.Redrives), int32(r.Attempts)         //nolint:gosec // all are few
	}
	begun := &Reservation{inserted: make(map[int64]bool, n)}
	// Locked in key order first: see Parked.
	b.Queue(`
		WITH waiting AS (
			SELECT e.no, mine.attempt, mine.stream_created, mine.seq
			FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bytea[], $5::timestamptz[], $6::bigint[], $7::integer[])
			     AS mine (no, attempt, redrives, body_hash, stream_created, seq, attempts)
			JOIN events e ON e.no = mine.no
			WHERE e.state = 'pending' AND e.attempts = mine.attempts AND e.crashes = 0
			  AND e.attempt = mine.attempt - 1 AND e.redrives = mine.redrives AND e.body_hash = mine.body_hash
			ORDER BY e.source, e.event_id, e.variant
			FOR NO KEY UPDATE OF e)
		UPDATE events e
		SET state = 'processing', attempt = waiting.attempt, stream_created = waiting.stream_created, seq = waiting.seq,
		    next_try_at = NULL, decided_at = now()
		FROM waiting
		WHERE e.no = waiting.no
		RETURNING e.no`, numbers, attempts, redrives, bodies, created, sequences, failed).Query(func(found pgx.Rows) error {
		numbers, err := pgx.CollectRows(found, pgx.RowTo[int64])
		if err != nil {
			return fmt.Errorf("begin attempts: %w", err)
		}
		for _, no := range numbers {
			begun.inserted[no] = true
		}
		return nil
	})
	return begun
}

// Attempt names one attempt of one event.
type Attempt struct {
	No     int64
	Number int
}

// StayAlive says of attempts that they are still under way: BegunFor starts
// anew. A row that somebody holds locked is left alone: the lock says as much.
func StayAlive(ctx context.Context, q Execer, attempts []Attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	numbers, mine := columnsOf(attempts)
	var b pgx.Batch
	b.Queue(`
		WITH alive AS (
			SELECT e.no
			FROM unnest($1::bigint[], $2::integer[]) AS mine (no, attempt)
			JOIN events e USING (no, attempt)
			WHERE e.state = 'processing'
			FOR NO KEY UPDATE OF e SKIP LOCKED)
		UPDATE events e
		SET decided_at = now()
		FROM alive
		WHERE e.no = alive.no`, numbers, mine)
	if err := q.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("keep attempts alive: %w", err)
	}
	return nil
}

func columnsOf(attempts []Attempt) (numbers []int64, mine []int32) {
	numbers, mine = make([]int64, len(attempts)), make([]int32, len(attempts))
	for i, a := range attempts {
		numbers[i], mine[i] = a.No, int32(a.Number) //nolint:gosec // attempts are few
	}
	return numbers, mine
}

// GiveBack ends attempts that were interrupted, by an outage or a stop, without
// counting anything. Attempts that somebody else has taken over are left alone.
func GiveBack(ctx context.Context, q Execer, attempts []Attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	numbers, mine := columnsOf(attempts)
	var b pgx.Batch
	// Locked in key order first: see Parked.
	b.Queue(`
		WITH owed AS (
			SELECT e.no
			FROM unnest($1::bigint[], $2::integer[]) AS mine (no, attempt)
			JOIN events e USING (no, attempt)
			WHERE e.state = 'processing'
			ORDER BY e.source, e.event_id, e.variant
			FOR NO KEY UPDATE OF e)
		UPDATE events e
		SET state = 'pending', decided_at = now()
		FROM owed
		WHERE e.no = owed.no`, numbers, mine)
	if err := q.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("give attempts back: %w", err)
	}
	return nil
}

// Restarted returns when the database server was started: attempts begun before
// were interrupted by it and prove nothing against their events.
func Restarted(ctx context.Context, q Querier) (time.Time, error) {
	var at time.Time
	if err := q.QueryRow(ctx, `SELECT pg_postmaster_start_time()`).Scan(&at); err != nil {
		return at, fmt.Errorf("read server start: %w", err)
	}
	return at, nil
}
