package ledger_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// patiently posts a batch again where it waited too long for a lock: a machine
// may be slow. A deadlock is seen sooner than that, and is an error.
func patiently(ctx context.Context, pool *pgxpool.Pool, postings []*ledger.Posting) error {
	for {
		if err := post(ctx, pool, postings); err == nil || state(err) != "55P03" {
			return err
		}
	}
}

// blocked returns when somebody waits for the transaction.
func blocked(t testing.TB, pool *pgxpool.Pool, holder pgx.Tx) {
	t.Helper()
	pid := holder.Conn().PgConn().PID()
	require.Eventually(t, func() bool {
		var waits bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1::int = ANY(pg_blocking_pids(pid)))`, pid).Scan(&waits)
		return err == nil && waits
	}, 20*time.Second, 5*time.Millisecond)
}

// Sixteen connections spend from two wallets by way of hot accounts, new accounts
// and operations that others report too, in random order. The database's own
// check of the limit is dropped: the locks alone have to hold it.
func TestConcurrentBatchesSpendEveryCentOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, stack.DatabaseURL)
	pgtest.Exec(t, url, `DROP TRIGGER accounts_limit ON accounts`)
	pool := pgtest.Patient(t, url, postgres.Worker)
	pools := []*pgxpool.Pool{pool, pgtest.Patient(t, url, postgres.Worker)} // of eight connections each
	const funds, rounds, size = 600, 10, 20
	mustPost(t, pool, event(move("fund1", "world", "wallet1", funds)), event(move("fund2", "world", "wallet2", funds)))

	var refused, posted atomic.Int64
	var group errgroup.Group
	for worker := range uint64(16) {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(worker, 3))
			pool := pools[worker%2]
			for round := range rounds {
				var batch []*ledger.Posting
				for n := range size {
					wallet := fmt.Sprint("wallet", 1+random.IntN(2))
					key := fmt.Sprintf("own/%d/%d/%d", worker, round, n)
					if n%4 == 0 { // two workers report this payment, with one content
						wallet, key = "wallet1", fmt.Sprintf("shared/%d/%d/%d", worker/2, round, n)
					}
					batch = append(batch, event(
						move(key, wallet, "shop", 1),
						move("fee/"+key, "shop", fmt.Sprint("new", n), 1)))
				}
				random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
				if err := patiently(t.Context(), pool, batch); err != nil {
					return err
				}
				for _, p := range batch {
					switch {
					case p.Err != nil && !isRefusal(p.Err):
						return p.Err
					case p.Err != nil:
						refused.Add(1)
					default:
						posted.Add(int64(len(p.Posted)))
					}
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	for _, p := range pools {
		require.EqualValues(t, 8, p.Stat().MaxConns())
		require.EqualValues(t, 8, p.Stat().TotalConns(), "each was used")
	}
	b := requireBooks(t, pool)
	requireSound(t, b)
	require.Positive(t, refused.Load())
	spent := b.balance("wallet1").Debits + b.balance("wallet2").Debits
	require.Equal(t, 2*spent, posted.Load())
	require.Equal(t, sums{Debits: spent, Credits: spent}, b.balance("shop"))
	require.EqualValues(t, 2*funds, spent, "every cent could be spent")
}

var errRollback = errors.New("rolled back on purpose")

// Eight goroutines post the same operations between the same new accounts in
// random order; half of them roll back, so that all stays new and contended.
func TestOverlappingBatchesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	const size = 60
	for outcome, pair := range map[string]func(round, n int) ledger.Transfer{
		"on operations":         func(r, n int) ledger.Transfer { return move(fmt.Sprintf("op/%d/%d", r, n), "world", "shop", 1) },
		"on limited accounts":   func(r, n int) ledger.Transfer { return move("", "world", fmt.Sprintf("wallet%d.%d", r, n), 1) },
		"on unlimited accounts": func(r, n int) ledger.Transfer { return move("", "world", fmt.Sprintf("shop%d.%d", r, n), 1) },
		"on balances":           func(_, n int) ledger.Transfer { return move("", fmt.Sprint("a", n), fmt.Sprint("b", n), 1) },
	} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			pool := open(t)
			var group errgroup.Group
			for worker := range uint64(8) {
				group.Go(func() error {
					random := rand.New(rand.NewPCG(worker, 4))
					for round := range 25 {
						var batch []*ledger.Posting
						for _, n := range random.Perm(size)[:size/2] {
							tr := pair(round, n)
							tr.Operation = cmp.Or(tr.Operation, fmt.Sprintf("own/%d/%d/%d", worker, round, n))
							batch = append(batch, event(tr))
						}
						err := within(t.Context(), pool, random.IntN(2) == 0, batch)
						if err != nil && !errors.Is(err, errRollback) && state(err) != "55P03" {
							return fmt.Errorf("round %d: %w", round, err)
						}
					}
					return nil
				})
			}
			require.NoError(t, group.Wait())
			requireBooks(t, pool)
		})
	}
}

func within(ctx context.Context, pool *pgxpool.Pool, keep bool, batch []*ledger.Posting) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		err := postIn(ctx, tx, batch)
		if err == nil && !keep {
			return errRollback
		}
		return err
	})
}

func TestOneOfManyConcurrentPostsOfAnOperation(t *testing.T) {
	t.Parallel()
	pool := open(t)
	for round := range 5 {
		postings := make([]*ledger.Posting, 8)
		var group errgroup.Group
		for i := range postings {
			// Half of them disagree about the amount.
			postings[i] = event(move(fmt.Sprint("charge", round), "customer", "shop", 10+int64(i%2)))
			group.Go(func() error { return patiently(t.Context(), pool, postings[i:i+1]) })
		}
		require.NoError(t, group.Wait())
		winners, conflicts := 0, 0
		for _, p := range postings {
			winners += len(p.Posted)
			if p.Err != nil {
				require.ErrorIs(t, p.Err, ledger.ErrOperationConflict)
				conflicts++
			}
		}
		require.Equal(t, 1, winners)
		require.Equal(t, 4, conflicts)
	}
	require.Len(t, requireBooks(t, pool).Transfers, 5)
}

// A holder that refuses a posting and lets another of its batch take over the
// operation shows the waiter the one that stands.
func TestTheWaiterSeesWhoTookAnOperationOver(t *testing.T) {
	t.Parallel()
	pool := open(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	holder := ledger.NewBatch(limits, []*ledger.Posting{
		event(move("taken", "wallet", "shop", 5), move("given back", "wallet", "shop", 5)),
		event(move("taken", "customer", "shop", 5)),
	})
	var first, second pgx.Batch
	holder.Reserve(&first)
	require.NoError(t, tx.SendBatch(t.Context(), &first).Close())

	equal, other := event(move("taken", "customer", "shop", 5)), event(move("given back", "customer", "shop", 7))
	waiter := make(chan error)
	go func() { waiter <- patiently(t.Context(), pool, []*ledger.Posting{equal, other}) }()
	blocked(t, pool, tx)

	require.NoError(t, holder.Decide(t.Context(), tx))
	holder.Write(&second)
	require.NoError(t, tx.SendBatch(t.Context(), &second).Close())
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-waiter)
	require.NoError(t, equal.Err)
	require.Empty(t, equal.Posted)
	require.Equal(t, other.Transfers, other.Posted)
	require.Equal(t, sums{Credits: 12}, requireBooks(t, pool).balance("shop"))
}

// Workers start at the same moment, and declare the same assets.
func TestDeclareAssetsByManyAtOnce(t *testing.T) {
	t.Parallel()
	pool := open(t)
	holder, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	assets := []ledger.Asset{{Code: "GEMS", Exponent: 2}}
	require.NoError(t, ledger.DeclareAssets(t.Context(), holder, assets))

	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return ledger.DeclareAssets(t.Context(), tx, assets) })
		})
	}
	blocked(t, pool, holder)
	require.NoError(t, holder.Commit(t.Context()))
	require.NoError(t, group.Wait())
}
