package dedupe

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Querier reads; a pool, a connection and a transaction all do.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// numbersBlock is the increment of the sequence event_numbers.
const numbersBlock = 1000

// Numbers hands out event numbers, a block for each round trip. It is not safe
// for concurrent use; each worker loop has its own.
type Numbers struct {
	next, end int64
}

// Reserve makes sure that n calls of Take need no round trip.
func (a *Numbers) Reserve(ctx context.Context, q Querier, n int) error {
	if a.end-a.next >= int64(n) {
		return nil
	}
	if n > numbersBlock {
		return fmt.Errorf("reserve event numbers: %d exceeds the block of %d", n, numbersBlock)
	}
	if err := q.QueryRow(ctx, `SELECT nextval('event_numbers')`).Scan(&a.next); err != nil {
		return fmt.Errorf("reserve event numbers: %w", err)
	}
	a.end = a.next + numbersBlock
	return nil
}

// Take returns a number that no other event has. Reserve must have been called.
func (a *Numbers) Take() int64 {
	if a.next >= a.end {
		panic("dedupe: event number taken without Reserve")
	}
	a.next++
	return a.next - 1
}

// Conflict is the key under which a delivery is parked whose content differs
// from the one that stands under k.
func Conflict(k Key, body [32]byte) Key {
	k.Variant = "conflict:" + hex.EncodeToString(body[:16])
	return k
}

// Reservation tells, once its batch has run, which rows were new.
type Reservation struct {
	inserted map[int64]bool
}

// New reports whether the row with this number was inserted.
func (r *Reservation) New(no int64) bool { return r.inserted[no] }

const reserveSQL = `
	INSERT INTO events (no, source, event_id, variant, state, outcome, reason, error, type, occurred_at,
	                    body_hash, fingerprint, rules_version, stream_created, seq, attempt)
	SELECT no, source, event_id, variant, state, NULLIF(outcome, ''), NULLIF(reason, ''), NULLIF(error, ''), type, occurred_at,
	       body_hash, fingerprint, rules_version, stream_created, seq, attempt
	FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::timestamptz[],
	            $11::bytea[], $12::bytea[], $13::bigint[], $14::timestamptz[], $15::bigint[], $16::integer[])
	     AS r (no, source, event_id, variant, state, outcome, reason, error, type, occurred_at,
	           body_hash, fingerprint, rules_version, stream_created, seq, attempt)
	ON CONFLICT (source, event_id, variant) DO NOTHING
	RETURNING no`

// Reserve queues the insertion of rows in the form they will have if nothing
// objects. It sorts rows into lock order. A key that another transaction holds
// is waited for; one that is committed is left alone; of equal keys in rows only
// the first is new.
func Reserve(b *pgx.Batch, rows []*Row) *Reservation {
	slices.SortStableFunc(rows, func(a, c *Row) int { return a.Key.Compare(c.Key) })
	r := &Reservation{inserted: make(map[int64]bool, len(rows))}
	b.Queue(reserveSQL, columns(rows)...).Query(func(found pgx.Rows) error {
		numbers, err := pgx.CollectRows(found, pgx.RowTo[int64])
		if err != nil {
			return fmt.Errorf("reserve events: %w", err)
		}
		for _, no := range numbers {
			r.inserted[no] = true
		}
		return nil
	})
	return r
}

// columns turns rows into the arrays that reserveSQL unnests.
func columns(rows []*Row) []any {
	n := len(rows)
	var (
		no, rules, seq                                      = make([]int64, n), make([]int64, n), make([]int64, n)
		source, id, variant, state, outcome, reason, failed = make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		kind                                                = make([]string, n)
		occurred, created                                   = make([]time.Time, n), make([]time.Time, n)
		body, meaning                                       = make([][]byte, n), make([][]byte, n)
		attempt                                             = make([]int32, n)
	)
	for i, r := range rows {
		no[i], rules[i], seq[i] = r.No, r.Rules, int64(r.Seq) //nolint:gosec // sequences stay far below 2⁶³
		source[i], id[i], variant[i] = r.Source, r.ID, r.Variant
		state[i], outcome[i], reason[i], failed[i] = string(r.State), string(r.Outcome), r.Reason, r.Error
		kind[i], occurred[i], created[i] = r.Type, r.Occurred, r.StreamCreated
		body[i], meaning[i], attempt[i] = r.BodyHash[:], r.Fingerprint[:], int32(r.Attempt) //nolint:gosec // 0 or 1 on insertion
	}
	return []any{no, source, id, variant, state, outcome, reason, failed, kind, occurred, body, meaning, rules, created, seq, attempt}
}

const rowColumns = `
	e.no, e.source, e.event_id, e.variant, e.state, COALESCE(e.outcome, ''), COALESCE(e.reason, ''), COALESCE(e.error, ''),
	e.type, e.occurred_at, e.body_hash, e.fingerprint, e.rules_version, e.stream_created, e.seq, e.attempts, e.attempt, e.crashes, e.redrives,
	COALESCE(EXTRACT(epoch FROM now() - e.first_failed_at)::float8, 0), COALESCE(EXTRACT(epoch FROM e.next_try_at - now())::float8, 0),
	EXTRACT(epoch FROM now() - e.decided_at)::float8,
	COALESCE(e.dlq_seq, 0), e.created_at, e.decided_at`

// scanRow reads rowColumns.
func scanRow(found pgx.CollectableRow) (*Row, error) {
	var (
		r                    Row
		body, meaning        []byte
		seq, dlq             int64
		failing, wait, begun float64
	)
	err := found.Scan(&r.No, &r.Source, &r.ID, &r.Variant, &r.State, &r.Outcome, &r.Reason, &r.Error,
		&r.Type, &r.Occurred, &body, &meaning, &r.Rules, &r.StreamCreated, &seq, &r.Attempts, &r.Attempt, &r.Crashes, &r.Redrives,
		&failing, &wait, &begun, &dlq, &r.Created, &r.Decided)
	if err != nil {
		return nil, err
	}
	copy(r.BodyHash[:], body)
	copy(r.Fingerprint[:], meaning)
	r.Seq, r.DLQSeq = uint64(seq), uint64(dlq) //nolint:gosec // both are checked to be positive
	r.FailingFor = time.Duration(failing * float64(time.Second))
	r.BegunFor = time.Duration(begun * float64(time.Second))
	r.RetryIn = max(0, time.Duration(wait*float64(time.Second)))
	return &r, nil
}

// Read returns the rows of keys that exist, without a lock: a terminal row
// never changes, and any other is decided under Lock.
func Read(ctx context.Context, q Querier, keys []Key) (map[Key]*Row, error) {
	sources, ids, variants := make([]string, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		sources[i], ids[i], variants[i] = k.Source, k.ID, k.Variant
	}
	found, err := q.Query(ctx, `
		SELECT `+rowColumns+`
		FROM unnest($1::text[], $2::text[], $3::text[]) AS k (source, event_id, variant)
		JOIN events e USING (source, event_id, variant)`, sources, ids, variants)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	rows, err := pgx.CollectRows(found, scanRow)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	known := make(map[Key]*Row, len(rows))
	for _, r := range rows {
		known[r.Key] = r
	}
	return known, nil
}

// Lock returns the row of key and holds it until tx ends; nil if there is none.
func Lock(ctx context.Context, tx pgx.Tx, key Key) (*Row, error) {
	found, err := tx.Query(ctx, `
		SELECT `+rowColumns+`
		FROM events e
		WHERE source = $1 AND event_id = $2 AND variant = $3
		FOR NO KEY UPDATE`, key.Source, key.ID, key.Variant)
	if err != nil {
		return nil, fmt.Errorf("lock event: %w", err)
	}
	row, err := pgx.CollectExactlyOneRow(found, scanRow)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock event: %w", err)
	}
	return row, nil
}

// Save queues the update of a row that this transaction inserted or holds
// locked, with everything but its key and number. A row that waits is tried
// again after retryIn, counted by the database's clock; the first failed
// attempt starts its age.
func Save(b *pgx.Batch, r *Row, retryIn time.Duration) {
	var dlq *int64
	if r.DLQSeq != 0 {
		n := int64(r.DLQSeq) //nolint:gosec // sequences stay far below 2⁶³
		dlq = &n
	}
	b.Queue(`
		UPDATE events
		SET state = $2, outcome = NULLIF($3, ''), reason = NULLIF($4, ''), error = NULLIF($5, ''),
		    type = $6, occurred_at = $7, body_hash = $8, fingerprint = $9, rules_version = $10, stream_created = $11, seq = $12,
		    attempts = $13, attempt = $16, crashes = $17, dlq_seq = $14,
		    first_failed_at = CASE WHEN $13 > 0 THEN COALESCE(first_failed_at, now()) END,
		    next_try_at = CASE WHEN $2 = 'pending' THEN now() + $15 * interval '1 millisecond' END,
		    decided_at = now()
		WHERE no = $1`,
		r.No, string(r.State), string(r.Outcome), r.Reason, r.Error,
		r.Type, r.Occurred, r.BodyHash[:], r.Fingerprint[:], r.Rules, r.StreamCreated, int64(r.Seq), //nolint:gosec // as above
		r.Attempts, dlq, float64(retryIn.Milliseconds()), r.Attempt, r.Crashes)
}

// Execer writes; a pool, a connection and a transaction all do.
type Execer interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Parking says where the letter of a failed row is.
type Parking struct {
	// No, Attempt and Redrives are the row's when it was parked. One that was sent
	// again since, or superseded by another content, has others: it may be parked
	// anew by now, and this is not its letter.
	No       int64
	Attempt  int
	Redrives int
	// Letter is the sequence in the dead-letter stream.
	Letter uint64
}

// LetterName names the letter of a failed row's decision, for delivered bytes with
// this hash: of two workers who see the row and store it, one letter comes, and a
// row that is parked anew gets a new one.
func (r *Row) LetterName(body [32]byte) string {
	return fmt.Sprintf("%d/%d/%d/%x", r.No, r.Redrives, r.Attempt, body[:8])
}

// Parked records the dead letters of failed rows. A row that another worker has
// parked or moved on in the meantime is left alone.
func Parked(ctx context.Context, q Execer, letters []Parking) error {
	n := len(letters)
	numbers, attempts, redrives, at := make([]int64, n), make([]int32, n), make([]int32, n), make([]int64, n)
	for i, l := range letters {
		numbers[i], at[i] = l.No, int64(l.Letter)                      //nolint:gosec // as above
		attempts[i], redrives[i] = int32(l.Attempt), int32(l.Redrives) //nolint:gosec // both are few
	}
	var b pgx.Batch
	// Locked first, in the key order that every lock of several rows has: an UPDATE
	// alone takes them in the order of its plan, and two orders wait for each other
	// in a circle.
	b.Queue(`
		WITH open AS (
			SELECT e.no, l.letter
			FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[]) AS l (no, attempt, redrives, letter)
			JOIN events e USING (no, attempt, redrives)
			WHERE e.state = 'failed' AND e.dlq_seq IS NULL
			ORDER BY e.source, e.event_id, e.variant
			FOR NO KEY UPDATE OF e)
		UPDATE events e
		SET dlq_seq = open.letter
		FROM open
		WHERE e.no = open.no`, numbers, attempts, redrives, at)
	if err := q.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("record dead letters: %w", err)
	}
	return nil
}
