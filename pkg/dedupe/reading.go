package dedupe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

// Reading is a look at one content to learn what it means, where another content
// has the event's row, which cannot count this one's attempts. Like an attempt it
// is committed before it is made, so that it counts the workers that die of it,
// and nothing else.
type Reading struct {
	Key      // without variant
	BodyHash [32]byte
	// Redrive numbers the message: one that was sent again has a fresh budget.
	Redrive int
	// Holder tells this reading from others of the same content.
	Holder int64
}

// NewReading returns the reading of a content, not yet begun.
func NewReading(k Key, body [32]byte, redrive int) Reading {
	return Reading{Key: k, BodyHash: body, Redrive: redrive, Holder: rand.Int64()} //nolint:gosec // a name, not a secret
}

// Readable says whether a content may be read now.
type Readable int

// The answers of BeginReading.
const (
	// Deadly means that as many workers died of it as may.
	Deadly Readable = iota
	// Busy means that somebody else reads it.
	Busy
	// Begun means that the caller does, and says so to EndReadings.
	Begun
)

// BeginReading commits that a content is about to be read. One that somebody began
// longer than quiet ago and has not ended killed its reader, unless the database
// server was restarted in between; after budget of those it is not read again. It
// costs a round trip, and another where the answer is not Begun.
func BeginReading(ctx context.Context, q Querier, r Reading, quiet time.Duration, budget int) (Readable, error) {
	var crashes int
	err := q.QueryRow(ctx, `
		INSERT INTO readings AS r (source, event_id, body_hash, holder, redrive)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (source, event_id, body_hash) DO UPDATE
		SET holder = EXCLUDED.holder, redrive = GREATEST(r.redrive, EXCLUDED.redrive), begun_at = now(),
		    crashes = CASE WHEN EXCLUDED.redrive > r.redrive THEN 0
		                   WHEN r.begun_at > pg_postmaster_start_time() THEN r.crashes + 1
		                   ELSE r.crashes END
		WHERE EXCLUDED.redrive > r.redrive OR r.crashes < $6 AND r.begun_at < now() - $7 * interval '1 microsecond'
		RETURNING crashes`,
		r.Source, r.ID, r.BodyHash[:], r.Holder, r.Redrive, budget, quiet.Microseconds()).Scan(&crashes)
	busy := errors.Is(err, pgx.ErrNoRows)
	if busy {
		err = q.QueryRow(ctx, `
			SELECT COALESCE(max(crashes), 0)
			FROM readings
			WHERE source = $1 AND event_id = $2 AND body_hash = $3`, r.Source, r.ID, r.BodyHash[:]).Scan(&crashes)
	}
	switch {
	case err != nil:
		return Busy, fmt.Errorf("begin reading: %w", err)
	case crashes >= budget:
		return Deadly, nil
	case busy:
		return Busy, nil
	}
	return Begun, nil
}

// KeepReadings says of readings that they are still under way: the time after which
// they count as dead starts anew. One that somebody holds locked is left alone.
func KeepReadings(ctx context.Context, q Execer, readings []Reading) error {
	return onReadings(ctx, q, readings, "keep readings", `FOR UPDATE OF r SKIP LOCKED`, `
		UPDATE readings r
		SET begun_at = now()
		FROM mine`)
}

// EndReadings says of readings that they killed nobody. Those that somebody else
// has taken over are left alone.
func EndReadings(ctx context.Context, q Execer, readings []Reading) error {
	return onReadings(ctx, q, readings, "end readings", `FOR UPDATE OF r`, `
		DELETE FROM readings r
		USING mine`)
}

func onReadings(ctx context.Context, q Execer, readings []Reading, what, lock, change string) error {
	n := len(readings)
	if n == 0 {
		return nil
	}
	sources, ids, bodies, holders := make([]string, n), make([]string, n), make([][]byte, n), make([]int64, n)
	for i, r := range readings {
		sources[i], ids[i], bodies[i], holders[i] = r.Source, r.ID, r.BodyHash[:], r.Holder
	}
	var b pgx.Batch
	// Locked in key order first: see Parked.
	b.Queue(`
		WITH mine AS (
			SELECT r.source, r.event_id, r.body_hash
			FROM unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[]) AS m (source, event_id, body_hash, holder)
			JOIN readings r USING (source, event_id, body_hash, holder)
			ORDER BY r.source, r.event_id, r.body_hash
			`+lock+`)`+change+`
		WHERE (r.source, r.event_id, r.body_hash) = (mine.source, mine.event_id, mine.body_hash)`, sources, ids, bodies, holders)
	if err := q.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
