package ledger_test

import (
	"context"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// everything returns all transfers in the order of a statement, read as one
// would without indexes.
func everything(t testing.TB, pool *pgxpool.Pool) []*ledger.Entry {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
		SELECT event_no, n, operation, debit, credit, asset, amount, reverses, created_at
		FROM transfers
		ORDER BY created_at, event_no, n`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*ledger.Entry, error) {
		var e ledger.Entry
		return &e, row.Scan(&e.EventNo, &e.N, &e.Operation, &e.Debit, &e.Credit, &e.Transfer.Asset, &e.Amount, &e.Reverses, &e.Posted)
	})
	require.NoError(t, err)
	return all
}

// sumsBefore adds up what was recorded before an instant.
func sumsBefore(all []*ledger.Entry, at time.Time) map[account]sums {
	to := map[account]sums{}
	for _, e := range all {
		if !e.Posted.Before(at) {
			continue
		}
		debit, credit := account{e.Debit, e.Asset}, account{e.Credit, e.Asset}
		to[debit] = sums{to[debit].Debits + e.Amount, to[debit].Credits}
		to[credit] = sums{to[credit].Debits, to[credit].Credits + e.Amount}
	}
	return to
}

// history posts events of several assets, some with many transfers, some with
// reversals, each in a transaction of its own.
func history(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	gems := func(operation, debit, credit string, amount int64) ledger.Transfer {
		tr := move(operation, debit, credit, amount)
		tr.Asset = "GEMS"
		return tr
	}
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return ledger.DeclareAssets(t.Context(), tx, []ledger.Asset{{Code: "GEMS", Exponent: 3}})
	}))
	paid := event(move("pay", "psp", "wallet", 900), move("fee", "wallet", "fees", 9), gems("gift", "mint", "wallet", 5))
	mustPost(t, pool, paid)
	mustPost(t, pool, event(move("a", "psp", "wallet", 1), move("b", "psp", "wallet", 2), move("c", "psp", "wallet", 3), move("d", "psp", "shop", 4)),
		event(move("e", "psp", "wallet", 5)), event(gems("f", "wallet", "shop", 2)))
	right := ledger.Correction{EventNo: paid.EventNo, Replaces: []int64{paid.EventNo},
		Transfers: []ledger.Transfer{move("pay", "psp", "wallet", 100), gems("gift", "mint", "wallet", 5)}}
	require.NoError(t, correct(t.Context(), pool, &right))
	mustPost(t, pool, event(move("spend", "wallet", "shop", 50)))
	// An account that a refused event has opened: it has moved nothing.
	refused := event(move("more", "wallet:empty", "shop", 1))
	mustPost(t, pool, refused)
	require.ErrorIs(t, refused.Err, ledger.ErrInsufficientFunds)
}

// instants are all that can make a difference, and some that cannot.
func instants(all []*ledger.Entry) []time.Time {
	list := []time.Time{time.Unix(0, 0), time.Now().Add(time.Hour)}
	for _, e := range all {
		list = append(list, e.Posted.Add(-time.Microsecond), e.Posted, e.Posted.Add(1), e.Posted.Add(time.Microsecond))
	}
	return list
}

func TestBalancesOfAnyInstantAreTheSumsUpToIt(t *testing.T) {
	pool := openOwner(t)
	history(t, pool)
	all := everything(t, pool)
	reversals := 0
	for _, e := range all {
		if e.Reverses != nil {
			reversals++
		}
	}
	require.Equal(t, 2, reversals)
	asOf := func(b *ledger.Balance) sums { return sums{b.Debits, b.Credits} }
	// Summed up from the beginning, and back from today's balance: whichever of the
	// two is nearer by the time at which the account was opened.
	for _, opened := range []string{"now()", "now() - interval '1 year'"} {
		pgtest.Exec(t, pool.Config().ConnString(), `UPDATE accounts SET opened_at = `+opened)
		for _, at := range instants(all) {
			want := sumsBefore(all, at)
			for _, name := range []string{"psp", "wallet", "wallet:empty", "shop", "fees", "mint"} {
				balances, err := ledger.BalanceAt(t.Context(), pool, name, at)
				require.NoError(t, err)
				require.NotEmpty(t, balances)
				for _, b := range balances {
					require.Equal(t, want[account{name, b.Code}], asOf(b), "%s %s at %s", name, b.Code, at)
					require.Equal(t, map[string]int{"EUR": 2, "GEMS": 3}[b.Code], b.Exponent)
				}
			}
			// The same, a page of one after the other, and of one asset.
			seen := map[account]sums{}
			f := ledger.AccountFilter{Limit: 1}
			for pages := 0; ; pages++ {
				require.Less(t, pages, 10)
				page, err := ledger.BalancesAt(t.Context(), pool, f, at)
				require.NoError(t, err)
				if len(page) == 0 {
					break
				}
				b := page[0]
				f.AfterName, f.AfterAsset = b.Account, b.Code
				if asOf(b) != (sums{}) {
					seen[account{b.Account, b.Code}] = asOf(b)
				}
			}
			require.Equal(t, want, seen)
			gems, err := ledger.BalancesAt(t.Context(), pool, ledger.AccountFilter{Prefix: "wal", Asset: "GEMS"}, at)
			require.NoError(t, err)
			require.Len(t, gems, 1)
			require.Equal(t, want[account{"wallet", "GEMS"}], asOf(gems[0]))
		}
	}
	now, err := ledger.BalanceAt(t.Context(), pool, "wallet", time.Time{})
	require.NoError(t, err)
	require.Equal(t, sumsBefore(all, time.Now())[account{"wallet", "EUR"}], asOf(now[0]))
	require.EqualValues(t, 61, now[0].Net())
	none, err := ledger.BalanceAt(t.Context(), pool, "nobody", time.Now())
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestTrialBalance(t *testing.T) {
	pool := openOwner(t)
	history(t, pool)
	all := everything(t, pool)
	ctx := t.Context()

	type total struct {
		Accounts, Exponent int
		Debits, Credits    string
	}
	read := func(at time.Time, asset string) map[string]total {
		list, err := ledger.TrialBalance(ctx, pool, at, asset)
		require.NoError(t, err)
		byAsset := map[string]total{}
		for _, a := range list {
			require.True(t, a.Equal())
			byAsset[a.Code] = total{a.Accounts, a.Exponent, a.Debits.String(), a.Credits.String()}
		}
		return byAsset
	}
	now := map[string]total{"EUR": {5, 2, "1983", "1983"}, "GEMS": {3, 3, "7", "7"}}
	require.Equal(t, now, read(time.Time{}, ""))
	require.Equal(t, now, read(time.Now().Add(time.Hour), ""))
	require.Equal(t, map[string]total{"GEMS": now["GEMS"]}, read(time.Time{}, "GEMS"))
	require.Equal(t, map[string]total{"GEMS": now["GEMS"]}, read(time.Now(), "GEMS"))
	require.Empty(t, read(all[0].Posted, ""), "no account was there before the first transfer")
	first := all[0].Posted.Add(time.Microsecond)
	require.Equal(t, map[string]total{"EUR": {3, 2, "909", "909"}, "GEMS": {2, 3, "5", "5"}}, read(first, ""))

	t.Run("sums pass 64 bits", func(t *testing.T) {
		for i, pair := range [][2]string{{"big1", "big2"}, {"big3", "big4"}, {"big5", "big6"}} {
			tr := move("big"+pair[0], pair[0], pair[1], math.MaxInt64)
			tr.Asset = "USD"
			e := event(tr)
			mustPost(t, pool, e)
			require.NoError(t, e.Err, i)
		}
		want := new(big.Int).Mul(big.NewInt(math.MaxInt64), big.NewInt(3)).String()
		require.Equal(t, total{6, 2, want, want}, read(time.Time{}, "USD")["USD"])
		require.Equal(t, total{6, 2, want, want}, read(time.Now().Add(time.Hour), "")["USD"])
	})
	t.Run("what somebody changed by hand shows", func(t *testing.T) {
		pgtest.Exec(t, pool.Config().ConnString(), `UPDATE accounts SET debits_posted = debits_posted + 1 WHERE name = 'psp'`)
		for _, at := range []time.Time{{}, time.Now().Add(time.Hour)} {
			list, err := ledger.TrialBalance(ctx, pool, at, "EUR")
			require.NoError(t, err)
			require.False(t, list[0].Equal())
			require.Equal(t, "1984", list[0].Debits.String())
		}
	})
	t.Run("an account whose transfers pass 64 bits is an error", func(t *testing.T) {
		pgtest.Exec(t, pool.Config().ConnString(),
			`INSERT INTO accounts (name, asset, opened_at) VALUES ('damaged', 'EUR', '2020-01-01Z')`,
			`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount, created_at)
			 SELECT 999999, n, 'x', 'damaged', 'other', 'EUR', 9223372036854775807, '2020-01-01Z' FROM generate_series(0, 1) AS n`)
		_, err := ledger.BalanceAt(ctx, pool, "damaged", time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC))
		require.Equal(t, "22003", state(err))
		b := ledger.Balance{Account: "damaged"}
		e := ledger.Entry{Transfer: move("x", "damaged", "other", math.MaxInt64)}
		require.NoError(t, b.Add(&e))
		require.ErrorIs(t, b.Add(&e), ledger.ErrAmountOverflow)
		require.EqualValues(t, math.MaxInt64, b.Debits)
	})
}

// A transaction that began first commits last: an instant between the two counts
// it and not the other, and is not final before.
func TestTransactionsThatCommitOutOfOrder(t *testing.T) {
	pool := openOwner(t)
	ctx := t.Context()
	begin := func() (pgx.Tx, time.Time) {
		tx, err := pool.Begin(ctx)
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		var at time.Time
		require.NoError(t, tx.QueryRow(ctx, `SELECT now()`).Scan(&at))
		return tx, at
	}
	credits := func(at time.Time) int64 {
		balances, err := ledger.BalanceAt(ctx, pool, "shop", at)
		require.NoError(t, err)
		if len(balances) == 0 {
			return 0
		}
		return balances[0].Credits
	}
	settled := func(at time.Time) bool {
		done, err := ledger.Settled(ctx, pool, at)
		require.NoError(t, err)
		return done
	}
	first, began := begin()
	second, between := begin()
	require.True(t, began.Before(between))
	require.NoError(t, postIn(ctx, second, []*ledger.Posting{event(move("second", "psp", "shop", 20))}))
	require.NoError(t, second.Commit(ctx))

	require.EqualValues(t, 20, credits(time.Now().Add(time.Hour)))
	require.Zero(t, credits(between))
	require.False(t, settled(between))
	require.Eventually(t, func() bool { return settled(began) }, 10*time.Second, 10*time.Millisecond, "nothing can come before it")

	require.NoError(t, postIn(ctx, first, []*ledger.Posting{event(move("first", "psp", "shop", 1))}))
	require.False(t, settled(between))
	require.NoError(t, first.Commit(ctx))
	require.EqualValues(t, 1, credits(between))
	require.Zero(t, credits(began))
	require.EqualValues(t, 21, credits(time.Now().Add(time.Hour)))
	require.Eventually(t, func() bool { return settled(between) }, 10*time.Second, 10*time.Millisecond)
	require.EqualValues(t, 1, credits(between))
	require.False(t, settled(time.Now().Add(time.Hour)), "what is to come is never final")
}

// A role that may not see what others run does not call final what it cannot know.
func TestSettledKnowsWhatItCannotSee(t *testing.T) {
	own := pgtest.Migrated(t, stack.DatabaseURL)
	owner, worker := pgtest.Patient(t, own, postgres.Owner), pgtest.Patient(t, own, postgres.Worker)
	require.NoError(t, owner.Ping(t.Context())) // and keeps its session
	settled, err := ledger.Settled(t.Context(), worker, time.Now().Add(-time.Second))
	require.NoError(t, err)
	require.False(t, settled)
	settled, err = ledger.Settled(t.Context(), worker, time.Now().Add(-2*time.Minute))
	require.NoError(t, err)
	require.True(t, settled)
}
