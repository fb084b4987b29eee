package dedupe_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/dedupe"
)

func TestFind(t *testing.T) {
	t.Parallel()
	pool := open(t)
	own, conflict, other := ignored(1, "evt_1"), in(dedupe.Failed, ignored(2, "evt_1")), ignored(3, "evt_10")
	conflict.Key = dedupe.Conflict(own.Key, [32]byte{1})
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := reserve(t.Context(), tx, conflict, other, own)
		return err
	}))

	t.Run("returns the event's own row before its conflicts, and nothing of others", func(t *testing.T) {
		t.Parallel()
		rows, err := dedupe.Find(t.Context(), pool, "stripe", "evt_1")
		require.NoError(t, err)
		require.Len(t, rows, 2)
		require.Equal(t, own.Key, rows[0].Key)
		require.Equal(t, conflict.Key, rows[1].Key)
	})
	t.Run("returns nothing for an unknown id", func(t *testing.T) {
		t.Parallel()
		rows, err := dedupe.Find(t.Context(), pool, "stripe", "evt_")
		require.NoError(t, err)
		require.Empty(t, rows)
	})
	t.Run("finds rows by number", func(t *testing.T) {
		t.Parallel()
		rows, err := dedupe.Numbered(t.Context(), pool, []int64{3, 99, 1})
		require.NoError(t, err)
		require.Len(t, rows, 2)
		require.Equal(t, other.Key, rows[3].Key)
	})
}

func TestSince(t *testing.T) {
	t.Parallel()
	pool := open(t)
	const many = 12_000 // several pages
	_, err := pool.Exec(t.Context(), `
		INSERT INTO events (no, source, event_id, variant, state, outcome, type, occurred_at,
		                    body_hash, fingerprint, rules_version, stream_created, seq, decided_at)
		SELECT 3 * i, 'stripe', 'evt_' || i, '', 'completed', 'ignored', 'x', now(),
		       sha256('b'), sha256('f'), 1, now(), i + 1, timestamptz '2024-05-01 00:00:00Z' + i * interval '1 second'
		FROM generate_series(0, $1 - 1) AS i`, many)
	require.NoError(t, err)
	read := func(from time.Time) (ids []string) {
		for after := int64(-1); ; {
			page, next, err := dedupe.Since(t.Context(), pool, from, after)
			require.NoError(t, err)
			if next < 0 {
				require.Empty(t, page)
				return ids
			}
			require.Greater(t, next, after)
			for _, r := range page {
				ids = append(ids, r.ID)
			}
			after = next
		}
	}

	t.Run("pages through everything once, in order", func(t *testing.T) {
		t.Parallel()
		ids := read(time.Time{})
		require.Len(t, ids, many)
		for i, id := range ids {
			require.Equal(t, fmt.Sprintf("evt_%d", i), id)
		}
	})
	t.Run("begins at the time, the time included", func(t *testing.T) {
		t.Parallel()
		from := time.Date(2024, 5, 1, 0, 0, many-2, 0, time.UTC)
		require.Equal(t, []string{fmt.Sprintf("evt_%d", many-2), fmt.Sprintf("evt_%d", many-1)}, read(from))
	})
	t.Run("is empty past the last", func(t *testing.T) {
		t.Parallel()
		require.Empty(t, read(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)))
	})
}

func TestUnreadable(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 5, 1, 10, 0, 0, 123_456_000, time.UTC)
	key := dedupe.Unreadable(dedupe.Position{StreamCreated: at, Seq: 17})
	require.Equal(t, dedupe.Key{Source: "unknown", ID: "message/1714557600123456/17"}, key)
}
