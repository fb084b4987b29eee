package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// back gives back a part of the charge of 1000.
func back(operation string, amount int64) ledger.Transfer {
	t := child(operation, "charge", "shop", "customer", amount)
	t.Refund = true
	return t
}

// Case 37, and 21: two equal refunds are two.
func TestRefundsAreAtMostWhatTheyAreOf(t *testing.T) {
	t.Parallel()
	inAsset := back("in dollars", 1)
	inAsset.Asset = "USD"
	of := func(amounts ...int64) []*ledger.Posting {
		var postings []*ledger.Posting
		for i, amount := range amounts {
			postings = append(postings, event(back(fmt.Sprint("refund", i), amount)))
		}
		return postings
	}
	first := func(list ...*ledger.Posting) []*ledger.Posting {
		return append([]*ledger.Posting{event(charge())}, list...)
	}
	twice := back("refund", 600)
	about := child("about", "charge", "shop", "customer", 900)
	for name, c := range map[string]struct {
		batches [][]*ledger.Posting
		refused []string // operations
		balance int64    // of the shop
	}{
		"each in a batch of its own": {[][]*ledger.Posting{first(), {event(back("refund", 700))}, {event(back("b", 700))}, {event(back("c", 300))}, {event(back("d", 1))}},
			[]string{"b", "d"}, 0},
		"all in one batch":        {[][]*ledger.Posting{first(event(back("a", 700)), event(back("b", 700)), event(back("c", 300)), event(back("d", 1)))}, []string{"b", "d"}, 0},
		"before what they are of": {[][]*ledger.Posting{{event(back("a", 700)), event(back("b", 700)), event(charge())}}, []string{"b"}, 300},
		"equal ones":              {[][]*ledger.Posting{first(), of(500, 500)}, nil, 0},
		"one that comes again":    {[][]*ledger.Posting{first(), {event(twice)}, {event(twice), event(back("rest", 400))}, {event(twice)}}, nil, 0},
		"again beside others":     {[][]*ledger.Posting{first(), {event(twice), event(twice), event(back("rest", 400))}}, nil, 0},
		"with what they are of":   {[][]*ledger.Posting{{event(charge(), back("a", 1000))}}, nil, 0},
		"more than it, with it":   {[][]*ledger.Posting{{event(charge(), back("a", 600), back("b", 600))}}, []string{"charge", "a", "b"}, 0},
		"two of one event, one too many": {[][]*ledger.Posting{first(), {event(back("a", 600), back("b", 600)), event(back("c", 1000))}},
			[]string{"a", "b"}, 0},
		"another asset":               {[][]*ledger.Posting{first(), {event(inAsset)}}, []string{"in dollars"}, 1000},
		"what is only about it":       {[][]*ledger.Posting{first(), {event(about)}, {event(back("a", 1000))}}, nil, -900},
		"nothing is there":            {[][]*ledger.Posting{{event(back("a", 1))}}, []string{"a"}, 0},
		"of nothing":                  {[][]*ledger.Posting{{event(ledger.Transfer{Operation: "x", Debit: "a", Credit: "b", Asset: "EUR", Amount: 1, Refund: true})}}, []string{"x"}, 0},
		"refused for want of money":   {[][]*ledger.Posting{first(), {event(func() ledger.Transfer { r := back("poor", 1000); r.Debit = "wallet"; return r }()), event(back("a", 1000))}}, []string{"poor"}, 0},
		"of a refund":                 {[][]*ledger.Posting{first(event(back("a", 400))), {event(func() ledger.Transfer { r := back("undo", 401); r.Parent = "a"; return r }())}}, []string{"undo"}, 600},
		"of something that was there": {[][]*ledger.Posting{first(), {event(charge()), event(back("a", 1001))}}, []string{"a"}, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := open(t)
			var refused []string
			for _, batch := range c.batches {
				mustPost(t, pool, batch...)
				for _, p := range batch {
					if p.Err == nil {
						continue
					}
					if name == "nothing is there" || name == "of nothing" {
						require.ErrorIs(t, p.Err, ledger.ErrMissingParent)
					} else if p.Transfers[0].Operation == "poor" {
						require.ErrorIs(t, p.Err, ledger.ErrInsufficientFunds)
					} else {
						require.ErrorIs(t, p.Err, ledger.ErrOverRefund)
					}
					for _, tr := range p.Transfers {
						refused = append(refused, tr.Operation)
					}
				}
			}
			require.Equal(t, c.refused, refused)
			shop := requireBooks(t, pool).balance("shop")
			require.Equal(t, c.balance, shop.Credits-shop.Debits)
		})
	}
}

// Refunds of a few charges from 16 connections, each more than there is to give
// back: not a cent too much, and none too little.
func TestConcurrentRefunds(t *testing.T) {
	t.Parallel()
	pool := open(t)
	const charges, each = 4, 25
	for i := range charges {
		mustPost(t, pool, event(move(fmt.Sprint("charge", i), "customer", "shop", 100*each)))
	}
	var posted atomic.Int64
	var group errgroup.Group
	for worker := range uint64(16) {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(worker, 5))
			for round := range 6 {
				var batch []*ledger.Posting
				for n := range 2 * charges {
					r := child(fmt.Sprintf("%d/%d/%d", worker, round, n), fmt.Sprint("charge", n%charges), "shop", "customer", 100)
					r.Refund = true
					batch = append(batch, event(r))
				}
				random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
				if err := patiently(t.Context(), pool, batch); err != nil {
					return err
				}
				for _, p := range batch {
					posted.Add(int64(len(p.Posted)))
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	require.EqualValues(t, charges*each, posted.Load())
	require.Equal(t, sums{Debits: 100 * charges * each, Credits: 100 * charges * each}, requireBooks(t, pool).balance("shop"))
}

// A correction leaves no more given back than what stands.
func TestCorrectionsMindRefunds(t *testing.T) {
	t.Parallel()
	pool := openOwner(t)
	paid, given := event(charge()), event(back("refund", 700))
	mustPost(t, pool, paid, given)
	replace := func(e *ledger.Posting, transfers ...ledger.Transfer) error {
		return correct(t.Context(), pool, &ledger.Correction{EventNo: e.EventNo, Replaces: []int64{e.EventNo}, Transfers: transfers})
	}
	less := func(amount int64) ledger.Transfer { return move("charge", "customer", "shop", amount) }
	require.ErrorIs(t, replace(paid, less(699)), ledger.ErrOverRefund)
	require.ErrorIs(t, replace(paid), ledger.ErrOverRefund)
	require.ErrorIs(t, replace(given, back("refund", 1001)), ledger.ErrOverRefund)
	require.NoError(t, replace(paid, less(800)))
	require.ErrorIs(t, replace(given, back("refund", 801)), ledger.ErrOverRefund)
	require.NoError(t, replace(given, back("refund", 100)))
	rest := event(back("rest", 700))
	over := event(back("over", 1))
	mustPost(t, pool, rest, over)
	require.NoError(t, rest.Err)
	require.ErrorIs(t, over.Err, ledger.ErrOverRefund)
	require.ErrorIs(t, replace(given, back("refund", 101)), ledger.ErrOverRefund)
	require.NoError(t, replace(rest))
	require.NoError(t, replace(given))
	require.NoError(t, replace(paid))
	require.Empty(t, standing(t, pool, paid.EventNo, given.EventNo, rest.EventNo))

	// Both at once.
	both := &ledger.Correction{EventNo: paid.EventNo, Replaces: []int64{paid.EventNo}, Transfers: []ledger.Transfer{less(10), back("refund", 11)}}
	require.ErrorIs(t, correct(t.Context(), pool, both), ledger.ErrOverRefund)
	both.Transfers[1].Amount = 10
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return ledger.Correct(t.Context(), tx, limits, both) }))
	require.Zero(t, balance(t, pool, "shop"))
}
