package ledger_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// total tells that amount of the charge of 1000 was given back so far.
func total(amount int64) ledger.Transfer {
	t := child(ledger.TotalKey("total", amount), "charge", "shop", "customer", amount)
	t.Kind = ledger.KindTotal
	return t
}

func TestTheKeyOfATotalHasItsAmount(t *testing.T) {
	t.Parallel()
	require.Equal(t, "8:refunded,4:ch_1,3:700,", ledger.TotalKey("8:refunded,4:ch_1,", 700))
	require.NotEqual(t, ledger.TotalKey("a", 1), ledger.TotalKey("a", 11))
}

// step is a transfer and what of it is not moved, or why it is refused.
type step struct {
	ledger.Transfer
	unmoved int64
	err     error
}

func said(t ledger.Transfer) step               { return step{Transfer: t} }
func (s step) but(unmoved int64) step           { s.unmoved = unmoved; return s }
func refused(t ledger.Transfer, err error) step { return step{Transfer: t, err: err} }
func TestTotalsAndItems(t *testing.T) {
	t.Parallel()
	more := func(x ledger.Transfer, change func(*ledger.Transfer)) ledger.Transfer { change(&x); return x }
	ofRefund := more(total(100), func(x *ledger.Transfer) { x.Parent = "a" })
	ofTotal := undo("u", total(700).Operation, 700)
	inDollars := more(total(100), func(x *ledger.Transfer) { x.Asset = "USD" })
	pool := openHolds(t)
	for name, c := range map[string]struct {
		steps   []step
		balance int64 // of the shop
		seen    int64
	}{
		"totals alone":                {[]step{said(total(300)), said(total(700)).but(300), said(total(1000)).but(700)}, 0, 1000},
		"a late older total":          {[]step{said(total(700)), said(total(300)).but(300)}, 300, 700},
		"an item, then its total":     {[]step{said(back("a", 300)), said(total(300)).but(300)}, 700, 300},
		"a total, then its item":      {[]step{said(total(300)), said(back("a", 300)).but(300)}, 700, 300},
		"a total of more items":       {[]step{said(back("a", 300)), said(total(700)).but(300), said(back("b", 400)).but(400)}, 300, 700},
		"items that are more":         {[]step{said(total(300)), said(back("a", 200)).but(200), said(back("b", 400)).but(100)}, 400, 300},
		"a total above the charge":    {[]step{refused(total(1001), ledger.ErrRefundInvalid), said(total(1000))}, 0, 1000},
		"items above the charge":      {[]step{said(total(800)), said(back("a", 700)).but(700), refused(back("b", 400), ledger.ErrOverRefund), said(back("c", 300)).but(100)}, 0, 800},
		"a total in another asset":    {[]step{refused(inDollars, ledger.ErrRefundInvalid)}, 1000, -1},
		"a total of a refund":         {[]step{said(back("a", 300)), refused(ofRefund, ledger.ErrRefundInvalid)}, 700, -1},
		"a total is not undone":       {[]step{said(total(700)), refused(ofTotal, ledger.ErrRefundInvalid)}, 300, 700},
		"a failure lowers both":       {[]step{said(back("a", 300)), said(total(700)).but(300), said(undo("u", "a", 300)), said(total(500)).but(500)}, 600, 700},
		"a failure of what is told":   {[]step{said(total(700)), said(back("a", 300)).but(300), said(undo("u", "a", 300)), said(back("b", 300)).but(300)}, 600, 700},
		"a failure of more than that": {[]step{said(back("a", 300)), said(back("b", 400)), said(total(100)).but(100), said(undo("u", "b", 400)), said(total(300)).but(300)}, 700, 300},
		"a failure twice":             {[]step{said(total(300)), said(back("a", 300)).but(300), said(undo("u", "a", 300)), refused(undo("v", "a", 1), ledger.ErrRefundInvalid)}, 1000, 300},
		"a failure in part":           {[]step{said(total(300)), said(back("a", 300)).but(300), said(undo("u", "a", 100)), said(undo("v", "a", 200))}, 1000, 300},
		"a total of before, too late": {[]step{said(back("a", 700)), said(undo("u", "a", 700)), said(total(700)).but(700)}, 1000, 700},
		"a total of after a failure":  {[]step{said(back("a", 700)), said(undo("u", "a", 700)), said(total(200)).but(200), said(back("b", 200))}, 800, 200},
		"the same in another order":   {[]step{said(back("b", 200)), said(total(200)).but(200), said(back("a", 700)), said(undo("u", "a", 700))}, 800, 200},
		"a total that is higher yet":  {[]step{said(back("a", 700)), said(undo("u", "a", 700)), said(total(900)).but(700), said(back("b", 900)).but(200)}, 100, 900},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, together := range []bool{false, true} {
				prefix := fmt.Sprint(name, together, "/")
				postings := []*ledger.Posting{event(under(prefix, charge()))}
				for _, s := range c.steps {
					postings = append(postings, event(under(prefix, s.Transfer)))
				}
				mustPostSplit(t, pool, postings, together)
				for i, s := range c.steps {
					s.Transfer = under(prefix, s.Transfer)
					requireStep(t, s, postings[i+1])
				}
				requireTotal(t, pool, prefix+"charge", c.seen)
				books := requireRefunds(t, pool, prefix)
				shop := books.balance(prefix + "shop")
				require.Equal(t, c.balance, shop.Credits-shop.Debits)

				// Told again by other events: nothing moves.
				var again []*ledger.Posting
				for _, s := range c.steps {
					if s.err == nil {
						again = append(again, event(under(prefix, s.Transfer)))
					}
				}
				mustPostSplit(t, pool, again, together)
				for _, p := range again {
					require.NoError(t, p.Err)
					require.Empty(t, p.Posted)
				}
				require.Equal(t, books, requireRefunds(t, pool, prefix))
			}
		})
	}
}

func mustPostSplit(t testing.TB, pool *pgxpool.Pool, postings []*ledger.Posting, together bool) {
	t.Helper()
	if together {
		mustPost(t, pool, postings...)
		return
	}
	for _, p := range postings {
		mustPost(t, pool, p)
	}
}

func requireStep(t testing.TB, s step, p *ledger.Posting) {
	t.Helper()
	if s.err != nil {
		require.ErrorIs(t, p.Err, s.err, s.Operation)
		return
	}
	require.NoError(t, p.Err, s.Operation)
	want := s.Transfer
	want.Unmoved = s.unmoved
	require.Equal(t, []ledger.Transfer{want}, p.Posted)
	require.Zero(t, p.Transfers[0].Unmoved, "what is asked for stays")
}

// requireTotal wants the highest total of a charge, or, with -1, that there is none.
func requireTotal(t testing.TB, pool *pgxpool.Pool, charge string, seen int64) {
	t.Helper()
	var have int64
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT COALESCE(max(seen), -1) FROM totals WHERE key = $1`, charge).Scan(&have))
	require.Equal(t, seen, have)
}

// requireRefunds returns the books under a prefix once they are sound, and all that is
// given back in them.
func requireRefunds(t rapid.TB, pool *pgxpool.Pool, prefix string) books {
	t.Helper()
	b, err := readBooks(context.Background(), pool, prefix)
	require.NoError(t, err)
	require.NoError(t, b.check())
	requireGivenBack(t, pool, prefix)
	return b
}

// requireGivenBack wants that all refunds have moved what they are to move together.
func requireGivenBack(t rapid.TB, pool *pgxpool.Pool, prefix string) {
	t.Helper()
	rows, err := pool.Query(context.Background(), `
		SELECT key FROM operations WHERE starts_with(key, $1)
		UNION
		SELECT key FROM totals WHERE starts_with(key, $1)`, prefix)
	require.NoError(t, err)
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	wrong, err := ledger.WrongTotals(context.Background(), pool, keys)
	require.NoError(t, err)
	require.Empty(t, wrong)
	over, err := ledger.OverRefunds(context.Background(), pool, keys)
	require.NoError(t, err)
	require.Empty(t, over)
}

// PayPal tells of a refund and of the total with one event; and an event may have all
// of it.
func TestOneEventTellsOfBoth(t *testing.T) {
	t.Parallel()
	pool := openHolds(t)
	for name, steps := range map[string][]step{
		"item and total":     {said(charge()), said(back("a", 300)), said(total(300)).but(300)},
		"total and item":     {said(total(300)).but(300), said(back("a", 300)), said(charge())},
		"two totals":         {said(charge()), said(total(100)), said(total(300)).but(100)},
		"with a failure":     {said(charge()), said(total(500)).but(200), said(back("a", 200)), said(undo("u", "a", 200))},
		"the failure before": {said(undo("u", "a", 200)), said(total(500)).but(200), said(charge()), said(back("a", 200))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := name + "/"
			p := event()
			for _, s := range steps {
				p.Transfers = append(p.Transfers, under(prefix, s.Transfer))
			}
			mustPost(t, pool, p)
			require.NoError(t, p.Err)
			for i, s := range steps {
				require.Equal(t, s.unmoved, p.Posted[i].Unmoved, s.Operation)
			}
			shop := requireRefunds(t, pool, prefix).balance(prefix + "shop")
			require.EqualValues(t, 700, shop.Credits-shop.Debits)
		})
	}
}

// What is refused leaves no trace of what it would have told.
func TestARefusedTotalIsNotSeen(t *testing.T) {
	t.Parallel()
	pool := open(t)
	poor := total(700)
	poor.Debit = "wallet"
	first, second := event(poor), event(total(300))
	mustPost(t, pool, event(charge()), first, second)
	require.ErrorIs(t, first.Err, ledger.ErrInsufficientFunds)
	require.NoError(t, second.Err)
	require.Zero(t, second.Posted[0].Unmoved)
	requireTotal(t, pool, "charge", 300)
	requireRefunds(t, pool, "")

	early := event(func() ledger.Transfer { x := total(5); x.Parent = "other"; return x }())
	mustPost(t, pool, early)
	require.ErrorIs(t, early.Err, ledger.ErrMissingParent)
	both := event(back("a", 500), total(1001))
	mustPost(t, pool, both)
	require.ErrorIs(t, both.Err, ledger.ErrRefundInvalid)
	all := event(back("b", 1000))
	mustPost(t, pool, all)
	require.NoError(t, all.Err)
	require.EqualValues(t, 300, all.Posted[0].Unmoved)
	requireTotal(t, pool, "charge", 300)
	requireRefunds(t, pool, "")
	require.Zero(t, balance(t, pool, "shop"))
}

// A total and an item under one operation are two things.
func TestATotalIsNoItem(t *testing.T) {
	t.Parallel()
	pool := open(t)
	item := total(300)
	item.Kind, item.Refund = "", true
	p := event(item)
	mustPost(t, pool, event(charge()), event(total(300)), p)
	require.ErrorIs(t, p.Err, ledger.ErrOperationConflict)
	require.ErrorContains(t, p.Err, "told of a total of 300 EUR from shop to customer")
	requireTotal(t, pool, "charge", 300)
	requireRefunds(t, pool, "")
}

// What a total was told of is not corrected: neither the charge, nor a refund of it,
// nor the undoing of one. The rest is.
func TestCorrectionsRefuseTotals(t *testing.T) {
	t.Parallel()
	pool := openOwner(t)
	paid, other, item, whole, none, undone, about := event(charge()), event(move("other", "customer", "shop", 1000)), event(back("a", 300)),
		event(total(500)), event(total(200)), event(undo("u", "a", 100)), event(child("about", "charge", "shop", "customer", 5))
	mustPost(t, pool, paid, other, item, whole, none, undone, about)
	for _, p := range []*ledger.Posting{paid, item, whole, none, undone} {
		require.NoError(t, p.Err)
		for name, transfers := range map[string][]ledger.Transfer{"taken back": nil, "another": {move("x", "a", "b", 1)}} {
			err := correct(t.Context(), pool, &ledger.Correction{EventNo: p.EventNo, Replaces: []int64{p.EventNo}, Transfers: transfers})
			require.ErrorIs(t, err, ledger.ErrCorrectTotal, "%s: %+v", name, p.Transfers)
		}
		same := &ledger.Correction{EventNo: p.EventNo, Replaces: []int64{p.EventNo}, Transfers: p.Transfers}
		require.NoError(t, correct(t.Context(), pool, same), "nothing differs")
		require.Empty(t, same.Posted)
	}
	for name, asked := range map[string]ledger.Transfer{
		"a refund":           back("b", 1),
		"an undoing":         undo("v", "a", 1),
		"a total":            total(600),
		"a total of another": of("other", total(600)),
	} {
		err := correct(t.Context(), pool, &ledger.Correction{EventNo: about.EventNo, Transfers: []ledger.Transfer{asked}})
		require.ErrorIs(t, err, ledger.ErrCorrectTotal, name)
	}
	require.NoError(t, correct(t.Context(), pool, &ledger.Correction{EventNo: about.EventNo, Replaces: []int64{about.EventNo}}))
	require.NoError(t, correct(t.Context(), pool, &ledger.Correction{EventNo: other.EventNo, Replaces: []int64{other.EventNo},
		Transfers: []ledger.Transfer{move("other", "customer", "shop", 7)}}))
	requireTotal(t, pool, "charge", 500)
	requireGivenBack(t, pool, "")
}

// Totals of two payments that a rule calls by one name are no repeat of each other.
func TestTotalsOfTwoPaymentsUnderOneName(t *testing.T) {
	t.Parallel()
	pool := openHolds(t)
	other, ofOther := charge(), total(300)
	other.Operation, ofOther.Parent = "other", "other"
	mustPost(t, pool, event(charge()), event(other), event(total(300)))
	again, wrong := event(total(300)), event(ofOther)
	mustPost(t, pool, again, wrong)
	require.NoError(t, again.Err)
	require.Empty(t, again.Posted)
	require.ErrorIs(t, wrong.Err, ledger.ErrOperationConflict)

	named := total(200)
	named.Operation, ofOther.Operation, ofOther.Amount = "both", "both", 200
	first, second := event(named), event(ofOther)
	mustPost(t, pool, first, second)
	require.NoError(t, first.Err)
	require.ErrorIs(t, second.Err, ledger.ErrOperationConflict)
}
