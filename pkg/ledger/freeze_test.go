package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// A batch that has looked at an account before it was frozen, and writes after it,
// is told to try again: an account without a limit is locked only then.
func TestAFreezeBetweenTheRoundTrips(t *testing.T) {
	t.Parallel()
	worker, owner := openBoth(t)
	mustPost(t, worker, event(move("1", "world", "shop", 10)))
	p := event(move("2", "shop", "world", 4))
	err := pgx.BeginFunc(t.Context(), worker, func(tx pgx.Tx) error {
		batch := ledger.NewBatch(limits, []*ledger.Posting{p})
		var first, second pgx.Batch
		batch.Reserve(&first)
		require.NoError(t, tx.SendBatch(t.Context(), &first).Close())
		require.NoError(t, batch.Decide(t.Context(), tx))
		require.NoError(t, p.Err)
		mustSetState(t, owner, "shop", ledger.StateFrozen) // it need not wait
		batch.Write(&second)
		return tx.SendBatch(t.Context(), &second).Close()
	})
	require.Equal(t, "40001", state(err))
	require.ErrorContains(t, err, "account shop is frozen")
	require.EqualValues(t, 10, balance(t, worker, "shop"))
	mustPost(t, worker, p)
	require.ErrorIs(t, p.Err, ledger.ErrAccountFrozen)
	requireBooks(t, worker)
}

// A limited account is locked from the first round trip on: a freeze waits for the
// batch, and the next batch sees it.
func TestAFreezeWaitsForTheBatchThatHasTheLock(t *testing.T) {
	t.Parallel()
	worker, owner := openBoth(t)
	mustPost(t, worker, event(move("1", "world", "wallet", 10)))
	tx, err := worker.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	p := event(move("2", "wallet", "world", 4))
	batch := ledger.NewBatch(limits, []*ledger.Posting{p})
	var first, second pgx.Batch
	batch.Reserve(&first)
	require.NoError(t, tx.SendBatch(t.Context(), &first).Close())
	var group errgroup.Group
	group.Go(func() error { _, err := setState(t, owner, "wallet", ledger.StateFrozen); return err })
	blocked(t, worker, tx)
	require.NoError(t, batch.Decide(t.Context(), tx))
	batch.Write(&second)
	require.NoError(t, tx.SendBatch(t.Context(), &second).Close())
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, group.Wait())
	require.EqualValues(t, 6, balance(t, worker, "wallet"))
	late := event(move("3", "wallet", "world", 1))
	mustPost(t, worker, late)
	require.ErrorIs(t, late.Err, ledger.ErrAccountFrozen)
}

// Batches of eight goroutines move an account, which is frozen and opened again
// again and again: while it is frozen it does not move. Of the account with a limit
// the lock alone has to see to that, of the one without the database's guard.
func TestAFrozenAccountStandsStill(t *testing.T) {
	t.Parallel()
	for outcome, name := range map[string]string{"without a limit": "shop", "with a limit": "wallet"} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			url := pgtest.Migrated(t, stack.DatabaseURL)
			if name == "wallet" {
				pgtest.Exec(t, url, `DROP TRIGGER accounts_state ON accounts`)
			}
			worker, owner := pgtest.Patient(t, url, postgres.Worker), pgtest.Patient(t, url, postgres.Owner)
			mustPost(t, worker, event(move("first", "world", name, 10)))
			var posted, refused atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var group errgroup.Group
			for n := range 8 {
				group.Go(func() error {
					for round := 0; ctx.Err() == nil; round++ {
						if err := moveOnce(t.Context(), worker, fmt.Sprintf("%d/%d", n, round), name, &posted, &refused); err != nil {
							return err
						}
					}
					return nil
				})
			}
			grows := func(count *atomic.Int64) {
				before := count.Load()
				require.Eventually(t, func() bool { return count.Load() > before+20 }, 30*time.Second, time.Millisecond)
			}
			for range 15 {
				grows(&posted)
				frozen, err := setState(t, owner, name, ledger.StateFrozen)
				require.NoError(t, err)
				grows(&refused)
				opened, err := setState(t, owner, name, ledger.StateOpen)
				require.NoError(t, err)
				require.Equal(t, frozen[0].CreditsPosted, opened[0].CreditsPosted, "it moved while it was frozen")
			}
			stop()
			require.NoError(t, group.Wait())
			require.EqualValues(t, 10+posted.Load(), requireBooks(t, worker).balance(name).Credits)
		})
	}
}

// moveOnce posts a batch until it is decided, and counts what became of it.
func moveOnce(ctx context.Context, pool *pgxpool.Pool, key, name string, posted, refused *atomic.Int64) error {
	batch := make([]*ledger.Posting, 10)
	for i := range batch {
		batch[i] = event(move(fmt.Sprintf("%s/%d", key, i), fmt.Sprint("source", i), name, 1))
	}
	err := patiently(ctx, pool, batch)
	for state(err) == "40001" {
		err = patiently(ctx, pool, batch)
	}
	if err != nil {
		return err
	}
	for _, p := range batch {
		switch {
		case p.Err == nil:
			posted.Add(1)
		case errors.Is(p.Err, ledger.ErrAccountFrozen):
			refused.Add(1)
		default:
			return p.Err
		}
	}
	return nil
}
