package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// entriesOf are the entries of a span, picked one by one; after is the place in them
// of the entry to continue behind, -1 for none.
func entriesOf(all []*ledger.Entry, s ledger.Span, after int) []*ledger.Entry {
	list := []*ledger.Entry{}
	for i, e := range all {
		mine := e.Asset == s.Asset && (e.Debit == s.Account || e.Credit == s.Account)
		if mine && i > after && !e.Posted.Before(s.From) && (s.To.IsZero() || e.Posted.Before(s.To)) {
			list = append(list, e)
		}
	}
	return list
}

// Any part of any statement, in pages of any size, is what a look at every
// transfer says, and its balances lead from the opening to the closing one.
func TestStatementsAgreeWithALookAtEveryTransfer(t *testing.T) {
	pool := openOwner(t)
	history(t, pool)
	all := everything(t, pool)
	times := instants(all)
	rapid.Check(t, func(rt *rapid.T) {
		s := ledger.Span{
			Account: rapid.SampledFrom([]string{"wallet", "psp", "shop", "fees", "wallet:empty"}).Draw(rt, "account"),
			Asset:   rapid.SampledFrom([]string{"EUR", "GEMS"}).Draw(rt, "asset"),
		}
		if rapid.Bool().Draw(rt, "from") {
			s.From = rapid.SampledFrom(times).Draw(rt, "from time")
		}
		if rapid.Bool().Draw(rt, "to") {
			s.To = rapid.SampledFrom(times).Draw(rt, "to time")
		}
		after := rapid.IntRange(-1, len(all)-1).Draw(rt, "after")
		if after >= 0 {
			s.After = all[after]
		}
		want := entriesOf(all, s, after)
		limit := rapid.IntRange(1, 4).Draw(rt, "limit")

		running, err := ledger.Opening(t.Context(), pool, s)
		require.NoError(rt, err)
		if running == nil {
			require.Empty(rt, want)
			return
		}
		opening := sums{}
		for i, e := range all {
			if e.Posted.Before(s.From) || i <= after {
				opening = opening.with(e, s)
			}
		}
		require.Equal(rt, opening, sums{running.Debits, running.Credits})

		have := []*ledger.Entry{}
		for {
			page, err := ledger.Statement(t.Context(), pool, s, limit)
			require.NoError(rt, err)
			require.LessOrEqual(rt, len(page), limit)
			have = append(have, page...)
			require.LessOrEqual(rt, len(have), len(want))
			if len(page) < limit {
				break
			}
			s.After = page[len(page)-1]
		}
		require.Equal(rt, want, have)
		for _, e := range have {
			require.NoError(rt, running.Add(e))
		}
		if s.To.IsZero() {
			s.To = time.Now().Add(time.Hour)
		}
		if len(have) == 0 { // the span may end before it begins
			return
		}
		closing, err := ledger.BalanceAt(t.Context(), pool, s.Account, s.To)
		require.NoError(rt, err)
		for _, b := range closing {
			if b.Code == s.Asset {
				require.Equal(rt, sums{b.Debits, b.Credits}, sums{running.Debits, running.Credits})
			}
		}
	})
}

// with adds an entry if it is of the span's account.
func (s sums) with(e *ledger.Entry, of ledger.Span) sums {
	switch {
	case e.Asset != of.Asset:
	case e.Debit == of.Account:
		s.Debits += e.Amount
	case e.Credit == of.Account:
		s.Credits += e.Amount
	}
	return s
}

// A reversal stands where it was made, though it has the number of its event.
func TestAStatementIsInTheOrderOfTime(t *testing.T) {
	pool := openOwner(t)
	early := event(move("early", "psp", "wallet", 10))
	mustPost(t, pool, early)
	mustPost(t, pool, event(move("late", "psp", "wallet", 20)))
	require.NoError(t, correct(t.Context(), pool, &ledger.Correction{EventNo: early.EventNo, Replaces: []int64{early.EventNo}}))
	page, err := ledger.Statement(t.Context(), pool, ledger.Span{Account: "wallet", Asset: "EUR"}, 10)
	require.NoError(t, err)
	require.Len(t, page, 3)
	require.Equal(t, []string{"early", "late", "early"}, []string{page[0].Operation, page[1].Operation, page[2].Operation})
	require.NotNil(t, page[2].Reverses)
	require.Equal(t, early.EventNo, page[2].EventNo)
}
