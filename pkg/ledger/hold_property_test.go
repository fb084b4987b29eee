package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// modelHold is a hold as one would keep it in memory.
type modelHold struct {
	ledger.Transfer
	captured int64
	closed   string
}

func (h modelHold) left() int64 {
	if h.closed != "" {
		return 0
	}
	return max(h.Amount-h.captured, 0)
}

// modelAccount is what is posted and held on both sides.
type modelAccount struct{ debits, credits, heldDebits, heldCredits int64 }

// used and bound are what an account's limit compares.
func (a modelAccount) used(rule ledger.LimitRule) (used, bound int64) {
	if rule == ledger.CreditsMustNotExceedDebits {
		return a.credits + a.heldCredits, a.debits
	}
	return a.debits + a.heldDebits, a.credits
}

// holdModel is the ledger with holds without a database: one posting after the
// other, each on a copy that is kept if nothing is refused.
type holdModel struct {
	operations map[string]ledger.Transfer
	holds      map[string]modelHold
	accounts   map[string]modelAccount
	uncovered  map[string]int64
}

func (m holdModel) clone() holdModel {
	return holdModel{maps.Clone(m.operations), maps.Clone(m.holds), maps.Clone(m.accounts), maps.Clone(m.uncovered)}
}

// awaits returns the hold that a posting has to wait for.
func (m holdModel) awaits(fresh []ledger.Transfer, canWait func(key string) bool) (string, bool) {
	for _, t := range fresh {
		along := slices.ContainsFunc(fresh, func(o ledger.Transfer) bool { return o.Operation == t.Parent })
		if t.Parent == "" || along || m.holds[t.Parent].Amount > 0 || t.Fact && !canWait(t.Parent) {
			continue
		}
		return t.Parent, true
	}
	return "", false
}

// post returns the model with the posting, or why not.
func (m holdModel) post(transfers []ledger.Transfer, canWait func(key string) bool) (next holdModel, await string, err error) {
	next = m.clone()
	var fresh []ledger.Transfer
	for _, t := range transfers {
		there, ok := next.operations[t.Operation]
		switch {
		case !ok:
			next.operations[t.Operation] = t
			fresh = append(fresh, t)
		case !there.Same(t):
			return m, "", ledger.ErrOperationConflict
		}
	}
	if key, ok := m.awaits(fresh, canWait); ok {
		return m, key, ledger.ErrMissingParent
	}
	slices.SortStableFunc(fresh, func(a, b ledger.Transfer) int { return boolOrder(a.Kind != ledger.KindHold, b.Kind != ledger.KindHold) })
	for _, t := range fresh {
		if err := next.apply(t); err != nil {
			return m, "", err
		}
	}
	for name, a := range next.accounts {
		limit, _ := limits(name)
		if !limit.Enforce {
			continue
		}
		before, _ := m.accounts[name].used(limit.Rule)
		if used, bound := a.used(limit.Rule); used > before && used > bound {
			return m, "", ledger.ErrInsufficientFunds
		}
	}
	return next, "", nil
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

func (m holdModel) apply(t ledger.Transfer) error {
	key := t.Parent
	if t.Kind == ledger.KindHold {
		key = t.Operation
	}
	h := m.holds[key]
	m.hold(h, -h.left())
	switch {
	case t.Kind == ledger.KindHold:
		h.Transfer = t
	case h.Amount == 0 && !t.Fact && t.Kind != "":
		return ledger.ErrMissingParent
	case t.Kind == ledger.KindVoid && !t.Final && (h.closed == "final" || h.closed == "" && h.left() == 0):
		return ledger.ErrHoldClosed
	case t.Kind == ledger.KindVoid && h.closed == "":
		h.closed = "voided"
	case t.Kind == ledger.KindCapture && !t.Fact && h.left() == 0:
		return ledger.ErrHoldClosed
	case t.Kind == ledger.KindCapture && !t.Fact && h.left() < t.Amount:
		return ledger.ErrOverCapture
	case t.Kind == ledger.KindCapture:
		if beyond := t.Amount - h.left(); beyond > 0 {
			m.uncovered[t.Operation] = beyond
		}
		h.captured += t.Amount
		if t.Final && h.closed == "" {
			h.closed = "final"
		}
	}
	if t.Kind != "" {
		m.holds[key] = h
		m.hold(h, h.left())
	}
	if t.Kind == "" || t.Kind == ledger.KindCapture {
		debit, credit := m.accounts[t.Debit], m.accounts[t.Credit]
		debit.debits += t.Amount
		credit.credits += t.Amount
		m.accounts[t.Debit], m.accounts[t.Credit] = debit, credit
	}
	return nil
}

func (m holdModel) hold(h modelHold, by int64) {
	if by == 0 {
		return
	}
	debit, credit := m.accounts[h.Debit], m.accounts[h.Credit]
	debit.heldDebits += by
	credit.heldCredits += by
	m.accounts[h.Debit], m.accounts[h.Credit] = debit, credit
}

// expire ends the brief holds, which the next transaction finds at their end.
func (m holdModel) expire() {
	for key, h := range m.holds {
		if h.Expires == soon && h.closed == "" {
			m.hold(h, -h.left())
			if h.left() > 0 {
				h.closed = "expired"
			}
			m.holds[key] = h
		}
	}
}

// batch decides a batch: parents before their children, and facts last.
func (m *holdModel) batch(postings [][]ledger.Transfer) []error {
	errs := make([]error, len(postings))
	waiting := make([]string, len(postings))
	asked := map[string]bool{}
	for _, p := range postings {
		for _, t := range p {
			asked[t.Operation] = true
		}
	}
	last := false
	canWait := func(key string) bool {
		_, posted := m.operations[key]
		return asked[key] && !posted && !last
	}
	var decide func(i int)
	decide = func(i int) {
		before := m.operations
		*m, waiting[i], errs[i] = m.post(postings[i], canWait)
		var arrived []string
		for _, t := range postings[i] { // in the order of the posting
			if _, was := before[t.Operation]; !was && errs[i] == nil && !slices.Contains(arrived, t.Operation) {
				arrived = append(arrived, t.Operation)
			}
		}
		for _, key := range arrived {
			for j := range postings {
				if waiting[j] == key {
					waiting[j] = ""
					decide(j)
				}
			}
		}
	}
	for i := range postings {
		decide(i)
	}
	last = true
	for i, p := range postings {
		if errors.Is(errs[i], ledger.ErrMissingParent) && slices.ContainsFunc(p, func(t ledger.Transfer) bool { return t.Kind == ledger.KindCapture && t.Fact }) {
			decide(i)
		}
	}
	m.expire()
	return errs
}

// holdTransfers are about a few holds between a few accounts.
func holdTransfers() *rapid.Generator[[]ledger.Transfer] {
	one := rapid.Custom(func(t *rapid.T) ledger.Transfer {
		n := rapid.IntRange(0, 5).Draw(t, "number")
		key := fmt.Sprint("hold", rapid.IntRange(0, 4).Draw(t, "hold"))
		pair := rapid.SampledFrom([][2]string{{"wallet", "shop"}, {"wallet2", "shop"}, {"shop", "card"}, {"fact", "shop"}, {"wallet", "card"}}).Draw(t, "accounts")
		tr := move(fmt.Sprint("move", n), pair[0], pair[1], rapid.Int64Range(1, 12).Draw(t, "amount"))
		switch rapid.SampledFrom([]string{"fund", "move", "hold", "hold", "capture", "capture", "capture", "void"}).Draw(t, "what") {
		case "fund":
			return move(fmt.Sprint("fund", n), rapid.SampledFrom([]string{"world", "card"}).Draw(t, "from"), "wallet", tr.Amount)
		case "hold":
			tr.Operation, tr.Kind, tr.Expires = key, ledger.KindHold, rapid.SampledFrom([]time.Duration{soon, time.Hour, time.Hour}).Draw(t, "expires")
		case "capture":
			tr.Operation, tr.Kind, tr.Parent = fmt.Sprint("capture", n, key), ledger.KindCapture, key
			tr.Fact, tr.Final = rapid.Bool().Draw(t, "fact"), rapid.IntRange(0, 3).Draw(t, "final") == 0
		case "void":
			tr = void(fmt.Sprint("void", n), key)
			tr.Final = rapid.IntRange(0, 2).Draw(t, "last") == 0
		}
		return tr
	})
	return rapid.Custom(func(t *rapid.T) []ledger.Transfer {
		return rapid.SliceOfN(one, 1, rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "most")).Draw(t, "transfers")
	})
}

// Whatever is held, captured, voided and expires, in any order, duplicated and in any
// batches: every posting fares as in the model, and the books say what it says.
func TestAnySequenceOfHoldsIsTheModel(t *testing.T) {
	t.Parallel()
	pool := openHolds(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		prefix := fmt.Sprintf("r%d/", round)
		m := holdModel{map[string]ledger.Transfer{}, map[string]modelHold{}, map[string]modelAccount{}, map[string]int64{}}
		asked := rapid.SliceOfN(holdTransfers(), 1, 24).Draw(rt, "events")
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
			}
			rest = rest[n:]
		}
		b, err := readBooks(t.Context(), pool, prefix)
		require.NoError(rt, err)
		require.NoError(rt, b.check())
		require.NoError(rt, checkHolds(t.Context(), pool, prefix))
		accounts, err := ledger.Accounts(t.Context(), pool, ledger.AccountFilter{Prefix: prefix})
		require.NoError(rt, err)
		for _, a := range accounts {
			want := m.accounts[a.Name[len(prefix):]]
			require.Equal(rt, want, modelAccount{a.DebitsPosted, a.CreditsPosted, a.DebitsPending, a.CreditsPending}, a.Name)
		}
		marks := uncovered(t, pool, prefix)
		require.Len(rt, marks, len(m.uncovered))
		for key, amount := range m.uncovered {
			require.Equal(rt, amount, marks[prefix+key])
		}
	})
}

// Facts that come again until they are posted: whatever the order of a hold, its
// captures and its void, the same is posted and held in the end.
func TestAnyOrderOfAHoldEndsAlike(t *testing.T) {
	t.Parallel()
	pool := openHolds(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		prefix := fmt.Sprintf("o%d/", round)
		hold := holding("hold", "psp", "shop", rapid.Int64Range(1, 30).Draw(rt, "amount"))
		asked := []ledger.Transfer{hold}
		var sum int64
		closed := false
		for i := range rapid.IntRange(0, 4).Draw(rt, "captures") {
			c := fact(capture(fmt.Sprint("c", i), "hold", rapid.Int64Range(1, 20).Draw(rt, "capture")))
			c.Debit, c.Final = "psp", rapid.IntRange(0, 5).Draw(rt, "final") == 0
			sum, closed = sum+c.Amount, closed || c.Final
			asked = append(asked, c)
		}
		voided := rapid.Bool().Draw(rt, "void")
		if voided {
			asked = append(asked, void("v", "hold"))
		}
		if rapid.Bool().Draw(rt, "last of nothing") {
			asked, closed = append(asked, final(void("n", "hold"))), true
		}
		asked = rapid.Permutation(append(asked, rapid.SampledFrom(asked).Draw(rt, "repeated"))).Draw(rt, "order")
		for range 2 { // what came before its hold comes again
			for rest := asked; len(rest) > 0; {
				n := rapid.IntRange(1, len(rest)).Draw(rt, "batch")
				var postings []*ledger.Posting
				for _, tr := range rest[:n] {
					postings = append(postings, event(under(prefix, tr)))
				}
				require.NoError(rt, post(t.Context(), pool, postings))
				rest = rest[n:]
			}
		}
		require.NoError(rt, checkHolds(t.Context(), pool, prefix))
		held := max(hold.Amount-sum, 0)
		if closed || voided {
			held = 0
		}
		b, err := readBooks(t.Context(), pool, prefix)
		require.NoError(rt, err)
		require.Equal(rt, sum, b.balance(prefix+"shop").Credits)
		require.Equal(rt, held, heldOf(t, pool, prefix+"psp"))
	})
}
