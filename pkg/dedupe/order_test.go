package dedupe_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// Whatever locks several rows takes them in key order. A transaction holds the
// first key; another one that wants both, given in the other order and with
// numbers that go the other way, must wait there, and hold nothing that the first
// one asks for next.
func TestEveryLockIsInKeyOrder(t *testing.T) {
	t.Parallel()
	attempts := []dedupe.Attempt{{No: 1, Number: 1}, {No: 2, Number: 1}}
	run := func(queue func(*pgx.Batch)) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			var b pgx.Batch
			queue(&b)
			return tx.SendBatch(ctx, &b).Close()
		}
	}
	for name, lock := range map[string]struct {
		state dedupe.State
		of    func(rows []*dedupe.Row) func(context.Context, pgx.Tx) error
	}{
		"letters are recorded": {dedupe.Failed, func([]*dedupe.Row) func(context.Context, pgx.Tx) error {
			return func(ctx context.Context, tx pgx.Tx) error {
				return dedupe.Parked(ctx, tx, []dedupe.Parking{{No: 1, Attempt: 1, Letter: 1}, {No: 2, Attempt: 1, Letter: 2}})
			}
		}},
		"attempts are given back": {dedupe.Processing, func([]*dedupe.Row) func(context.Context, pgx.Tx) error {
			return func(ctx context.Context, tx pgx.Tx) error { return dedupe.GiveBack(ctx, tx, attempts) }
		}},
		"attempts are fenced": {dedupe.Processing, func(rows []*dedupe.Row) func(context.Context, pgx.Tx) error {
			return run(func(b *pgx.Batch) { dedupe.Fence(b, rows) })
		}},
		"attempts begin": {dedupe.Pending, func(rows []*dedupe.Row) func(context.Context, pgx.Tx) error {
			return run(func(b *pgx.Batch) {
				for _, r := range rows {
					r.Attempt = 2
				}
				dedupe.Begin(b, rows)
			})
		}},
		"messages are recorded": {dedupe.Pending, func(rows []*dedupe.Row) func(context.Context, pgx.Tx) error {
			return func(ctx context.Context, tx pgx.Tx) error {
				return dedupe.Sent(ctx, tx, rows[0].StreamCreated, map[int64]uint64{1: 1, 2: 2})
			}
		}},
		"all are locked": {dedupe.Failed, func(rows []*dedupe.Row) func(context.Context, pgx.Tx) error {
			return func(ctx context.Context, tx pgx.Tx) error {
				_, err := dedupe.LockAll(ctx, tx, []dedupe.Key{rows[1].Key, rows[0].Key})
				return err
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Migrated(t, stack.DatabaseURL)
			pool := pgtest.Patient(t, url, postgres.Worker)
			last, first := in(lock.state, ignored(1, "evt_b")), in(lock.state, ignored(2, "evt_a"))
			insert(t, pool, last, first)
			pgtest.Exec(t, url, `UPDATE events SET attempt = 1, redrives = CASE state WHEN 'pending' THEN 1 ELSE 0 END`)
			rows := []*dedupe.Row{read(t, pool, last.Key), read(t, pool, first.Key)}
			inOrder(t, pool, rows, lock.of(rows))
		})
	}
}

func inOrder(t *testing.T, pool *pgxpool.Pool, rows []*dedupe.Row, lock func(context.Context, pgx.Tx) error) {
	holder, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }() // after a commit it does nothing
	_, err = dedupe.Lock(t.Context(), holder, rows[1].Key)
	require.NoError(t, err)

	other, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = other.Rollback(context.WithoutCancel(t.Context())) }() // as above
	done := make(chan error, 1)
	go func() { done <- lock(t.Context(), other) }()
	waiting(t, pool, other)

	_, err = dedupe.Lock(t.Context(), holder, rows[0].Key)
	require.NoError(t, err, "nobody holds the second one")
	require.NoError(t, holder.Commit(t.Context()))
	require.NoError(t, <-done)
}
