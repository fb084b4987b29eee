package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// of names another charge in what is about "charge".
func of(charge string, t ledger.Transfer) ledger.Transfer {
	t.Operation = charge + "/" + t.Operation
	if t.Parent == "charge" {
		t.Parent = charge
	} else {
		t.Parent = charge + "/" + t.Parent
	}
	return t
}

// Sixteen connections tell of the same refunds of a few charges, by items, totals and
// failures, each in an order of its own. Every item fails in the end but one, and all
// of it is told by each of them: what is moved is what is to be moved, to the cent.
func TestConcurrentTotals(t *testing.T) {
	t.Parallel()
	url := pgtest.With(t, pgtest.Migrated(t, stack.DatabaseURL), "jit", "off")
	pools := []*pgxpool.Pool{pgtest.Patient(t, url, postgres.Worker), pgtest.Patient(t, url, postgres.Worker)} // of eight connections each
	const charges, items = 3, 6
	var told []ledger.Transfer
	for c := range charges {
		charge := fmt.Sprint("charge", c)
		mustPost(t, pools[0], event(move(charge, "customer", "shop", 1000)))
		for i := range items {
			item := back(fmt.Sprint("item", i), 100)
			told = append(told, of(charge, item), of(charge, total(int64(50+100*i))), of(charge, total(int64(100+100*i))))
			if i > 0 {
				told = append(told, of(charge, undo("undo/"+item.Operation, item.Operation, 100)))
			}
		}
	}
	var group errgroup.Group
	for worker := range uint64(16) {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(worker, 11))
			for range 3 { // what came before its item comes again
				var postings []*ledger.Posting
				for _, i := range random.Perm(len(told)) {
					postings = append(postings, event(told[i]))
				}
				for len(postings) > 0 {
					n := min(1+random.IntN(12), len(postings))
					if err := patiently(t.Context(), pools[worker%2], postings[:n]); err != nil {
						return err
					}
					postings = postings[n:]
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	b := requireBooks(t, pools[0])
	requireRefunds(t, pools[0], "")
	require.Len(t, told, charges*(4*items-1))
	shop := b.balance("shop")
	require.EqualValues(t, (1000-100)*charges, shop.Credits-shop.Debits)
	require.EqualValues(t, 1000*charges+100*charges*(items-1), shop.Credits)
}

// A failure and the first total of its charge, told of at the same moment by two
// workers, neither of which sees what the other does.
func TestAFailureAndATotalDoNotPassEachOtherBy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second ledger.Transfer
	}{
		"the failure first": {undo("u", "a", 400), total(700)},
		"the total first":   {total(700), undo("u", "a", 400)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := openHolds(t)
			mustPost(t, pool, event(charge()), event(back("a", 400)))
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			first, second := event(c.first), event(c.second)
			require.NoError(t, postIn(t.Context(), tx, []*ledger.Posting{first}))
			other, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = other.Rollback(context.WithoutCancel(t.Context())) }()
			batch := ledger.NewBatch(limits, []*ledger.Posting{second})
			var reserve, write pgx.Batch
			batch.Reserve(&reserve)
			require.NoError(t, other.SendBatch(t.Context(), &reserve).Close())
			require.NoError(t, batch.Decide(t.Context(), other))
			require.NoError(t, tx.Commit(t.Context()))
			batch.Write(&write)
			require.NoError(t, other.SendBatch(t.Context(), &write).Close())
			require.NoError(t, other.Commit(t.Context()))
			require.NoError(t, second.Err)
			requireTotal(t, pool, "charge", 700)
			requireRefunds(t, pool, "")
			shop := requireBooks(t, pool).balance("shop")
			require.EqualValues(t, 1000-300, shop.Credits-shop.Debits)
		})
	}
}

// A correction gives a refund to another charge while its undoing waits: that is then
// of the other's refund.
func TestAnUndoingIsOfWhatItsRefundIsOf(t *testing.T) {
	t.Parallel()
	pool := openOwner(t)
	item := event(back("a", 300))
	mustPost(t, pool, event(charge()), event(move("other", "customer", "shop", 1000)), item)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	moved := back("a", 200)
	moved.Parent = "other"
	require.NoError(t, ledger.Correct(t.Context(), tx, limits, &ledger.Correction{EventNo: item.EventNo, Replaces: []int64{item.EventNo}, Transfers: []ledger.Transfer{moved}}))
	undone := event(undo("u", "a", 200))
	var group errgroup.Group
	group.Go(func() error { return patiently(t.Context(), pool, []*ledger.Posting{undone}) })
	blocked(t, pool, tx)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, group.Wait())
	require.NoError(t, undone.Err)
	mustPost(t, pool, event(of("other", total(500))))
	requireGivenBack(t, pool, "")
	require.EqualValues(t, 1700, balance(t, pool, "shop"))
}
