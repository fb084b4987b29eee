package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// openBoth returns a database of the test's own, with the rights of a worker and
// with those of an operator.
func openBoth(t testing.TB) (worker, owner *pgxpool.Pool) {
	t.Helper()
	url := pgtest.Migrated(t, stack.DatabaseURL)
	return pgtest.Patient(t, url, postgres.Worker), pgtest.Patient(t, url, postgres.Owner)
}

// openAccount opens an account in EUR, or returns why not.
func openAccount(t testing.TB, owner *pgxpool.Pool, name string, metadata map[string]string) (a *ledger.Account, err error) {
	t.Helper()
	err = pgx.BeginFunc(t.Context(), owner, func(tx pgx.Tx) error {
		a, err = ledger.OpenAccount(t.Context(), tx, name, "EUR", nil, metadata)
		return err
	})
	return a, err
}

// setState changes the state of an account in all its assets, or returns why not.
func setState(t testing.TB, owner *pgxpool.Pool, name string, to ledger.State) (changed []*ledger.Account, err error) {
	t.Helper()
	err = pgx.BeginFunc(t.Context(), owner, func(tx pgx.Tx) error {
		changed, err = ledger.SetState(t.Context(), tx, name, "", to)
		return err
	})
	return changed, err
}

func mustSetState(t testing.TB, owner *pgxpool.Pool, name string, to ledger.State) {
	t.Helper()
	changed, err := setState(t, owner, name, to)
	require.NoError(t, err)
	require.Len(t, changed, 1)
	require.Equal(t, to, changed[0].State)
}

// Accounts with a limit are opened before they are locked and judged: a posting that is
// refused leaves them, empty, and no others.
func TestWhatIsRefusedLeavesLimitedAccountsEmpty(t *testing.T) {
	t.Parallel()
	worker, owner := openBoth(t)
	poor, orphan := event(move("poor", "wallet:new", "shop:new", 5)), event(child("orphan", "nobody", "world", "fact:new", 5))
	for range 2 { // as often as it is tried
		mustPost(t, worker, poor, orphan)
		require.ErrorIs(t, poor.Err, ledger.ErrInsufficientFunds)
		require.ErrorIs(t, orphan.Err, ledger.ErrMissingParent)
	}
	require.Empty(t, requireBooks(t, owner).Transfers)
	var names []string
	accounts, err := ledger.Accounts(t.Context(), owner, ledger.AccountFilter{})
	require.NoError(t, err)
	for _, a := range accounts {
		names = append(names, a.Name)
		require.Equal(t, ledger.StateOpen, a.State)
		require.Zero(t, [4]int64{a.DebitsPosted, a.CreditsPosted, a.DebitsPending, a.CreditsPending}, a.Name)
	}
	require.Equal(t, []string{"fact:new", "wallet:new"}, names, "world and shop:new have no limit")
	trial, err := ledger.TrialBalance(t.Context(), owner, time.Time{}, "")
	require.NoError(t, err)
	require.Len(t, trial, 1)
	require.True(t, trial[0].Equal())
	require.Zero(t, trial[0].Debits.Sign())

	mustPost(t, worker, event(move("fund", "world", "wallet:new", 5)), poor)
	require.NoError(t, poor.Err)
	mustSetState(t, owner, "wallet:new", ledger.StateClosed)
	mustSetState(t, owner, "fact:new", ledger.StateClosed)
}

func TestAccountsThatHaveToBeOpenedFirst(t *testing.T) {
	t.Parallel()
	worker, owner := openBoth(t)
	for _, name := range []string{"told", "purse"} {
		t.Run(name, func(t *testing.T) {
			in := move("in/"+name, "world", name, 10)
			early, beside := event(in, move("fee/"+name, "world", "fees", 1)), event(move("beside/"+name, "world", "shop", 1))
			mustPost(t, worker, early, beside)
			require.ErrorIs(t, early.Err, ledger.ErrAccountUnknown)
			require.ErrorContains(t, early.Err, name+" in EUR")
			require.NoError(t, beside.Err)
			b := requireBooks(t, worker)
			require.NotContains(t, b.Accounts, account{name, "EUR"}, "a refusal opens nothing")
			require.NotContains(t, b.Operations, "fee/"+name)

			_, err := openAccount(t, owner, name, nil)
			require.NoError(t, err)
			_, err = openAccount(t, owner, name, nil)
			require.ErrorIs(t, err, ledger.ErrAccountExists)
			late, other := event(in), event(ledger.Transfer{Operation: "usd/" + name, Debit: "world", Credit: name, Asset: "USD", Amount: 1})
			mustPost(t, worker, late, other)
			require.NoError(t, late.Err)
			require.ErrorIs(t, other.Err, ledger.ErrAccountUnknown, "it is open in EUR alone")
			require.EqualValues(t, 10, balance(t, worker, name))
		})
	}
	// One that came to be before it had to be opened is there.
	undemanding := func(string) (ledger.Limit, bool) { return ledger.Limit{}, false }
	require.NoError(t, pgx.BeginFunc(t.Context(), worker, func(tx pgx.Tx) error {
		return ledger.Post(t.Context(), tx, undemanding, event(move("before", "world", "told2", 1)))
	}))
	p := event(move("after", "told2", "world", 1))
	mustPost(t, worker, p)
	require.NoError(t, p.Err)
}

// What a frozen and a closed account take, by its limit. Each has 10 on it, or owes 10.
func TestFrozenAndClosedAccounts(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		frozenDebit, frozenCredit error
	}{
		"shop":   {ledger.ErrAccountFrozen, ledger.ErrAccountFrozen},
		"told":   {ledger.ErrAccountFrozen, ledger.ErrAccountFrozen},
		"wallet": {ledger.ErrAccountFrozen, ledger.ErrAccountFrozen},
		"fact":   {nil, ledger.ErrAccountFrozen}, // a refund or a dispute has happened
		"claim":  {ledger.ErrAccountFrozen, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worker, owner := openBoth(t)
			_, err := openAccount(t, owner, name, nil)
			require.NoError(t, err)
			mustPost(t, worker, event(move("fill", "world", name, 10)))
			mustSetState(t, owner, name, ledger.StateFrozen)
			before := requireBooks(t, worker)

			debit, credit := event(move("debit", name, "world", 3)), event(move("credit", "world", name, 4))
			through := event(move("through", "world", name, 1), move("out", name, "world", 1))
			neighbour := event(move("neighbour", "world", "other", 1))
			mustPost(t, worker, debit, credit, through, neighbour)
			require.NoError(t, neighbour.Err)
			require.ErrorIs(t, through.Err, ledger.ErrAccountFrozen, "what goes both ways is no fact")
			after := requireBooks(t, worker).balance(name)
			expected := before.balance(name)
			for _, asked := range []struct {
				p    *ledger.Posting
				want error
				side *int64
			}{{debit, want.frozenDebit, &expected.Debits}, {credit, want.frozenCredit, &expected.Credits}} {
				if asked.want != nil {
					require.ErrorIs(t, asked.p.Err, asked.want)
					require.ErrorContains(t, asked.p.Err, name+" in EUR")
					continue
				}
				require.NoError(t, asked.p.Err)
				*asked.side += asked.p.Transfers[0].Amount
			}
			require.Equal(t, expected, after)

			mustSetState(t, owner, name, ledger.StateOpen)
			rest := ledger.Transfer{Operation: "empty", Debit: name, Credit: "world", Asset: "EUR", Amount: after.Credits - after.Debits}
			mustPost(t, worker, event(rest))
			require.Zero(t, balance(t, worker, name))
			mustSetState(t, owner, name, ledger.StateClosed)
			debit, credit = event(move("debit2", name, "world", 1)), event(move("credit2", "world", name, 1))
			mustPost(t, worker, debit, credit)
			require.ErrorIs(t, debit.Err, ledger.ErrAccountClosed, "not even a fact")
			require.ErrorIs(t, credit.Err, ledger.ErrAccountClosed)
			repeat := event(rest)
			mustPost(t, worker, repeat)
			require.NoError(t, repeat.Err, "what is posted already is only a repeat")
			require.Zero(t, balance(t, worker, name))
		})
	}
}

func TestFactsOnFrozenAccountsAreTold(t *testing.T) {
	t.Parallel()
	worker, owner := openBoth(t)
	mustPost(t, worker, event(move("fill", "world", "fact", 10)))
	mustSetState(t, owner, "fact", ledger.StateFrozen)
	post := func(p *ledger.Posting) {
		require.NoError(t, pgx.BeginFunc(t.Context(), worker, func(tx pgx.Tx) error { return ledger.Post(t.Context(), tx, limits, p) }))
	}
	within, beyond, refused := event(move("1", "fact", "world", 4)), event(move("2", "fact", "world", 40)), event(move("3", "world", "fact", 1))
	post(within)
	require.Equal(t, []string{"fact"}, within.Frozen)
	require.Empty(t, within.Overdrawn)
	post(beyond)
	require.Equal(t, [][]string{{"fact"}, {"fact"}}, [][]string{beyond.Frozen, beyond.Overdrawn})
	post(refused)
	require.Empty(t, refused.Frozen)
}

// A refund that a frozen account refuses is not given back of its charge; one under a
// limit that records is a fact, and stands in the statement. So does what undoes it.
func TestRefundsMindTheStatesOfAccounts(t *testing.T) {
	t.Parallel()
	worker, owner := openBoth(t)
	refund := func(operation, debit, credit, parent string, amount int64) *ledger.Posting {
		return event(ledger.Transfer{Operation: operation, Debit: debit, Credit: credit, Asset: "EUR", Amount: amount, Parent: parent, Refund: true})
	}
	mustPost(t, worker, event(move("charge", "customer", "fact", 1000)), event(move("fill", "world", "desk", 5000)))
	mustSetState(t, owner, "fact", ledger.StateFrozen)
	mustSetState(t, owner, "desk", ledger.StateFrozen)

	refused, fact := refund("refused", "desk", "customer", "charge", 600), refund("fact", "fact", "customer", "charge", 700)
	mustPost(t, worker, refused, fact)
	require.ErrorIs(t, refused.Err, ledger.ErrAccountFrozen)
	require.NoError(t, fact.Err, "only it is given back")
	undone, over := refund("undone", "customer", "fact", "fact", 700), refund("over", "fact", "customer", "charge", 301)
	mustPost(t, worker, undone, over)
	require.ErrorIs(t, undone.Err, ledger.ErrAccountFrozen)
	require.ErrorIs(t, over.Err, ledger.ErrOverRefund, "nothing is undone")

	mustSetState(t, owner, "fact", ledger.StateOpen)
	mustPost(t, worker, undone, over, refund("rest", "fact", "customer", "charge", 699))
	require.NoError(t, undone.Err)
	require.NoError(t, over.Err)
	mustSetState(t, owner, "fact", ledger.StateClosed)
	closed := refund("closed", "fact", "customer", "charge", 1)
	mustPost(t, worker, closed)
	require.ErrorIs(t, closed.Err, ledger.ErrOverRefund)
	again := event(move("charge again", "customer", "fact", 1))
	mustPost(t, worker, again)
	require.ErrorIs(t, again.Err, ledger.ErrAccountClosed)

	entries, err := ledger.Statement(t.Context(), worker, ledger.Span{Account: "fact", Asset: "EUR"}, 10)
	require.NoError(t, err)
	var operations []string
	for _, e := range entries {
		operations = append(operations, e.Operation)
	}
	require.Equal(t, []string{"charge", "fact", "undone", "over", "rest"}, operations)
	requireBooks(t, worker)
}

// An account in another asset, and one of another name, are not frozen with it.
func TestAStateIsThatOfOneAccount(t *testing.T) {
	t.Parallel()
	worker, owner := openBoth(t)
	in := func(operation, name, asset string) ledger.Transfer {
		return ledger.Transfer{Operation: operation, Debit: "world", Credit: name, Asset: asset, Amount: 1}
	}
	mustPost(t, worker, event(in("1", "shop", "EUR"), in("2", "shop", "USD"), in("3", "shop2", "EUR")))
	require.NoError(t, pgx.BeginFunc(t.Context(), owner, func(tx pgx.Tx) error {
		_, err := ledger.SetState(t.Context(), tx, "shop", "USD", ledger.StateFrozen)
		return err
	}))
	postings := []*ledger.Posting{event(in("4", "shop", "EUR")), event(in("5", "shop", "USD")), event(in("6", "shop2", "EUR")), event(in("7", "shop", "GBP"))}
	mustPost(t, worker, postings...)
	require.NoError(t, postings[0].Err)
	require.ErrorIs(t, postings[1].Err, ledger.ErrAccountFrozen)
	require.NoError(t, postings[2].Err)
	require.NoError(t, postings[3].Err, "an asset that comes later is open")

	frozen, err := ledger.Accounts(t.Context(), worker, ledger.AccountFilter{State: ledger.StateFrozen})
	require.NoError(t, err)
	require.Len(t, frozen, 1)
	require.Equal(t, "USD", frozen[0].Code)
	then, err := ledger.BalancesAt(t.Context(), worker, ledger.AccountFilter{State: ledger.StateFrozen}, time.Now())
	require.NoError(t, err)
	require.Len(t, then, 1)
	require.Equal(t, "USD", then[0].Code)
	changed, err := setState(t, owner, "shop", ledger.StateFrozen)
	require.NoError(t, err)
	require.Len(t, changed, 2, "that is frozen already stays")
}

func TestSetStateRefuses(t *testing.T) {
	t.Parallel()
	worker, owner := openBoth(t)
	mustPost(t, worker, event(move("1", "world", "shop", 10)))
	_, err := setState(t, owner, "nobody", ledger.StateFrozen)
	require.ErrorIs(t, err, ledger.ErrAccountUnknown)
	_, err = setState(t, owner, "shop", ledger.StateOpen)
	require.ErrorIs(t, err, ledger.ErrAccountState)
	_, err = setState(t, owner, "shop", ledger.StateClosed)
	require.ErrorIs(t, err, ledger.ErrNotEmpty)
	require.ErrorContains(t, err, "a balance of 0.10 EUR")
	mustPost(t, worker, event(move("2", "shop", "world", 10)))
	for _, pending := range []string{"debits_pending", "credits_pending"} {
		_, err = worker.Exec(t.Context(), `UPDATE accounts SET `+pending+` = 3 WHERE name = 'shop'`)
		require.NoError(t, err)
		_, err = setState(t, owner, "shop", ledger.StateClosed)
		require.ErrorIs(t, err, ledger.ErrNotEmpty, pending)
		_, err = worker.Exec(t.Context(), `UPDATE accounts SET `+pending+` = 0 WHERE name = 'shop'`)
		require.NoError(t, err)
	}
	mustSetState(t, owner, "shop", ledger.StateClosed)
	_, err = setState(t, owner, "shop", ledger.StateOpen)
	require.ErrorIs(t, err, ledger.ErrAccountClosed)
	_, err = setState(t, owner, "shop", ledger.StateClosed)
	require.ErrorIs(t, err, ledger.ErrAccountState)
}

// Nor does one that may overdraw move it, nor is it a fact under a limit that records.
func TestACorrectionLeavesAFrozenAccountAlone(t *testing.T) {
	t.Parallel()
	worker, owner := openBoth(t)
	for _, name := range []string{"shop", "wallet", "fact"} {
		e := event(move("in/"+name, "world", name, 10))
		mustPost(t, worker, e)
		mustSetState(t, owner, name, ledger.StateFrozen)
		c := &ledger.Correction{EventNo: e.EventNo, Replaces: []int64{e.EventNo}}
		require.ErrorIs(t, correct(t.Context(), owner, c), ledger.ErrAccountFrozen)
		c.Overdraw = true
		require.ErrorIs(t, correct(t.Context(), owner, c), ledger.ErrAccountFrozen)
		require.EqualValues(t, 10, balance(t, worker, name))
		mustSetState(t, owner, name, ledger.StateOpen)
		require.NoError(t, correct(t.Context(), owner, &ledger.Correction{EventNo: e.EventNo, Replaces: []int64{e.EventNo}}))
		require.Zero(t, balance(t, worker, name))
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	_, owner := openBoth(t)
	set := func(values map[string]string) (map[string]string, error) {
		var accounts []*ledger.Account
		err := pgx.BeginFunc(t.Context(), owner, func(tx pgx.Tx) (err error) {
			accounts, err = ledger.SetMetadata(t.Context(), tx, "shop", "", values)
			return err
		})
		if err != nil {
			return nil, err
		}
		return accounts[0].Metadata, nil
	}
	_, err := set(map[string]string{"a": "1"})
	require.ErrorIs(t, err, ledger.ErrAccountUnknown)
	opened, err := openAccount(t, owner, "shop", map[string]string{"owner": "Ada", "none": ""})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"owner": "Ada"}, opened.Metadata)
	require.Equal(t, ledger.StateOpen, opened.State)

	have, err := set(map[string]string{"tier": "gold", "owner": "", "gone": ""})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"tier": "gold"}, have)
	longest := strings.Repeat("k", ledger.MaxMetadataKey)
	have, err = set(map[string]string{longest: strings.Repeat("v", ledger.MaxMetadataValue), `"é`: `日本"\`})
	require.NoError(t, err)
	read, err := ledger.Balances(t.Context(), owner, "shop")
	require.NoError(t, err)
	require.Equal(t, have, read[0].Metadata)

	for outcome, values := range map[string]map[string]string{
		"no key":           {"": "v"},
		"a long key":       {longest + "k": "v"},
		"a long value":     {"k": strings.Repeat("v", ledger.MaxMetadataValue+1)},
		"a NUL":            {"k": "a\x00"},
		"a key no UTF-8":   {"\xff": "v"},
		"a value no UTF-8": {"k": "\xff"},
		"too many keys":    many(ledger.MaxMetadataKeys - 2),
	} {
		_, err := set(values)
		require.ErrorIs(t, err, ledger.ErrMetadata, outcome)
		_, err = openAccount(t, owner, "other", many(ledger.MaxMetadataKeys+1))
		require.ErrorIs(t, err, ledger.ErrMetadata)
	}
	_, err = set(many(ledger.MaxMetadataKeys - 3))
	require.NoError(t, err, "16 keys are as many as there may be")
}

// many returns metadata with n keys.
func many(n int) map[string]string {
	values := map[string]string{}
	for i := range n {
		values[fmt.Sprint("key", i)] = "v"
	}
	return values
}

// The look at accounts without a limit costs next to nothing: it is made in an
// index that holds only those that are not open.
func TestTheLookAtStatesReadsTheFewThatAreNotOpen(t *testing.T) {
	t.Parallel()
	worker, _ := openBoth(t)
	_, err := worker.Exec(t.Context(), `INSERT INTO accounts (name, asset) SELECT 'a' || n, 'EUR' FROM generate_series(1, 5000) n`)
	require.NoError(t, err)
	conn, err := worker.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	_, err = conn.Exec(t.Context(), `PREPARE look (text[]) AS SELECT name, asset, state FROM accounts WHERE state <> 'open' AND name = ANY($1)`)
	require.NoError(t, err)
	rows, err := conn.Query(t.Context(), `EXPLAIN EXECUTE look ('{a1,a2}')`)
	require.NoError(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Contains(t, strings.Join(plan, "\n"), "accounts_not_open")
}
