package ledger_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// postKnowing posts with what is known, and reports whether the batch had to open an
// account. Without keep it rolls back.
func postKnowing(ctx context.Context, pool *pgxpool.Pool, known *ledger.Known, keep bool, postings ...*ledger.Posting) (opens bool, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		batch := ledger.NewBatch(limits, postings)
		batch.Known = known
		var first, second pgx.Batch
		batch.Reserve(&first)
		for _, q := range first.QueuedQueries {
			opens = opens || strings.Contains(q.SQL, "INSERT INTO accounts")
		}
		if err := tx.SendBatch(ctx, &first).Close(); err != nil {
			return err
		}
		if err := batch.Decide(ctx, tx); err != nil {
			return err
		}
		batch.Write(&second)
		if err := tx.SendBatch(ctx, &second).Close(); err != nil || keep {
			return err
		}
		return errRollback
	})
	return opens, err
}

func TestWhatIsKnownIsNotOpenedAgain(t *testing.T) {
	t.Parallel()
	pool := open(t)
	var known ledger.Known
	// The second batch finds what the first has committed.
	for round, want := range []bool{true, true, false, false} {
		opens, err := postKnowing(t.Context(), pool, &known, true, event(move(fmt.Sprint(round), "world", "wallet", 5)))
		require.NoError(t, err)
		require.Equal(t, want, opens, "round %d", round)
	}
	opens, err := postKnowing(t.Context(), pool, &known, true, event(move("new", "wallet", "wallet2", 1)), event(move("much", "wallet", "shop", 20)))
	require.NoError(t, err)
	require.True(t, opens, "wallet2 is not known")
	opens, err = postKnowing(t.Context(), pool, nil, true, event(move("none", "world", "wallet", 1)))
	require.NoError(t, err)
	require.True(t, opens, "nothing is known")
	b := requireBooks(t, pool)
	require.Equal(t, sums{Debits: 1, Credits: 21}, b.balance("wallet"))
	require.Equal(t, sums{Credits: 1}, b.balance("wallet2"))
}

// What a transaction has opened itself may be rolled back.
func TestWhatWasRolledBackIsNotKnown(t *testing.T) {
	t.Parallel()
	pool := open(t)
	var known ledger.Known
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		for n := range 2 {
			batch := ledger.NewBatch(limits, []*ledger.Posting{event(move(fmt.Sprint(n), "world", "wallet", 5))})
			batch.Known = &known
			var first, second pgx.Batch
			batch.Reserve(&first)
			require.NoError(t, tx.SendBatch(t.Context(), &first).Close())
			require.NoError(t, batch.Decide(t.Context(), tx))
			batch.Write(&second)
			require.NoError(t, tx.SendBatch(t.Context(), &second).Close())
		}
		return errRollback
	})
	require.ErrorIs(t, err, errRollback)
	for range 2 {
		opens, err := postKnowing(t.Context(), pool, &known, false, event(move("late", "world", "wallet", 5)))
		require.ErrorIs(t, err, errRollback)
		require.True(t, opens)
	}
	require.Empty(t, requireBooks(t, pool).Accounts)
}

// A database that was restored may lack what was known of it: one batch has to be
// tried again, and nothing else changes.
func TestWhatIsKnownMayBeGone(t *testing.T) {
	t.Parallel()
	before, restored := open(t), open(t)
	var known ledger.Known
	for n := range 2 {
		_, err := postKnowing(t.Context(), before, &known, true, event(move(fmt.Sprint(n), "world", "wallet1", 5), move(fmt.Sprint(n, "/2"), "world", "wallet2", 5)))
		require.NoError(t, err)
	}
	spend, fund := event(move("spend", "wallet1", "shop", 3)), event(move("fund", "world", "wallet1", 2), move("fund2", "world", "wallet2", 1))
	opens, err := postKnowing(t.Context(), restored, &known, true, spend, fund)
	require.ErrorIs(t, err, ledger.ErrRace)
	require.ErrorContains(t, err, "in EUR is not there any more")
	require.False(t, opens)
	require.Empty(t, requireBooks(t, restored).Transfers)

	opens, err = postKnowing(t.Context(), restored, &known, true, spend, fund)
	require.NoError(t, err)
	require.True(t, opens)
	require.ErrorIs(t, spend.Err, ledger.ErrInsufficientFunds)
	require.Equal(t, map[account]sums{{"world", "EUR"}: {Debits: 3}, {"wallet1", "EUR"}: {Credits: 2}, {"wallet2", "EUR"}: {Credits: 1}}, requireBooks(t, restored).Accounts)
}

// An account that has to be opened first is never promised to be there.
func TestAnAccountThatNobodyOpenedIsNoRace(t *testing.T) {
	t.Parallel()
	opened, owner := openBoth(t)
	restored := open(t)
	require.NoError(t, pgx.BeginFunc(t.Context(), owner, func(tx pgx.Tx) error {
		_, err := ledger.OpenAccount(t.Context(), tx, "purse", "EUR", nil, nil)
		return err
	}))
	var known ledger.Known
	for n := range 2 {
		_, err := postKnowing(t.Context(), opened, &known, true, event(move(fmt.Sprint(n), "world", "purse", 5)))
		require.NoError(t, err)
	}
	p := event(move("1", "world", "purse", 5))
	_, err := postKnowing(t.Context(), restored, &known, true, p)
	require.NoError(t, err)
	require.ErrorIs(t, p.Err, ledger.ErrAccountUnknown)
}

// A batch that waited for a lock writes to the row as the other one left it, wherever
// that is now.
func TestARowThatMovesWhileItsLockIsWaitedFor(t *testing.T) {
	t.Parallel()
	pool := open(t)
	var known ledger.Known
	for n := range 2 {
		_, err := postKnowing(t.Context(), pool, &known, true, event(move(fmt.Sprint(n), "world", "wallet", 5)))
		require.NoError(t, err)
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	require.NoError(t, postIn(t.Context(), tx, []*ledger.Posting{event(move("first", "world", "wallet", 100))}))
	waiter := make(chan error)
	go func() {
		second := event(move("second", "wallet", "shop", 105))
		_, err := postKnowing(t.Context(), pool, &known, true, second)
		for state(err) == "55P03" { // a slow machine
			_, err = postKnowing(t.Context(), pool, &known, true, second)
		}
		waiter <- err
	}()
	blocked(t, pool, tx)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-waiter)
	require.Equal(t, sums{Debits: 105, Credits: 110}, requireBooks(t, pool).balance("wallet"))
}

// Where a locked row is not where it was, by whatever means, nothing is committed.
func TestARowThatIsElsewhereFailsTheBatch(t *testing.T) {
	t.Parallel()
	pool := open(t)
	_, err := postKnowing(t.Context(), pool, nil, true, event(move("first", "world", "wallet", 5)))
	require.NoError(t, err)
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		batch := ledger.NewBatch(limits, []*ledger.Posting{event(move("second", "world", "wallet", 7))})
		var first, second pgx.Batch
		batch.Reserve(&first)
		require.NoError(t, tx.SendBatch(t.Context(), &first).Close())
		require.NoError(t, batch.Decide(t.Context(), tx))
		_, err := tx.Exec(t.Context(), `UPDATE accounts SET debits_posted = debits_posted WHERE name = 'wallet'`)
		require.NoError(t, err)
		batch.Write(&second)
		return tx.SendBatch(t.Context(), &second).Close()
	})
	require.Equal(t, "22012", state(err))
	require.Equal(t, sums{Credits: 5}, requireBooks(t, pool).balance("wallet"))
}
