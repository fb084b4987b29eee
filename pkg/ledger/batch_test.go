package ledger_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/ledger"
)

func TestPostMovesMoneyOnce(t *testing.T) {
	t.Parallel()
	pool := open(t)
	charge := move("charge", "customer", "shop", 1000)
	first, repeat := event(charge), event(charge)
	mustPost(t, pool, first)
	mustPost(t, pool, repeat)
	require.Equal(t, []ledger.Transfer{charge}, first.Posted)
	require.NoError(t, repeat.Err)
	require.Empty(t, repeat.Posted)

	b := requireBooks(t, pool)
	require.Equal(t, sums{Debits: 1000}, b.balance("customer"))
	require.Equal(t, sums{Credits: 1000}, b.balance("shop"))
}

func TestPartsThatAreThereAreSkipped(t *testing.T) {
	t.Parallel()
	pool := open(t)
	charge, fee := move("charge", "customer", "shop", 1000), move("fee", "shop", "provider", 30)
	mustPost(t, pool, event(charge))
	both := event(charge, fee, fee)
	mustPost(t, pool, both)
	require.NoError(t, both.Err)
	require.Equal(t, []ledger.Transfer{fee}, both.Posted)
	require.Equal(t, sums{Debits: 30, Credits: 1000}, requireBooks(t, pool).balance("shop"))
}

func TestAnotherContentIsAConflict(t *testing.T) {
	t.Parallel()
	charge := move("charge", "customer", "shop", 1000)
	for outcome, change := range map[string]func(*ledger.Transfer){
		"amount": func(t *ledger.Transfer) { t.Amount++ },
		"asset":  func(t *ledger.Transfer) { t.Asset = "USD" },
		"debit":  func(t *ledger.Transfer) { t.Debit = "other" },
		"credit": func(t *ledger.Transfer) { t.Credit = "other" },
		"both":   func(t *ledger.Transfer) { t.Debit, t.Credit = t.Credit, t.Debit },
	} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			pool := open(t)
			other := charge
			change(&other)
			first, late := event(charge), event(move("fee", "shop", "provider", 30), other)
			inBatch, within := event(other), event(move("within", "a", "b", 1), move("within", "a", "b", 2))
			mustPost(t, pool, first, inBatch, within)
			before := requireBooks(t, pool)
			mustPost(t, pool, late)
			for _, p := range []*ledger.Posting{inBatch, within, late} {
				require.ErrorIs(t, p.Err, ledger.ErrOperationConflict)
				require.True(t, isRefusal(p.Err))
				require.Empty(t, p.Posted)
			}
			require.ErrorContains(t, late.Err, fmt.Sprintf("event %d posted 1000 EUR from customer to shop", first.EventNo))
			require.ErrorContains(t, within.Err, fmt.Sprintf("event %d posted 1 EUR", within.EventNo))
			require.Equal(t, before, requireBooks(t, pool))
			require.Len(t, before.Transfers, 1)
		})
	}
}

func TestARefusalLeavesNoTrace(t *testing.T) {
	t.Parallel()
	pool := open(t)
	mustPost(t, pool, event(move("fund", "world", "wallet", 10)))
	before := requireBooks(t, pool)
	refused := event(move("in", "world", "shop", 5), move("out", "wallet", "shop", 11))
	after := event(move("spend", "wallet", "shop", 10))
	mustPost(t, pool, refused, after)
	require.ErrorIs(t, refused.Err, ledger.ErrInsufficientFunds)
	require.ErrorContains(t, refused.Err, "account wallet: debits would be 11 EUR, with 0 EUR held, against credits of 10 EUR")
	require.NoError(t, after.Err)

	b := requireBooks(t, pool)
	require.NotContains(t, b.Operations, "in")
	require.NotContains(t, b.Operations, "out")
	require.Equal(t, sums{Debits: 10, Credits: 10}, b.balance("wallet"))
	require.Equal(t, before.balance("world"), b.balance("world"))
	require.Equal(t, sums{Credits: 10}, b.balance("shop"))

	// It does not burn its keys: with money it passes.
	again := event(refused.Transfers...)
	mustPost(t, pool, event(move("fund2", "world", "wallet", 11)), again)
	require.Len(t, again.Posted, 2)
	requireBooks(t, pool)
}

func TestALaterPostingTakesOverARefusedOnesOperation(t *testing.T) {
	t.Parallel()
	pool := open(t)
	refused := event(move("op", "wallet", "shop", 5))
	taker := event(move("op", "customer", "shop", 5))
	repeat, other := event(taker.Transfers...), event(refused.Transfers...)
	mustPost(t, pool, refused, taker, repeat, other)
	require.ErrorIs(t, refused.Err, ledger.ErrInsufficientFunds)
	require.Equal(t, taker.Transfers, taker.Posted)
	require.NoError(t, repeat.Err)
	require.Empty(t, repeat.Posted)
	require.ErrorIs(t, other.Err, ledger.ErrOperationConflict)

	b := requireBooks(t, pool) // reads operations with the number of their event
	require.Equal(t, map[string]ledger.Transfer{"op": taker.Transfers[0]}, b.Operations)
	require.Equal(t, sums{}, b.balance("wallet"))
}

func TestASkippedPostingLeavesItsOperationsToOthers(t *testing.T) {
	t.Parallel()
	pool := open(t)
	taken, free := move("taken", "a", "b", 1), move("free", "a", "b", 2)
	skipped, taker := event(taken, free), event(move("taken", "a", "c", 3))
	require.NoError(t, post(t.Context(), pool, []*ledger.Posting{skipped, taker}, skipped))
	require.NoError(t, skipped.Err)
	require.Empty(t, skipped.Posted)
	require.Equal(t, taker.Transfers, taker.Posted)
	b := requireBooks(t, pool)
	require.Len(t, b.Operations, 1)
	require.Equal(t, sums{Debits: 3}, b.balance("a"))
}

func TestANewLimitedAccountOpensWithNothing(t *testing.T) {
	t.Parallel()
	pool := open(t)
	early := event(move("early", "wallet", "shop", 1))
	mustPost(t, pool, early)
	require.ErrorIs(t, early.Err, ledger.ErrInsufficientFunds)
	require.ErrorContains(t, early.Err, "debits would be 1 EUR, with 0 EUR held, against credits of 0 EUR")
	require.Equal(t, map[account]sums{{"wallet", "EUR"}: {}}, requireBooks(t, pool).Accounts)

	var rule, policy string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT balance_limit, limit_policy FROM accounts WHERE name = 'wallet'`).Scan(&rule, &policy))
	require.Equal(t, []string{string(ledger.DebitsMustNotExceedCredits), "enforce"}, []string{rule, policy})
}

// A changed configuration takes effect with the next transfer, and the last guard
// with it.
func TestALimitThatChangesIsStored(t *testing.T) {
	t.Parallel()
	pool := open(t)
	var rule, policy *string
	for n, limit := range []ledger.Limit{
		{Rule: ledger.DebitsMustNotExceedCredits, Enforce: true}, {Rule: ledger.DebitsMustNotExceedCredits}, {Rule: ledger.CreditsMustNotExceedDebits},
		{}, {Rule: ledger.DebitsMustNotExceedCredits, Enforce: true},
	} {
		for i := range 2 { // once to change it, once as it stands
			p := event(move(fmt.Sprint(n, "/", i), "world", "plain", 5))
			require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				return ledger.Post(t.Context(), tx, func(name string) (ledger.Limit, bool) { return limit, name == "plain" }, p)
			}))
			require.NoError(t, p.Err)
			require.NoError(t, pool.QueryRow(t.Context(), `SELECT balance_limit, limit_policy FROM accounts WHERE name = 'plain'`).Scan(&rule, &policy))
			if limit.Rule == "" {
				require.Nil(t, rule)
				require.Nil(t, policy)
				continue
			}
			require.Equal(t, string(limit.Rule), *rule)
			require.Equal(t, limit.Enforce, *policy == "enforce")
		}
	}
	require.Equal(t, sums{Credits: 50}, requireBooks(t, pool).balance("plain"))
}

func TestLimits(t *testing.T) {
	t.Parallel()
	pool := open(t)
	for _, c := range []struct {
		outcome string
		ask     ledger.Transfer
		refused bool
	}{
		{"a card cannot be credited before it was debited", move("1", "world", "card", 1), true},
		{"a debit only eases a card", move("2", "card", "shop", 5), false},
		{"a card is credited up to its debits", move("3", "world", "card", 5), false},
		{"and not beyond", move("4", "world", "card", 1), true},
		{"a fact is recorded whatever the balance", move("5", "fact", "shop", 100), false},
		{"a wallet in another asset is another account", ledger.Transfer{Operation: "6", Debit: "world", Credit: "wallet", Asset: "GEMS", Amount: 9}, false},
		{"and does not pay here", move("7", "wallet", "shop", 1), true},
		{"credit fills a wallet", move("8", "world", "wallet", 3), false},
		{"which pays up to that", move("9", "wallet", "wallet2", 3), false},
		{"and passes on what it was given", move("10", "wallet2", "card", 0+3), true}, // the card takes none
		{"to whom may take it", move("11", "wallet2", "shop", 3), false},
	} {
		p := event(c.ask)
		mustPost(t, pool, p)
		if !c.refused {
			require.NoError(t, p.Err, c.outcome)
			continue
		}
		require.ErrorIs(t, p.Err, ledger.ErrInsufficientFunds, c.outcome)
	}
	require.Equal(t, sums{Debits: 100}, requireBooks(t, pool).balance("fact"))
}

func TestHeldMoneyIsNotSpent(t *testing.T) {
	t.Parallel()
	pool := open(t)
	mustPost(t, pool, event(move("fund", "world", "wallet", 10)))
	_, err := pool.Exec(t.Context(), `UPDATE accounts SET debits_pending = 4 WHERE name = 'wallet'`)
	require.NoError(t, err)
	much, enough := event(move("much", "wallet", "shop", 7)), event(move("enough", "wallet", "shop", 6))
	mustPost(t, pool, much, enough)
	require.ErrorIs(t, much.Err, ledger.ErrInsufficientFunds)
	require.NoError(t, enough.Err)
}

// A limit that the configuration gives to an account that is there already: the
// row does not know it, and what eases the account passes.
func TestALimitThatComesLater(t *testing.T) {
	t.Parallel()
	pool := open(t)
	unbounded := func(string) (ledger.Limit, bool) { return ledger.Limit{}, false }
	with := func(limits func(string) (ledger.Limit, bool), tr ledger.Transfer) (*ledger.Posting, error) {
		p := event(tr)
		return p, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return ledger.Post(t.Context(), tx, limits, p) })
	}
	_, err := with(unbounded, move("1", "wallet", "shop", 10))
	require.NoError(t, err)
	p, err := with(limits, move("2", "wallet", "shop", 1))
	require.NoError(t, err)
	require.ErrorIs(t, p.Err, ledger.ErrInsufficientFunds)
	p, err = with(limits, move("3", "shop", "wallet", 4))
	require.NoError(t, err)
	require.NoError(t, p.Err)

	// The other way round today's limit wins too: none.
	_, err = with(limits, move("4", "shop", "wallet2", 1))
	require.NoError(t, err)
	p, err = with(unbounded, move("5", "wallet2", "shop", 2))
	require.NoError(t, err)
	require.NoError(t, p.Err)

	// The database is the last guard of what is enforced.
	_, err = with(limits, move("6", "shop", "wallet2", 1))
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE accounts SET debits_posted = debits_posted + 1 WHERE name = 'wallet2'`)
	require.ErrorContains(t, err, "refuses the change of account wallet2")
	require.Equal(t, "23514", state(err))
	requireBooks(t, pool)
}

func TestOverflowIsRefusedAndNeverWraps(t *testing.T) {
	t.Parallel()

	t.Run("within a batch, in Go", func(t *testing.T) {
		t.Parallel()
		pool := open(t)
		first, second, third := event(move("1", "a", "b", math.MaxInt64)), event(move("2", "a", "c", 1)), event(move("3", "d", "c", 1))
		mustPost(t, pool, first, second, third)
		require.NoError(t, first.Err)
		require.ErrorIs(t, second.Err, ledger.ErrAmountOverflow)
		require.NoError(t, third.Err)
		require.Equal(t, sums{Debits: math.MaxInt64}, requireBooks(t, pool).balance("a"))
	})
	t.Run("within a posting, in Go", func(t *testing.T) {
		t.Parallel()
		pool := open(t)
		p := event(move("1", "a", "b", math.MaxInt64), move("2", "c", "b", math.MaxInt64))
		mustPost(t, pool, p)
		require.ErrorIs(t, p.Err, ledger.ErrAmountOverflow)
		require.Empty(t, requireBooks(t, pool).Accounts)
	})
	t.Run("of a limited account's balance, in Go", func(t *testing.T) {
		t.Parallel()
		pool := open(t)
		mustPost(t, pool, event(move("1", "world", "wallet", math.MaxInt64)))
		p := event(move("2", "shop", "wallet", 1))
		mustPost(t, pool, p)
		require.ErrorIs(t, p.Err, ledger.ErrAmountOverflow)
	})
	t.Run("of an unlimited account's balance, in the database", func(t *testing.T) {
		t.Parallel()
		pool := open(t)
		mustPost(t, pool, event(move("1", "a", "b", math.MaxInt64)))
		before := requireBooks(t, pool)
		for _, tr := range []ledger.Transfer{move("2", "a", "c", 1), move("2", "c", "b", 1)} {
			require.Equal(t, "22003", state(post(t.Context(), pool, []*ledger.Posting{event(move("3", "c", "d", 1)), event(tr)})))
		}
		require.Equal(t, before, requireBooks(t, pool))
	})
}

func TestWhatIsNoTransferIsRefusedByTheDatabase(t *testing.T) {
	t.Parallel()
	pool := open(t)
	for outcome, c := range map[string]struct {
		ask   ledger.Transfer
		state string
	}{
		"nothing":        {move("1", "a", "b", 0), "23514"},
		"less":           {move("1", "a", "b", -5), "23514"},
		"a circle":       {move("1", "a", "a", 5), "23514"},
		"NUL in a key":   {move("1\x00", "a", "b", 5), "22021"},
		"NUL in a name":  {move("1", "a\x00", "b", 5), "22021"},
		"a name no UTF8": {move("1", "wallet\xff", "b", 5), "22021"},
	} {
		err := post(t.Context(), pool, []*ledger.Posting{event(move("fine", "a", "b", 1)), event(c.ask)})
		require.Equal(t, c.state, state(err), outcome)
	}
	require.Empty(t, requireBooks(t, pool).Accounts)
}

func TestOddNamesAreAccountsOfTheirOwn(t *testing.T) {
	t.Parallel()
	pool := open(t)
	odd := []string{"é", "e\u0301", "a b", "a b ", `{a,"b"}`, "NULL", "", "日本", "'", "A", "a", `\`}
	var postings []*ledger.Posting
	for i, name := range odd {
		postings = append(postings, event(move("op"+name, name, "sink", int64(i+1))))
	}
	mustPost(t, pool, postings...)
	b := requireBooks(t, pool)
	for i, name := range odd {
		require.Equal(t, sums{Debits: int64(i + 1)}, b.balance(name), "%q", name)
	}
}

func TestAnEmptyBatchWritesNothing(t *testing.T) {
	t.Parallel()
	pool := open(t)
	mustPost(t, pool)
	mustPost(t, pool, event())
	require.Empty(t, requireBooks(t, pool).Accounts)
}

func TestABatchRolledBackIsNotThere(t *testing.T) {
	t.Parallel()
	pool := open(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, ledger.Post(t.Context(), tx, limits, event(move("1", "a", "wallet", 1))))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Empty(t, requireBooks(t, pool).Accounts)
}

func TestDeclareAssets(t *testing.T) {
	t.Parallel()
	pool := pgtest.Patient(t, pgtest.Migrated(t, stack.DatabaseURL), postgres.Worker)
	declare := func(assets ...ledger.Asset) error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return ledger.DeclareAssets(t.Context(), tx, assets) })
	}
	points, gems := ledger.Asset{Code: "POINTS", Exponent: 0}, ledger.Asset{Code: "GEMS", Exponent: 2}
	require.NoError(t, declare(points, gems))
	require.NoError(t, declare(gems, points))
	err := declare(ledger.Asset{Code: "COINS", Exponent: 3}, ledger.Asset{Code: "GEMS", Exponent: 3})
	require.ErrorContains(t, err, "declare asset GEMS: exponent 3 in the configuration, 2 in the ledger")

	var assets int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM assets`).Scan(&assets))
	require.Equal(t, 2, assets)
}
