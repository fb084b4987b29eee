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
					} else if name == "another asset" || name == "of a refund" {
						require.ErrorIs(t, p.Err, ledger.ErrRefundInvalid)
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

// undo gives back a part of a refund that has failed.
func undo(operation, refund string, amount int64) ledger.Transfer {
	t := child(operation, refund, "customer", "shop", amount)
	t.Refund = true
	return t
}

// Case 35: a refund that failed is undone, and does not count any more.
func TestAFailedRefundDoesNotCount(t *testing.T) {
	t.Parallel()
	for name, batches := range map[string][][]*ledger.Posting{
		"each in a batch of its own": {{event(charge())}, {event(back("a", 700))}, {event(back("no", 301))}, {event(undo("u", "a", 700))},
			{event(back("b", 1000))}, {event(back("no", 1))}},
		"all in one batch": {{event(charge()), event(back("a", 700)), event(back("no", 301)), event(undo("u", "a", 700)),
			event(back("b", 1000)), event(back("no", 1))}},
		"the undoing in the batch of the next": {{event(charge())}, {event(back("a", 700))}, {event(back("no", 301)), event(undo("u", "a", 700)),
			event(back("b", 1000)), event(back("no", 1))}},
		"in the event of the next":   {{event(charge()), event(back("a", 700))}, {event(undo("u", "a", 700), back("b", 1000))}, {event(back("no", 1))}},
		"in two parts":               {{event(charge()), event(back("a", 700))}, {event(undo("u", "a", 300))}, {event(back("no", 601)), event(undo("v", "a", 400))}, {event(back("b", 1000))}},
		"more than was given back":   {{event(charge()), event(back("a", 700))}, {event(undo("no", "a", 701)), event(undo("u", "a", 700))}, {event(undo("no", "a", 1))}, {event(back("b", 1000))}},
		"what was undone is undone":  {{event(charge()), event(back("a", 700))}, {event(undo("u", "a", 700))}, {event(undo("no", "u", 1))}, {event(back("b", 1000))}},
		"all of that in one batch":   {{event(charge()), event(back("a", 700)), event(undo("u", "a", 700)), event(undo("no", "u", 1)), event(back("b", 1000))}},
		"told with its failure":      {{event(charge()), event(back("b", 1000))}, {event(back("a", 700), undo("u", "a", 700)), event(back("no", 1))}},
		"the failure first":          {{event(charge()), event(back("b", 1000))}, {event(undo("u", "a", 700), back("a", 700))}, {event(back("no", 1))}},
		"with a part of its failure": {{event(charge()), event(back("b", 1000))}, {event(undo("v", "no", 699), back("no", 700)), event(undo("u", "a", 700), back("a", 700))}},
		"a refused one takes its undoing along": {{event(charge()), event(back("a", 700))},
			{event(undo("u", "a", 700), back("no", 1001)), event(undo("u", "a", 700)), event(back("b", 1000))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := open(t)
			for _, batch := range batches {
				mustPost(t, pool, batch...)
				for _, p := range batch {
					switch last := p.Transfers[len(p.Transfers)-1]; {
					case last.Operation != "no":
						require.NoError(t, p.Err, last)
						require.Len(t, p.Posted, len(p.Transfers))
					case last.Parent == "charge":
						require.ErrorIs(t, p.Err, ledger.ErrOverRefund, last)
					default:
						require.ErrorIs(t, p.Err, ledger.ErrRefundInvalid, "what is undone stays undone: %v", last)
					}
				}
			}
			shop := requireBooks(t, pool).balance("shop")
			require.Equal(t, sums{Debits: 1700, Credits: 1700}, shop)
			over, err := ledger.OverRefunds(t.Context(), pool, []string{"charge", "a", "b", "u", "v", "charge"})
			require.NoError(t, err)
			require.Empty(t, over)
		})
	}
}

// A refund above its charge is not refused for good: another event may tell of it
// along with its failure.
func TestARefundThatDoesNotFitMayStandOnceItHasFailed(t *testing.T) {
	t.Parallel()
	pool := open(t)
	above, told := event(back("a", 1500)), event(back("a", 1500), undo("u", "a", 1500))
	mustPost(t, pool, event(charge()), above, told)
	require.ErrorIs(t, above.Err, ledger.ErrOverRefund)
	require.NoError(t, told.Err)
	mustPost(t, pool, above)
	require.NoError(t, above.Err)
	require.Empty(t, above.Posted, "it is there")
	require.EqualValues(t, 1000, balance(t, pool, "shop"))
}

// An operation that one event asked for and another posts gives back what the
// latter says.
func TestARefundIsOfWhatItsPosterSays(t *testing.T) {
	t.Parallel()
	pool := open(t)
	other := move("other", "customer", "shop", 1000)
	ofOther := back("a", 700)
	ofOther.Parent = "other"
	refused, posted := event(back("a", 700), back("no", 1001)), event(ofOther)
	undone, over, all := event(undo("u", "a", 700)), event(back("no", 1001)), event(back("b", 1000))
	mustPost(t, pool, event(charge()), event(other), refused, posted, undone, over, all)
	require.ErrorIs(t, refused.Err, ledger.ErrOverRefund)
	require.NoError(t, posted.Err)
	require.NoError(t, undone.Err)
	require.ErrorIs(t, over.Err, ledger.ErrOverRefund, "what was undone is not of this charge")
	require.NoError(t, all.Err)
	rest := event(func() ledger.Transfer { r := back("c", 1000); r.Parent = "other"; return r }())
	mustPost(t, pool, rest)
	require.NoError(t, rest.Err)
	requireBooks(t, pool)
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

	// An undoing that is taken back makes the refund count again.
	fresh, failed, undone := event(charge()), event(back("failed", 700)), event(undo("undo", "failed", 700))
	next := event(back("next", 1000))
	mustPost(t, pool, fresh, failed, undone, next)
	require.NoError(t, next.Err)
	require.ErrorIs(t, replace(undone), ledger.ErrOverRefund)
	require.ErrorIs(t, replace(failed), ledger.ErrOverRefund, "it is undone")
	require.NoError(t, replace(next))
	require.NoError(t, replace(undone))
	require.NoError(t, replace(failed))
	require.NoError(t, replace(fresh))

	// Both at once.
	both := &ledger.Correction{EventNo: paid.EventNo, Replaces: []int64{paid.EventNo}, Transfers: []ledger.Transfer{less(10), back("refund", 11)}}
	require.ErrorIs(t, correct(t.Context(), pool, both), ledger.ErrOverRefund)
	both.Transfers[1].Amount = 10
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return ledger.Correct(t.Context(), tx, limits, both) }))
	require.Zero(t, balance(t, pool, "shop"))
}
