package demo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// perfect is what a ledger holds that did everything right.
func perfect(p *plan) *found {
	f := &found{rows: map[key]row{}, moves: map[key][]move{}, balances: map[account]balance{}}
	post := func(k key, moves []move) {
		for _, m := range moves {
			f.moves[k] = append(f.moves[k], m)
			f.operations++
			debit, credit := account{m.debit, m.asset}, account{m.credit, m.asset}
			f.balances[debit] = balance{f.balances[debit].debits + m.amount, f.balances[debit].credits}
			f.balances[credit] = balance{f.balances[credit].debits, f.balances[credit].credits + m.amount}
		}
	}
	for i, e := range p.events {
		k := key{source: e.source, id: e.id}
		switch {
		case e.keyless:
			f.rows[key{source: e.source, id: fmt.Sprint("generated/", i)}] = e.want
		case e.twin != nil && f.rows[key{source: e.source, id: e.twin.id}] == applied:
			f.rows[k] = sameMoney
		default:
			f.rows[k] = e.want
			if len(e.contents) == 2 {
				f.rows[key{e.source, e.id, "conflict:00"}] = conflict
			}
			if e.want == applied {
				post(k, e.contents[i%len(e.contents)].moves)
			}
		}
	}
	return f
}

func TestNothingDiffersWhereEverythingIsRight(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		p := newPlan(seed, size{events: 1_500, deliveries: 2_000})
		require.Empty(t, compare(p, perfect(p), nil))
	}
}

// Every way of being wrong is seen.
func TestDifferences(t *testing.T) {
	t.Parallel()
	p := newPlan(1, size{events: 1_500, deliveries: 2_000})
	pick := func(f *found, fits func(key, row) bool) key {
		keys := slices.SortedFunc(maps.Keys(f.rows), func(a, b key) int { return strings.Compare(a.String(), b.String()) })
		return keys[slices.IndexFunc(keys, func(k key) bool { return fits(k, f.rows[k]) })]
	}
	is := func(want row) func(key, row) bool { return func(_ key, r row) bool { return r == want } }
	some := func(f *found) account { return account{"stripe:receivable", "USD"} }

	for name, wrong := range map[string]func(f *found){
		"an event is gone":          func(f *found) { delete(f.rows, pick(f, is(applied))) },
		"an ignored event is gone":  func(f *found) { delete(f.rows, pick(f, is(unmatched))) },
		"an event nobody sent":      func(f *found) { f.rows[key{source: stripe, id: "evt_x"}] = unmatched },
		"a conflict nobody sent":    func(f *found) { f.rows[key{stripe, p.events[0].id, "conflict:1"}] = conflict },
		"both contents are applied": func(f *found) { delete(f.rows, pick(f, is(conflict))) },
		"two payments of one": func(f *found) {
			k := pick(f, is(sameMoney))
			f.rows[k] = applied
		},
		"no payment of two": func(f *found) {
			for _, e := range p.events {
				if e.twin != nil {
					f.rows[key{source: e.source, id: e.id}] = sameMoney
				}
			}
		},
		"another reason":             func(f *found) { f.rows[pick(f, is(parked("rule_error")))] = parked("bad_json") },
		"parked in place of it":      func(f *found) { f.rows[pick(f, is(applied))] = parked("rule_error") },
		"applied in place of it":     func(f *found) { f.rows[pick(f, is(parked("amount_format")))] = applied },
		"ignored for another reason": func(f *found) { f.rows[pick(f, is(noMoney))] = unmatched },
		"still pending":              func(f *found) { f.rows[pick(f, is(applied))] = row{state: "pending"} },
		"one without an id is gone": func(f *found) {
			delete(f.rows, pick(f, func(k key, _ row) bool { return k.generated() }))
		},
		"one without an id too many": func(f *found) { f.rows[key{source: stripe, id: "generated/x"}] = parked("bad_json") },
		"a transfer is gone": func(f *found) {
			k := pick(f, is(applied))
			f.moves[k] = f.moves[k][1:]
		},
		"a transfer of a parked event": func(f *found) {
			f.moves[pick(f, is(parked("amount_format")))] = []move{{"a", "b", "USD", 1}}
		},
		"a transfer of no event":    func(f *found) { f.moves[key{id: "number 7"}] = []move{{"a", "b", "USD", 1}} },
		"a cent too much":           func(f *found) { b := f.balances[some(f)]; b.debits++; f.balances[some(f)] = b },
		"a cent on the wrong side":  func(f *found) { b := f.balances[some(f)]; b.credits++; f.balances[some(f)] = b },
		"an account is gone":        func(f *found) { delete(f.balances, some(f)) },
		"an account nobody has":     func(f *found) { f.balances[account{"wallet:x", "USD"}] = balance{} },
		"an operation is gone":      func(f *found) { f.operations-- },
		"a parked event, no letter": func(f *found) { f.unlettered++ },
	} {
		f := perfect(p)
		wrong(f)
		require.NotEmpty(t, compare(p, f, nil), name)
	}
}

func TestATryWithoutAnAnswerMayCountTwice(t *testing.T) {
	t.Parallel()
	p := newPlan(1, size{events: 1_500, deliveries: 2_000})
	f := perfect(p)
	f.rows[key{source: stripe, id: "generated/x"}] = parked("bad_json")
	require.NotEmpty(t, compare(p, f, nil))
	require.Empty(t, compare(p, f, map[keylessRow]int{{stripe, parked("bad_json")}: 1}))
}
