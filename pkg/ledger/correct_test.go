package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// openOwner returns a database of the test's own, with the rights of an operator.
func openOwner(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return pgtest.Patient(t, pgtest.Migrated(t, stack.DatabaseURL), postgres.Owner)
}

func correct(ctx context.Context, pool *pgxpool.Pool, c *ledger.Correction) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return ledger.Correct(ctx, tx, limits, c) })
}

// standing returns the transfers of events that count.
func standing(t testing.TB, pool *pgxpool.Pool, events ...int64) []ledger.Transfer {
	t.Helper()
	posted, err := ledger.Posted(t.Context(), pool, events)
	require.NoError(t, err)
	var transfers []ledger.Transfer
	for _, no := range events {
		for _, e := range ledger.Standing(posted[no]) {
			transfers = append(transfers, e.Transfer)
		}
	}
	return transfers
}

// What is only asked for is told like what stands: a hold that new rules add to
// money that stays.
func TestUncorrectableIsWhatCorrectRefuses(t *testing.T) {
	t.Parallel()
	pool := openOwner(t)
	paid, opened := event(charge()), event(holding("hold", "customer", "shop", 100))
	mustPost(t, pool, paid, opened)
	for name, c := range map[string]struct {
		ledger.Correction
		refused []string
	}{
		"only a hold is added":    {ledger.Correction{EventNo: paid.EventNo, Replaces: []int64{paid.EventNo}, Transfers: []ledger.Transfer{charge(), holding("more", "customer", "shop", 50)}}, []string{"more"}},
		"a payment beside a hold": {ledger.Correction{EventNo: opened.EventNo, Replaces: []int64{opened.EventNo}, Transfers: []ledger.Transfer{move("fee", "shop", "fees", 1), holding("hold", "customer", "shop", 100)}}, []string{"hold"}},
		"a payment in its place":  {ledger.Correction{EventNo: opened.EventNo, Replaces: []int64{opened.EventNo}, Transfers: []ledger.Transfer{move("hold", "customer", "shop", 100)}}, []string{"hold"}},
		"another amount":          {ledger.Correction{EventNo: paid.EventNo, Replaces: []int64{paid.EventNo}, Transfers: []ledger.Transfer{move("charge", "customer", "shop", 900)}}, nil},
	} {
		refused, err := ledger.Uncorrectable(t.Context(), pool, c.Transfers)
		require.NoError(t, err, name)
		require.Equal(t, c.refused, slices.Sorted(maps.Keys(refused)), name)
		err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return errors.Join(ledger.Correct(t.Context(), tx, limits, &c.Correction), errRollback)
		})
		require.Equal(t, c.refused != nil, errors.Is(err, ledger.ErrCorrectHold), "%s: %v", name, err)
		require.ErrorIs(t, err, errRollback)
	}
}

// balance is an account's credits less its debits.
func balance(t testing.TB, pool *pgxpool.Pool, name string) int64 {
	t.Helper()
	accounts, err := ledger.Balances(t.Context(), pool, name)
	require.NoError(t, err)
	if len(accounts) == 0 {
		return 0
	}
	return accounts[0].Balance()
}

func TestCorrectReplacesWhatDiffers(t *testing.T) {
	pool := openOwner(t)
	keep, wrong, over := move("keep", "psp", "fees", 1), move("amount", "psp", "wallet", 900), move("not wanted", "psp", "wallet", 5)
	e := event(keep, wrong, over)
	mustPost(t, pool, e)
	right, added := move("amount", "psp", "wallet", 100), move("added", "psp", "revenue", 7)
	c := &ledger.Correction{EventNo: e.EventNo, Replaces: []int64{e.EventNo}, Transfers: []ledger.Transfer{keep, right, added}}
	require.NoError(t, correct(t.Context(), pool, c))

	require.Equal(t, []ledger.Transfer{keep, right, added}, standing(t, pool, e.EventNo))
	require.Len(t, c.Reversed, 2)
	require.Equal(t, []ledger.Transfer{right, added}, c.Posted)
	require.EqualValues(t, 100, balance(t, pool, "wallet"))
	require.EqualValues(t, 7, balance(t, pool, "revenue"))
	require.EqualValues(t, -108, balance(t, pool, "psp"))

	again := &ledger.Correction{EventNo: e.EventNo, Replaces: []int64{e.EventNo}, Transfers: []ledger.Transfer{keep, right, added}}
	require.NoError(t, correct(t.Context(), pool, again))
	require.Empty(t, again.Reversed)
	require.Empty(t, again.Posted)

	twin := event(right)
	mustPost(t, pool, twin)
	require.NoError(t, twin.Err)
	require.Empty(t, twin.Posted, "the operation has the content that stands")
	old := event(wrong)
	mustPost(t, pool, old)
	require.ErrorIs(t, old.Err, ledger.ErrOperationConflict)
	free := event(over)
	mustPost(t, pool, free)
	require.Len(t, free.Posted, 1, "an operation that was given up is free")

	back := &ledger.Correction{EventNo: e.EventNo, Replaces: []int64{e.EventNo}, Transfers: []ledger.Transfer{keep, wrong}}
	require.NoError(t, correct(t.Context(), pool, back))
	require.Equal(t, []ledger.Transfer{keep, wrong}, standing(t, pool, e.EventNo))
	require.EqualValues(t, 905, balance(t, pool, "wallet"))
}

func TestCorrectOfAnotherEvent(t *testing.T) {
	pool := openOwner(t)
	first := event(move("charge", "psp", "wallet", 900), move("fee", "wallet", "fees", 9))
	mustPost(t, pool, first)
	second := event()
	right := move("charge", "psp", "wallet", 100)
	c := &ledger.Correction{EventNo: second.EventNo, Transfers: []ledger.Transfer{right}}
	require.ErrorIs(t, correct(t.Context(), pool, c), ledger.ErrOperationConflict)
	require.EqualValues(t, 891, balance(t, pool, "wallet"))

	c = &ledger.Correction{EventNo: second.EventNo, Transfers: []ledger.Transfer{right}, Over: true}
	require.NoError(t, correct(t.Context(), pool, c))
	require.Equal(t, []ledger.Transfer{move("fee", "wallet", "fees", 9), right}, standing(t, pool, first.EventNo, second.EventNo))
	require.EqualValues(t, 91, balance(t, pool, "wallet"))
	require.Equal(t, first.EventNo, c.Reversed[0].EventNo)
}

func TestCorrectKeepsLimitsUnlessToldOtherwise(t *testing.T) {
	pool := openOwner(t)
	paid := event(move("pay", "psp", "wallet", 900))
	mustPost(t, pool, paid)
	mustPost(t, pool, event(move("spend", "wallet", "shop", 600)))
	c := &ledger.Correction{EventNo: paid.EventNo, Replaces: []int64{paid.EventNo}, Transfers: []ledger.Transfer{move("pay", "psp", "wallet", 100)}}
	require.ErrorIs(t, correct(t.Context(), pool, c), ledger.ErrInsufficientFunds)
	require.EqualValues(t, 300, balance(t, pool, "wallet"))

	c.Reversed, c.Posted, c.Overdraw = nil, nil, true
	require.NoError(t, correct(t.Context(), pool, c))
	require.EqualValues(t, -500, balance(t, pool, "wallet"))
	require.Equal(t, []string{"wallet"}, c.Overdrawn)
	accounts, err := ledger.Balances(t.Context(), pool, "wallet")
	require.NoError(t, err)
	require.True(t, accounts[0].Limit.Enforce)
	require.True(t, accounts[0].Overdrawn())

	more := event(move("more", "wallet", "shop", 1))
	mustPost(t, pool, more)
	require.ErrorIs(t, more.Err, ledger.ErrInsufficientFunds, "the limit is enforced again")
	mustPost(t, pool, event(move("top up", "psp", "wallet", 700)))
	require.EqualValues(t, 200, balance(t, pool, "wallet"))
}

// What is taken back and what is posted count together: money that only changes
// its operation does not pass a limit on the way.
func TestCorrectBooksAtOnce(t *testing.T) {
	pool := openOwner(t)
	paid := event(move("pay", "psp", "wallet", 100))
	mustPost(t, pool, paid)
	mustPost(t, pool, event(move("spend", "wallet", "shop", 100)))
	c := &ledger.Correction{EventNo: paid.EventNo, Replaces: []int64{paid.EventNo}, Transfers: []ledger.Transfer{move("other name", "psp", "wallet", 100)}}
	require.NoError(t, correct(t.Context(), pool, c))
	require.Zero(t, balance(t, pool, "wallet"))
}

func TestCorrectRefusesWhatDoesNotAddUp(t *testing.T) {
	pool := openOwner(t)
	e := event(move("a", "x", "y", 5))
	mustPost(t, pool, e)
	twice := &ledger.Correction{EventNo: e.EventNo, Replaces: []int64{e.EventNo}, Transfers: []ledger.Transfer{move("a", "x", "y", 1), move("a", "x", "y", 2)}}
	require.Error(t, correct(t.Context(), pool, twice))

	// An operation that lost its row must not be posted once more.
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, statement := range []string{
		`ALTER TABLE operations DISABLE TRIGGER operations_guard`, `DELETE FROM operations WHERE key = 'a'`,
		`ALTER TABLE operations ENABLE ALWAYS TRIGGER operations_guard`,
	} {
		_, err := conn.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	c := &ledger.Correction{EventNo: e.EventNo, Replaces: []int64{e.EventNo}, Transfers: []ledger.Transfer{move("a", "x", "y", 5)}}
	require.ErrorIs(t, correct(t.Context(), pool, c), ledger.ErrDamaged)
	require.EqualValues(t, 5, balance(t, pool, "y"))
}

func TestCorrectKeepsParents(t *testing.T) {
	pool := openOwner(t)
	e := event(move("charge", "psp", "wallet", 900))
	mustPost(t, pool, e)
	refund := move("refund", "wallet", "psp", 400)
	refund.Parent = "charge of nobody"
	c := &ledger.Correction{EventNo: e.EventNo, Transfers: []ledger.Transfer{refund}}
	require.ErrorIs(t, correct(t.Context(), pool, c), ledger.ErrMissingParent)

	refund.Parent = "charge"
	c = &ledger.Correction{EventNo: e.EventNo, Replaces: []int64{e.EventNo}, Transfers: []ledger.Transfer{refund}}
	require.ErrorIs(t, correct(t.Context(), pool, c), ledger.ErrMissingParent, "the charge would be given up")
	c = &ledger.Correction{EventNo: e.EventNo, Replaces: []int64{e.EventNo}, Transfers: []ledger.Transfer{move("charge", "psp", "wallet", 500), refund}}
	require.NoError(t, correct(t.Context(), pool, c))
	require.EqualValues(t, 100, balance(t, pool, "wallet"))
	again := &ledger.Correction{EventNo: e.EventNo, Replaces: []int64{e.EventNo}, Transfers: c.Transfers}
	require.NoError(t, correct(t.Context(), pool, again))
	require.Empty(t, again.Posted, "a parent is no part of what stands")
}

// Corrections of any events over each other leave what a map of the operations
// says, and balances that are the sums of what stands.
func TestCorrectionsAgreeWithAModel(t *testing.T) {
	pool := openOwner(t)
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		prefix := fmt.Sprintf("m%d/", n)
		model := map[string]ledger.Transfer{} // by operation
		owner := map[string]int64{}
		var events []int64
		draw := func(label string) []ledger.Transfer {
			var list []ledger.Transfer
			for _, op := range rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 0, 3, rapid.ID[int]).Draw(t, label) {
				list = append(list, move(fmt.Sprintf("%sop%d", prefix, op), prefix+"a",
					prefix+rapid.SampledFrom([]string{"b", "c"}).Draw(t, "credit"), int64(rapid.IntRange(1, 2).Draw(t, "amount"))))
			}
			return list
		}
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			if len(events) == 0 || rapid.Bool().Draw(t, "post") {
				e := event(draw("transfers")...)
				if err := post(t.Context(), pool, []*ledger.Posting{e}); err != nil {
					t.Fatal(err)
				}
				events = append(events, e.EventNo)
				for _, p := range e.Posted {
					model[p.Operation], owner[p.Operation] = p, e.EventNo
				}
				continue
			}
			c := &ledger.Correction{EventNo: rapid.SampledFrom(events).Draw(t, "event"), Transfers: draw("wanted"), Over: rapid.Bool().Draw(t, "over")}
			c.Replaces = []int64{c.EventNo}
			refused := false
			for _, w := range c.Transfers {
				there, ok := model[w.Operation]
				refused = refused || ok && there != w && owner[w.Operation] != c.EventNo && !c.Over
			}
			if err := correct(t.Context(), pool, c); (err != nil) != refused {
				t.Fatalf("refused %v: %v", refused, err)
			}
			if refused {
				continue
			}
			for op, no := range owner {
				if no == c.EventNo {
					delete(model, op)
				}
			}
			for _, w := range c.Transfers {
				if there, ok := model[w.Operation]; !ok || there != w {
					model[w.Operation], owner[w.Operation] = w, c.EventNo
				}
			}
		}
		b, err := readBooks(t.Context(), pool, prefix)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int64{}
		for _, m := range model {
			want[m.Debit] -= m.Amount
			want[m.Credit] += m.Amount
		}
		for a, s := range b.Accounts {
			if s.Credits-s.Debits != want[a.Name] {
				t.Fatalf("%s has %d, not %d", a.Name, s.Credits-s.Debits, want[a.Name])
			}
		}
		if len(b.Operations) != len(model) {
			t.Fatalf("operations %v, not %v", b.Operations, model)
		}
		for op, m := range model {
			if b.Operations[op] != m {
				t.Fatalf("operation %v, not %v", b.Operations[op], m)
			}
		}
	})
}
