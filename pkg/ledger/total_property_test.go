package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// totalModel is the refunds of a few charges as one would write them down: every
// operation, and what was seen of each charge.
type totalModel struct {
	operations map[string]ledger.Transfer
	seen       map[string]int64
	moved      map[string]int64
}

func (m totalModel) clone() totalModel {
	return totalModel{maps.Clone(m.operations), maps.Clone(m.seen), maps.Clone(m.moved)}
}

// items is the sum of the refunds of an operation, and undone what was undone of them.
func (m totalModel) items(key string) (sum, undone int64) {
	for _, t := range m.operations {
		if t.Parent == key && t.Refund && t.Kind == "" {
			failed, _ := m.items(t.Operation)
			sum, undone = sum+t.Amount, undone+failed
		}
	}
	return sum, undone
}

func (m totalModel) given(key string) int64 {
	items, undone := m.items(key)
	return max(items, m.seen[key]) - undone
}

// apply adds one transfer of which its posting undoes a part, or says why not.
func (m totalModel) apply(t ledger.Transfer, undoes int64) error {
	if t.Parent == "" {
		m.operations[t.Operation], m.moved[t.Operation] = t, t.Amount
		return nil
	}
	parent, ok := m.operations[t.Parent]
	items, undone := m.items(t.Parent)
	isUndo := parent.Refund
	switch {
	case !ok:
		return ledger.ErrMissingParent
	case parent.Kind == ledger.KindTotal, isUndo && t.Kind == ledger.KindTotal, isUndo && m.operations[parent.Parent].Refund:
		return ledger.ErrRefundInvalid
	case t.Kind == ledger.KindTotal && t.Amount > parent.Amount, isUndo && t.Amount > parent.Amount-(items-undone):
		return ledger.ErrRefundInvalid
	case t.Kind == "" && t.Amount-min(undoes, t.Amount) > parent.Amount-(items-undone):
		return ledger.ErrOverRefund
	}
	charge := t.Parent
	if isUndo {
		charge = parent.Parent
	}
	before := m.given(charge)
	m.operations[t.Operation] = t
	if t.Kind == ledger.KindTotal {
		m.seen[charge] = max(m.seen[charge], t.Amount)
	}
	by := m.given(charge) - before
	if isUndo {
		by = -by
	}
	m.moved[t.Operation] = by
	return nil
}

// post applies a posting of single transfers, or returns the parent it waits for.
func (m *totalModel) post(transfers []ledger.Transfer) (await string, err error) {
	next := m.clone()
	var fresh []ledger.Transfer
	for _, t := range transfers {
		there, ok := next.operations[t.Operation]
		switch {
		case !ok:
			next.operations[t.Operation] = t
			fresh = append(fresh, t)
		case !there.Same(t):
			return "", ledger.ErrOperationConflict
		}
	}
	for _, t := range fresh {
		if _, ok := next.operations[t.Parent]; t.Parent != "" && !ok {
			return t.Parent, ledger.ErrMissingParent
		}
	}
	for _, t := range fresh {
		delete(next.operations, t.Operation)
	}
	// Charges, then refunds, then the rest as it stands, then totals.
	rank := func(t ledger.Transfer) int {
		switch {
		case t.Parent == "":
			return 0
		case t.Kind == ledger.KindTotal:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(fresh, func(a, b ledger.Transfer) int { return rank(a) - rank(b) })
	undoes := map[string]int64{}
	for _, t := range fresh {
		undoes[t.Parent] += t.Amount
	}
	for len(fresh) > 0 { // a refund before what undoes it
		at := 0
		for up := 0; up >= 0; up = slices.IndexFunc(fresh, func(o ledger.Transfer) bool { return o.Operation == fresh[at].Parent }) {
			at = up
		}
		if err := next.apply(fresh[at], undoes[fresh[at].Operation]); err != nil {
			return "", err
		}
		fresh = slices.Delete(fresh, at, at+1)
	}
	*m = next
	return "", nil
}

// batch decides a batch as the ledger is to: parents before their children, and all
// children of one before theirs.
func (m *totalModel) batch(postings [][]ledger.Transfer) []error {
	errs, children := make([]error, len(postings)), map[string][]int{}
	decide := func(i int) (arrived []string) {
		before := m.operations
		var await string
		if await, errs[i] = m.post(postings[i]); await != "" {
			children[await] = append(children[await], i)
		}
		for _, t := range postings[i] {
			if _, was := before[t.Operation]; !was && errs[i] == nil && !slices.Contains(arrived, t.Operation) {
				arrived = append(arrived, t.Operation)
			}
		}
		return arrived
	}
	for i := range postings {
		for arrived := decide(i); len(arrived) > 0; arrived = arrived[1:] {
			waited := children[arrived[0]]
			delete(children, arrived[0])
			for _, j := range waited {
				arrived = append(arrived, decide(j)...)
			}
		}
	}
	return errs
}

// totalTransfer is about one of two charges: also the undoing of a refund, or of one of
// these parts of it.
func totalTransfer(parts ...int64) *rapid.Generator[ledger.Transfer] {
	whats := []string{"charge", "item", "item", "total", "total", "undo", "undo"}
	return rapid.Custom(func(t *rapid.T) ledger.Transfer {
		c := fmt.Sprint("charge", rapid.IntRange(1, 2).Draw(t, "charge"))
		item := fmt.Sprint(c, "/item", rapid.IntRange(1, 3).Draw(t, "item"))
		size := int64(len(item)) * int64(item[len(item)-1]-'0') // each says the same wherever it is told
		amount := rapid.Int64Range(1, 60).Draw(t, "amount")
		switch rapid.SampledFrom(whats).Draw(t, "what") {
		case "charge":
			return move(c, "customer", "shop", 80)
		case "total":
			x := child(ledger.TotalKey(c+"/total", amount), c, "shop", "customer", amount)
			x.Kind = ledger.KindTotal
			return x
		case "undo":
			part := size / rapid.SampledFrom(parts).Draw(t, "part")
			return undo(fmt.Sprint(item, "/undo", part), item, part)
		}
		x := child(item, c, "shop", "customer", size)
		x.Refund = true
		return x
	})
}

// Items, totals and failures in any order, duplicated and in any batches: every
// posting fares as in the model, and the books say what it says.
func TestAnySequenceOfTotalsIsTheModel(t *testing.T) {
	t.Parallel()
	pool := openHolds(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		prefix := fmt.Sprintf("r%d/", round)
		m := totalModel{map[string]ledger.Transfer{}, map[string]int64{}, map[string]int64{}}
		asked := [][]ledger.Transfer{{move("charge1", "customer", "shop", 80)}}
		asked = append(asked, rapid.SliceOfN(rapid.SliceOfN(totalTransfer(1, 1, 2), 1, rapid.SampledFrom([]int{1, 1, 3}).Draw(rt, "most")), 1, 24).Draw(rt, "events")...)
		for range rapid.IntRange(0, 6).Draw(rt, "repeats") {
			asked = append(asked, rapid.SampledFrom(asked).Draw(rt, "repeated"))
		}
		for rest := asked; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "batch")
			var postings []*ledger.Posting
			for _, transfers := range rest[:n] {
				p := event()
				for _, tr := range transfers {
					p.Transfers = append(p.Transfers, under(prefix, tr))
				}
				postings = append(postings, p)
			}
			require.NoError(rt, post(t.Context(), pool, postings))
			for i, want := range m.batch(rest[:n]) {
				if want == nil {
					require.NoError(rt, postings[i].Err, "posting %d: %+v", i, rest[i])
				} else {
					require.ErrorIs(rt, postings[i].Err, want, "posting %d: %+v", i, rest[i])
				}
				for _, p := range postings[i].Posted {
					require.Equal(rt, m.moved[p.Operation[len(prefix):]], p.Amount-p.Unmoved, "%+v", p)
				}
			}
			rest = rest[n:]
		}
		var customer, shop sums
		for key, tr := range m.operations {
			debit, credit := &customer, &shop
			if tr.Debit == "shop" {
				debit, credit = &shop, &customer
			}
			debit.Debits += m.moved[key]
			credit.Credits += m.moved[key]
		}
		b := requireRefunds(rt, pool, prefix)
		require.Equal(rt, shop, b.balance(prefix+"shop"))
		require.Equal(rt, customer, b.balance(prefix+"customer"))
		for _, c := range []string{"charge1", "charge2"} {
			require.LessOrEqual(rt, m.given(c), int64(80))
			require.GreaterOrEqual(rt, m.given(c), int64(0))
		}
	})
}

// The order does not matter, nor do repeats and batches.
func TestAnyOrderOfTotalsEndsAlike(t *testing.T) {
	t.Parallel()
	pool := openHolds(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		asked := rapid.SliceOfN(totalTransfer(1), 1, 20).Draw(rt, "events")
		asked = append(asked, move("charge1", "customer", "shop", 80), move("charge2", "customer", "shop", 80))
		m := totalModel{map[string]ledger.Transfer{}, map[string]int64{}, map[string]int64{}}
		for _, tr := range asked {
			m.operations[tr.Operation] = tr
			if tr.Kind == ledger.KindTotal {
				m.seen[tr.Parent] = max(m.seen[tr.Parent], tr.Amount)
			}
		}
		var undone int64
		for _, tr := range m.operations {
			if m.operations[tr.Parent].Refund {
				undone += tr.Amount
			}
		}
		given := m.given("charge1") + m.given("charge2")
		for n := range 2 {
			prefix := fmt.Sprintf("o%d/%d/", round, n)
			order := rapid.Permutation(append(asked, rapid.SampledFrom(asked).Draw(rt, "repeated"))).Draw(rt, "order")
			for range 3 { // what came before its charge, or its refund, comes again
				for rest := order; len(rest) > 0; {
					n := rapid.IntRange(1, len(rest)).Draw(rt, "batch")
					var postings []*ledger.Posting
					for _, tr := range rest[:n] {
						postings = append(postings, event(under(prefix, tr)))
					}
					require.NoError(rt, post(t.Context(), pool, postings))
					for _, p := range postings {
						require.True(rt, p.Err == nil || errors.Is(p.Err, ledger.ErrMissingParent), "%v", p.Err)
					}
					rest = rest[n:]
				}
			}
			b := requireRefunds(rt, pool, prefix)
			require.Equal(rt, sums{Debits: given + undone, Credits: 160 + undone}, b.balance(prefix+"shop"))
		}
	})
}
