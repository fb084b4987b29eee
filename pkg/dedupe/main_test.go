package dedupe_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

var stack *devstack.Stack

func TestMain(m *testing.M) { stacktest.Main(m, &stack, devstack.Postgres, devstack.Redis) }

// open returns a database of the test's own, with the rights of a worker.
func open(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return pgtest.Patient(t, pgtest.Migrated(t, stack.DatabaseURL), postgres.Worker)
}

// ignored is a finished event; its content is made of its id.
func ignored(no int64, id string) *dedupe.Row {
	return &dedupe.Row{
		No: no, Key: dedupe.Key{Source: "stripe", ID: id},
		State: dedupe.Completed, Outcome: dedupe.Ignored,
		Type: "charge.succeeded", Occurred: time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC),
		Content:  dedupe.Content{BodyHash: sha256.Sum256([]byte(id)), Fingerprint: sha256.Sum256([]byte("f" + id)), Rules: 7},
		Position: dedupe.Position{StreamCreated: time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC), Seq: uint64(no) + 1},
	}
}

// in is the row in another state.
func in(state dedupe.State, r *dedupe.Row) *dedupe.Row {
	r.State, r.Outcome, r.Reason = state, "", ""
	switch state {
	case dedupe.Completed:
		r.Outcome = dedupe.Ignored
	case dedupe.Failed:
		r.Reason = "bad_json"
	}
	return r
}

// reserve reserves rows and returns which are new.
func reserve(ctx context.Context, tx pgx.Tx, rows ...*dedupe.Row) (*dedupe.Reservation, error) {
	var b pgx.Batch
	reserved := dedupe.Reserve(&b, rows)
	return reserved, tx.SendBatch(ctx, &b).Close()
}

// insert commits rows, which must be new.
func insert(t testing.TB, pool *pgxpool.Pool, rows ...*dedupe.Row) {
	t.Helper()
	within(t, pool, func(tx pgx.Tx) {
		reserved, err := reserve(t.Context(), tx, rows...)
		require.NoError(t, err)
		for _, r := range rows {
			require.True(t, reserved.New(r.No), r.ID)
		}
	})
}

// save commits the new form of a row.
func save(t testing.TB, pool *pgxpool.Pool, r *dedupe.Row, retryIn time.Duration) {
	t.Helper()
	within(t, pool, func(tx pgx.Tx) {
		locked, err := dedupe.Lock(t.Context(), tx, r.Key)
		require.NoError(t, err)
		require.NotNil(t, locked)
		var b pgx.Batch
		dedupe.Save(&b, r, retryIn)
		require.NoError(t, tx.SendBatch(t.Context(), &b).Close())
	})
}

// read returns the committed row of a key; nil if there is none.
func read(t testing.TB, pool *pgxpool.Pool, key dedupe.Key) *dedupe.Row {
	t.Helper()
	known, err := dedupe.Read(t.Context(), pool, []dedupe.Key{key})
	require.NoError(t, err)
	if row := known[key]; row != nil {
		row.BegunFor = 0 // it moves with the clock
	}
	return known[key]
}

func within(t testing.TB, pool *pgxpool.Pool, do func(pgx.Tx)) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	do(tx)
	require.NoError(t, tx.Commit(t.Context()))
}

// waiting returns when the transaction waits for a lock.
func waiting(t testing.TB, pool *pgxpool.Pool, tx pgx.Tx) {
	t.Helper()
	pid := tx.Conn().PgConn().PID()
	require.Eventually(t, func() bool {
		var waits bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)`, pid).Scan(&waits)
		return err == nil && waits
	}, 20*time.Second, 5*time.Millisecond)
}

func state(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return fmt.Sprint(err)
}
