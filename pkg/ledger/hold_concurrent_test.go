package ledger_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// Sixteen connections hold, capture, void and spend from two wallets, in random
// order, some holds expiring at once and some captures before their holds, while
// expired holds are released. The database's own check of the limit is dropped: the
// locks alone have to keep posted and held together within it.
func TestConcurrentHoldsKeepTheLimit(t *testing.T) {
	t.Parallel()
	url := pgtest.With(t, pgtest.Migrated(t, stack.DatabaseURL), "jit", "off")
	pgtest.Exec(t, url, `DROP TRIGGER accounts_limit ON accounts`)
	pools := []*pgxpool.Pool{pgtest.Patient(t, url, postgres.Worker), pgtest.Patient(t, url, postgres.Worker)} // of eight connections each
	const funds, rounds = 400, 12
	mustPost(t, pools[0], event(move("fund1", "world", "wallet1", funds)), event(move("fund2", "world", "wallet2", funds)))

	var refused, posted atomic.Int64
	var group errgroup.Group
	for worker := range uint64(16) {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(worker, 7))
			pool := pools[worker%2]
			for round := range rounds {
				var batch []*ledger.Posting
				for n := range 6 {
					wallet := fmt.Sprint("wallet", 1+random.IntN(2))
					key := fmt.Sprintf("%d/%d/%d", worker/2, round, n) // two workers tell of each
					if n%2 == 0 {
						wallet = "wallet1"
						key += "/shared"
					} else {
						key += fmt.Sprint("/", worker)
					}
					hold := holding("hold/"+key, wallet, "shop", 3)
					if n == 3 {
						hold = brief(hold)
					}
					part, rest := capture("part/"+key, hold.Operation, 1), capture("rest/"+key, hold.Operation, 2)
					part.Debit, rest.Debit = wallet, wallet
					rest.Fact = n == 4
					batch = append(batch, event(hold), event(part), event(move("spend/"+key, wallet, "shop", 1)))
					if n%3 == 0 {
						batch = append(batch, event(void("void/"+key, hold.Operation)))
					} else {
						batch = append(batch, event(rest))
					}
				}
				random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
				for half := range 2 {
					some := batch[half*len(batch)/2 : (half+1)*len(batch)/2]
					if err := patiently(t.Context(), pool, some); err != nil {
						return err
					}
					for _, p := range some {
						if p.Err != nil {
							refused.Add(1)
						}
						posted.Add(int64(len(p.Posted)))
					}
				}
				if err := withinLimits(t.Context(), pool); err != nil {
					return err
				}
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					_, err := ledger.ReleaseExpired(t.Context(), tx, limits, 5)
					return err
				})
				if err != nil && state(err) != "55P03" {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	require.Positive(t, refused.Load())
	require.Positive(t, posted.Load())
	require.NoError(t, checkHolds(t.Context(), pools[0], ""))
	b, err := readBooks(t.Context(), pools[0], "")
	require.NoError(t, err)
	require.NoError(t, b.check())
	requireSound(t, b)
	for _, wallet := range []string{"wallet1", "wallet2"} {
		s := b.balance(wallet)
		require.Equal(t, int64(funds), s.Credits)
		require.Greater(t, s.Debits+heldOf(t, pools[0], wallet), int64(funds-3), "nearly all of it could be spent or held")
	}
}

// withinLimits returns whether an enforced limit is passed by what is posted and held.
func withinLimits(ctx context.Context, pool *pgxpool.Pool) error {
	var over int
	err := pool.QueryRow(ctx, `
		SELECT count(*)
		FROM accounts
		WHERE limit_policy = 'enforce' AND debits_posted + (
			SELECT COALESCE(sum(held), 0) FROM holds WHERE debit = name AND holds.asset = accounts.asset AND expires_at > now()) > credits_posted`).Scan(&over)
	if err == nil && over > 0 {
		err = fmt.Errorf("%d accounts are over their limits", over)
	}
	return err
}

// A capture that is a fact and its hold, told of at the same moment by two workers:
// the hold knows of the capture, whoever is first.
func TestAFactAndItsHoldDoNotPassEachOtherBy(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"the hold", "the capture"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			pool := openHolds(t)
			mustPost(t, pool, event(move("fund", "world", "wallet", 100)))
			a, b := event(holding("hold", "wallet", "shop", 60)), event(fact(capture("c", "hold", 45)))
			if first != "the hold" {
				a, b = b, a
			}
			tx, err := pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
			require.NoError(t, postIn(t.Context(), tx, []*ledger.Posting{a}))
			waiter := make(chan error)
			go func() { waiter <- patiently(t.Context(), pool, []*ledger.Posting{b}) }()
			blocked(t, pool, tx)
			require.NoError(t, tx.Commit(t.Context()))
			require.NoError(t, <-waiter)
			require.NoError(t, a.Err)
			require.NoError(t, b.Err)
			require.EqualValues(t, 15, heldOf(t, pool, "wallet"))
			require.EqualValues(t, 55, balance(t, pool, "wallet"))
			require.NoError(t, checkHolds(t.Context(), pool, ""))
		})
	}
}

// What has expired counts no more, whether or not somebody comes to release it; then
// the account's row says so, too.
func TestReleaseExpired(t *testing.T) {
	t.Parallel()
	pool := openHolds(t)
	mustPost(t, pool, event(move("fund", "world", "wallet", 100)))
	var batch []*ledger.Posting
	for i := range 5 {
		batch = append(batch, event(brief(holding(fmt.Sprint("gone", i), "wallet", "shop", 10))))
	}
	mustPost(t, pool, append(batch, event(holding("stays", "wallet", "shop", 50)))...)
	stored := func() (pending int64) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT debits_pending FROM accounts WHERE name = 'wallet'`).Scan(&pending))
		return pending
	}
	require.EqualValues(t, 100, stored())
	require.EqualValues(t, 50, heldOf(t, pool, "wallet"))
	for _, want := range []struct {
		released int
		stored   int64
	}{{3, 70}, {2, 50}, {0, 50}} {
		var n int
		require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
			n, err = ledger.ReleaseExpired(t.Context(), tx, limits, 3)
			return err
		}))
		require.Equal(t, want.released, n)
		require.Equal(t, want.stored, stored())
		require.EqualValues(t, 50, heldOf(t, pool, "wallet"))
		require.NoError(t, checkHolds(t.Context(), pool, ""))
	}
	late := event(capture("late", "gone0", 1))
	mustPost(t, pool, late)
	require.ErrorIs(t, late.Err, ledger.ErrHoldClosed)
}

// An account on which nothing is held but what has expired is closed at once, whichever
// side of the holds it is; what is held still keeps it open.
func TestClosingReleasesWhatHasExpired(t *testing.T) {
	t.Parallel()
	worker, owner := openBoth(t)
	mustPost(t, worker, event(move("fund", "world", "wallet", 100)),
		event(brief(holding("gone", "wallet", "shop", 30))), event(brief(holding("gone too", "wallet", "till", 20))), event(brief(holding("other way", "till", "wallet", 5))))
	mustPost(t, worker, event(move("spend", "wallet", "world", 100)), event(holding("stays", "till", "shop", 7)))
	mustSetState(t, owner, "wallet", ledger.StateClosed)
	var pending []int64
	rows, err := worker.Query(t.Context(), `
		SELECT unnest(ARRAY[debits_pending, credits_pending])
		FROM accounts
		WHERE name IN ('shop', 'till', 'wallet')
		ORDER BY name, asset`)
	require.NoError(t, err)
	pending, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	require.Equal(t, []int64{0, 7, 7, 0, 0, 0}, pending, "shop, till, wallet")
	require.NoError(t, checkHolds(t.Context(), worker, ""))
	var policy string
	require.NoError(t, worker.QueryRow(t.Context(), `SELECT limit_policy FROM accounts WHERE name = 'wallet'`).Scan(&policy))
	require.Equal(t, "enforce", policy)

	_, err = setState(t, owner, "shop", ledger.StateClosed)
	require.ErrorIs(t, err, ledger.ErrNotEmpty)
	mustPost(t, worker, event(void("v", "stays")))
	mustSetState(t, owner, "shop", ledger.StateClosed)
}

// The database holds the limit by itself, too, and does not count what has expired.
func TestTheDatabaseCountsHolds(t *testing.T) {
	t.Parallel()
	pool := openHolds(t)
	mustPost(t, pool, event(move("fund", "world", "wallet", 100)), event(brief(holding("gone", "wallet", "shop", 30))), event(holding("stays", "wallet", "shop", 50)))
	_, err := pool.Exec(t.Context(), `UPDATE accounts SET debits_posted = debits_posted + 51 WHERE name = 'wallet'`)
	require.Equal(t, "23514", state(err))
	_, err = pool.Exec(t.Context(), `UPDATE accounts SET debits_posted = debits_posted + 50 WHERE name = 'wallet'`)
	require.NoError(t, err, "30 have expired")
}

// What is held or captured meets frozen and closed accounts as what is posted does;
// what is released passes.
func TestHoldsOnFrozenAccounts(t *testing.T) {
	t.Parallel()
	worker, owner := openBoth(t)
	for _, name := range []string{"wallet", "shop2", "fact"} {
		hold := holding("hold/"+name, name, "shop", 10)
		c := child("c/"+name, hold.Operation, name, "shop", 10)
		c.Kind = ledger.KindCapture
		mustPost(t, worker, event(move("fund/"+name, "world", name, 100)), event(hold))
		_, err := setState(t, owner, name, ledger.StateClosed)
		require.ErrorIs(t, err, ledger.ErrNotEmpty)
		mustSetState(t, owner, name, ledger.StateFrozen)
		more, taken, released := event(holding("more/"+name, name, "shop", 1)), event(c), event(void("v/"+name, hold.Operation))
		require.NoError(t, pgx.BeginFunc(t.Context(), worker, func(tx pgx.Tx) error { return ledger.Post(t.Context(), tx, limits, more) }))
		if name == "fact" { // a provider's hold or capture is a fact where its limit only records
			require.NoError(t, more.Err)
			require.Equal(t, []string{"fact"}, more.Frozen)
			mustPost(t, worker, taken)
			require.NoError(t, taken.Err)
			continue
		}
		require.ErrorIs(t, more.Err, ledger.ErrAccountFrozen)
		mustPost(t, worker, taken)
		require.ErrorIs(t, taken.Err, ledger.ErrAccountFrozen)
		mustPost(t, worker, released)
		require.NoError(t, released.Err)
		require.Zero(t, heldOf(t, worker, name))
	}
	require.NoError(t, checkHolds(t.Context(), worker, ""))
}

func TestCorrectionsRefuseHolds(t *testing.T) {
	t.Parallel()
	pool := openOwner(t)
	plain, held, taken, voided := event(move("fund", "world", "wallet", 100)), event(holding("hold", "wallet", "shop", 10)), event(capture("c", "hold", 4)), event(void("v", "hold"))
	mustPost(t, pool, plain, held, taken, voided)
	for _, p := range []*ledger.Posting{held, taken, voided} {
		require.NoError(t, p.Err)
		require.ErrorIs(t, correct(t.Context(), pool, &ledger.Correction{EventNo: p.EventNo, Replaces: []int64{p.EventNo}}), ledger.ErrCorrectHold)
	}
	for _, tr := range []ledger.Transfer{holding("h", "wallet", "shop", 1), capture("c2", "hold", 1), void("v2", "hold"), move("c", "wallet", "shop", 5), move("hold", "wallet", "shop", 10)} {
		c := &ledger.Correction{EventNo: plain.EventNo, Replaces: []int64{plain.EventNo}, Transfers: []ledger.Transfer{plain.Transfers[0], tr}, Over: true}
		require.ErrorIs(t, correct(t.Context(), pool, c), ledger.ErrCorrectHold, tr)
	}
	// Where nothing differs, nothing is refused, or done.
	for _, p := range []*ledger.Posting{held, taken, voided} {
		c := &ledger.Correction{EventNo: p.EventNo, Replaces: []int64{p.EventNo}, Transfers: p.Transfers}
		require.NoError(t, correct(t.Context(), pool, c))
		require.Empty(t, c.Reversed)
		require.Empty(t, c.Posted)
	}
	require.NoError(t, checkHolds(t.Context(), pool, ""))
}

// A hold, a transfer and a void are not the same money; a capture is its transfer.
func TestKindsOfOneOperation(t *testing.T) {
	t.Parallel()
	pool := openHolds(t)
	hold := holding("hold", "psp", "shop", 10)
	plain := move("hold", "psp", "shop", 10)
	c := capture("c", "hold", 10)
	c.Debit = "psp"
	other := holding("hold2", "psp", "shop", 10)
	mustPost(t, pool, event(hold), event(c), event(other), event(void("v", "hold2")))
	repeats := []*ledger.Posting{event(brief(hold)), event(final(fact(c))), event(move("c", "psp", "shop", 10)), event(void("v", "hold2"))}
	conflicts := []*ledger.Posting{event(plain), event(void("hold", "hold2")), event(void("v", "hold")), event(holding("c", "psp", "shop", 10)), event(holding("v", "psp", "shop", 10))}
	mustPost(t, pool, append(repeats, conflicts...)...)
	for _, p := range repeats {
		require.NoError(t, p.Err)
		require.Empty(t, p.Posted)
	}
	for _, p := range conflicts {
		require.ErrorIs(t, p.Err, ledger.ErrOperationConflict)
	}
	require.ErrorContains(t, conflicts[0].Err, " made a hold of 10 EUR from psp to shop, this one asks for 10 EUR")
	require.ErrorContains(t, conflicts[2].Err, " made a void of hold2, this one asks for a void of hold")
	require.NoError(t, checkHolds(t.Context(), pool, ""))
}

// A hold that ends at once is one, and has ended.
func TestAHoldWithoutTime(t *testing.T) {
	t.Parallel()
	pool := openHolds(t)
	none := holding("none", "wallet", "shop", 10)
	none.Expires = 0
	mustPost(t, pool, event(move("fund", "world", "wallet", 10)), event(none))
	require.NoError(t, checkHolds(t.Context(), pool, ""))
	spend := event(move("spend", "wallet", "shop", 10))
	mustPost(t, pool, spend)
	require.NoError(t, spend.Err)
}
