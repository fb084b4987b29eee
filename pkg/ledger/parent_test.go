package ledger_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// child is a transfer that is about the operation parent.
func child(operation, parent, debit, credit string, amount int64) ledger.Transfer {
	t := move(operation, debit, credit, amount)
	t.Parent = parent
	return t
}

func refund() ledger.Transfer { return child("refund", "charge", "shop", "customer", 400) }

func charge() ledger.Transfer { return move("charge", "customer", "shop", 1000) }

func TestAChildIsPostedOnceItsParentIs(t *testing.T) {
	t.Parallel()
	pool := open(t)
	early := event(refund())
	mustPost(t, pool, early)
	require.ErrorIs(t, early.Err, ledger.ErrMissingParent)
	require.ErrorContains(t, early.Err, "charge, which refund is about")
	require.Empty(t, early.Posted)
	require.Empty(t, requireBooks(t, pool).Operations, "it leaves nothing behind")

	mustPost(t, pool, event(charge()))
	late := event(refund())
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return ledger.Post(t.Context(), tx, limits, late) }))
	require.NoError(t, late.Err)
	require.Equal(t, []ledger.Transfer{refund()}, late.Posted)
	require.Equal(t, sums{Debits: 400, Credits: 1000}, requireBooks(t, pool).balance("shop"))
}

func TestParentsAreDecidedBeforeTheirChildren(t *testing.T) {
	t.Parallel()
	undo := child("undo", "refund", "customer", "shop", 400)
	for outcome, order := range map[string][]ledger.Transfer{
		"the order of the stream": {charge(), refund(), undo},
		"the reverse":             {undo, refund(), charge()},
		"the child in between":    {refund(), charge(), undo},
		"the parent last but one": {undo, charge(), refund()},
	} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			pool := open(t)
			postings := []*ledger.Posting{event(order[0]), event(order[1]), event(order[2])}
			mustPost(t, pool, postings...)
			for i, p := range postings {
				require.NoError(t, p.Err)
				require.Equal(t, order[i:i+1], p.Posted)
			}
			require.Equal(t, sums{Debits: 400, Credits: 1400}, requireBooks(t, pool).balance("shop"))
		})
	}
}

func TestAParentThatIsRefusedIsMissing(t *testing.T) {
	t.Parallel()
	pool := open(t)
	refused := event(move("charge", "wallet", "shop", 1000))
	about := event(refund())
	mustPost(t, pool, about, refused)
	require.ErrorIs(t, refused.Err, ledger.ErrInsufficientFunds)
	require.ErrorIs(t, about.Err, ledger.ErrMissingParent)
	require.Empty(t, requireBooks(t, pool).Transfers)

	// Unless another event of the batch posts it.
	about = event(refund())
	mustPost(t, pool, about, event(move("charge", "wallet", "shop", 1000)), event(charge()))
	require.NoError(t, about.Err)
	require.Len(t, requireBooks(t, pool).Transfers, 2)
}

func TestEveryParentOfAPostingIsNeeded(t *testing.T) {
	t.Parallel()
	pool := open(t)
	both := event(child("a", "p1", "x", "y", 1), child("b", "p2", "x", "y", 1))
	mustPost(t, pool, both, event(move("p1", "x", "y", 1)))
	require.ErrorIs(t, both.Err, ledger.ErrMissingParent)
	require.ErrorContains(t, both.Err, "p2, which b is about")
	require.Len(t, requireBooks(t, pool).Operations, 1)

	again := event(both.Transfers...)
	mustPost(t, pool, again, event(move("p2", "x", "y", 1)))
	require.NoError(t, again.Err)
	require.Len(t, again.Posted, 2)
	require.Len(t, requireBooks(t, pool).Operations, 4)
}

func TestTransfersOfOnePostingMayBeAboutEachOther(t *testing.T) {
	t.Parallel()
	pool := open(t)
	sale := event(child("tax", "fee", "shop", "state", 1), child("fee", "charge", "shop", "provider", 5), charge())
	mustPost(t, pool, sale)
	require.NoError(t, sale.Err)
	require.Len(t, requireBooks(t, pool).Transfers, 3)
}

func TestACircleOfParentsIsMissing(t *testing.T) {
	t.Parallel()
	for outcome, postings := range map[string][]*ledger.Posting{
		"about itself":    {event(child("a", "a", "x", "y", 1))},
		"of one event":    {event(child("a", "b", "x", "y", 1), child("b", "a", "x", "y", 1))},
		"of several":      {event(child("a", "b", "x", "y", 1)), event(child("b", "c", "x", "y", 1)), event(child("c", "a", "x", "y", 1))},
		"and its outside": {event(child("d", "a", "x", "y", 1)), event(child("a", "b", "x", "y", 1)), event(child("b", "a", "x", "y", 1))},
	} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			pool := open(t)
			mustPost(t, pool, postings...)
			for _, p := range postings {
				require.ErrorIs(t, p.Err, ledger.ErrMissingParent)
			}
			require.Empty(t, requireBooks(t, pool).Operations)
		})
	}
}

// What is posted stays posted, whatever today's rules say of its parent.
func TestAParentIsNoPartOfTheContent(t *testing.T) {
	t.Parallel()
	pool := open(t)
	alone := refund()
	alone.Parent = ""
	mustPost(t, pool, event(alone))
	known := event(refund())
	mustPost(t, pool, known)
	require.NoError(t, known.Err)
	require.Empty(t, known.Posted)

	// Other money is a conflict, at once: no parent that arrives would change it.
	other := event(child("refund", "charge", "shop", "customer", 401))
	mustPost(t, pool, other)
	require.ErrorIs(t, other.Err, ledger.ErrOperationConflict)
	require.True(t, refund().Same(alone))
	require.False(t, refund().Same(other.Transfers[0]))
}

// An event that turns out to be there already has its operation, or has not:
// what counts is whether that is posted.
func TestAParentOfASkippedPosting(t *testing.T) {
	t.Parallel()
	pool := open(t)
	repeat, about := event(charge()), event(refund())
	require.NoError(t, post(t.Context(), pool, []*ledger.Posting{about, repeat}, repeat))
	require.ErrorIs(t, about.Err, ledger.ErrMissingParent)
	require.Empty(t, requireBooks(t, pool).Operations)

	mustPost(t, pool, event(charge()))
	repeat, about = event(charge()), event(refund())
	require.NoError(t, post(t.Context(), pool, []*ledger.Posting{about, repeat}, repeat))
	require.NoError(t, about.Err)
	require.Len(t, requireBooks(t, pool).Transfers, 2)
}

// What another transaction is about to post is not there yet, and is not waited
// for.
func TestAParentThatIsNotCommittedIsMissing(t *testing.T) {
	t.Parallel()
	pool := open(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	require.NoError(t, postIn(t.Context(), tx, []*ledger.Posting{event(charge())}))
	early := event(refund())
	mustPost(t, pool, early)
	require.ErrorIs(t, early.Err, ledger.ErrMissingParent)

	require.NoError(t, tx.Commit(t.Context()))
	late := event(refund())
	mustPost(t, pool, late)
	require.NoError(t, late.Err)
}

// Parents cost nothing where there are none, and no round trip where there are.
func TestParentsAreReadOnTheWay(t *testing.T) {
	t.Parallel()
	queued := func(postings ...*ledger.Posting) int {
		var first pgx.Batch
		ledger.NewBatch(limits, postings).Reserve(&first)
		return first.Len()
	}
	require.Equal(t, 2, queued(event(charge())))
	require.Equal(t, 3, queued(event(refund()), event(charge()), event(refund())))
}

// Whatever the order and the batches that parents and children come in, and how
// often each comes: tried again until nothing changes, they end in one state.
func TestParentsInAnyOrder(t *testing.T) {
	t.Parallel()
	pool := open(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		prefix := fmt.Sprintf("r%d/", round)
		key := func(n int) string { return fmt.Sprint(prefix, "op", n) }
		var events [][]ledger.Transfer
		for n := range rapid.IntRange(1, 15).Draw(rt, "operations") {
			tr := move(key(n), prefix+rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "debit"), prefix+"d", int64(n+1))
			if rapid.IntRange(0, 3).Draw(rt, "root") > 0 { // 0 to 14, and what never comes; circles, too
				tr.Parent = key(rapid.IntRange(0, 16).Draw(rt, "parent"))
			}
			if len(events) > 0 && rapid.IntRange(0, 3).Draw(rt, "joins") == 0 {
				events[len(events)-1] = append(events[len(events)-1], tr)
				continue
			}
			events = append(events, []ledger.Transfer{tr})
		}
		stream := rapid.Permutation(append(events, events[:rapid.IntRange(0, len(events)).Draw(rt, "repeats")]...)).Draw(rt, "stream")

		for changed := true; changed; {
			changed = false
			var refused [][]ledger.Transfer
			for rest := stream; len(rest) > 0; {
				n := rapid.IntRange(1, len(rest)).Draw(rt, "batch")
				batch := make([]*ledger.Posting, n)
				for i := range batch {
					batch[i] = event(rest[i]...)
				}
				require.NoError(rt, post(t.Context(), pool, batch))
				for i, p := range batch {
					changed = changed || len(p.Posted) > 0
					if p.Err != nil {
						require.ErrorIs(rt, p.Err, ledger.ErrMissingParent)
						refused = append(refused, rest[i])
					}
				}
				rest = rest[n:]
			}
			stream = refused
		}

		have, err := readBooks(t.Context(), pool, prefix)
		require.NoError(rt, err)
		require.NoError(rt, have.check())
		require.Equal(rt, reachable(events), have.Operations)
	})
}

// reachable is what can be posted of these events: those all of whose parents
// can, or are their own.
func reachable(events [][]ledger.Transfer) map[string]ledger.Transfer {
	posted := map[string]ledger.Transfer{}
	for changed := true; changed; {
		changed = false
		for _, transfers := range events {
			if _, done := posted[transfers[0].Operation]; done {
				continue
			}
			own := map[string]bool{}
			for range transfers { // each round grounds one more, at least
				for _, t := range transfers {
					_, there := posted[t.Parent]
					own[t.Operation] = own[t.Operation] || t.Parent == "" || there || own[t.Parent]
				}
			}
			whole := true
			for _, t := range transfers {
				whole = whole && own[t.Operation]
			}
			for _, t := range transfers {
				if whole {
					t.Parent = ""
					posted[t.Operation] = t
					changed = true
				}
			}
		}
	}
	return posted
}
