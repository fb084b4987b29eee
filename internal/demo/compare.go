package demo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// comparison holds the ledger against the plan. It shares no code with what it
// checks: plain maps, filled from what the plan's writer meant.
type comparison struct {
	found *found
	// extra is how many more rows of deliveries without an id there may be: a
	// try without an answer may have been stored, and so may its repetition.
	extra map[keylessRow]int

	want        map[account]balance
	transfers   int
	differences []string
}

// keylessRow is what rows of deliveries without an id have in common.
type keylessRow struct {
	source string
	row    row
}

func (c *comparison) differ(format string, args ...any) {
	c.differences = append(c.differences, fmt.Sprintf(format, args...))
}

// compare returns every difference between what a run of p had to leave behind
// and what is there; none means equal to the cent.
func compare(p *plan, f *found, extra map[keylessRow]int) []string {
	c := &comparison{found: f, extra: extra, want: map[account]balance{}}
	seen := map[key]bool{}
	keyless := map[keylessRow]int{}
	for _, e := range p.events {
		if e.keyless {
			keyless[keylessRow{e.source, e.want}]++
			continue
		}
		c.event(e, seen)
	}
	c.keyless(keyless, seen)
	for k, r := range f.rows {
		if !seen[k] {
			c.differ("event %v: %v, and nobody sent it", k, r)
		}
	}
	c.money()
	slices.Sort(c.differences)
	return c.differences
}

// event holds the row and the transfers of one event against what it meant.
func (c *comparison) event(e *event, seen map[key]bool) {
	k := key{source: e.source, id: e.id}
	seen[k] = true
	have, ok := c.found.rows[k]
	want, moves := e.want, e.contents[0].moves
	switch {
	case !ok:
		c.differ("event %v: accepted, and gone", k)
		if want == applied {
			c.post(moves)
		}
		return
	case e.twin != nil:
		want, moves = c.twin(e, have)
	case want != applied:
		moves = nil
	case len(e.contents) == 2:
		moves = c.rival(e, seen)
	}
	if have != want {
		c.differ("event %v: %v, want %v", k, have, want)
	}
	if !slices.Equal(c.found.moves[k], moves) {
		c.differ("event %v: transfers %v, want %v", k, c.found.moves[k], moves)
	}
	c.post(moves)
}

// twin returns what must become of one of two events that report one payment:
// one is applied, the other one is told apart.
func (c *comparison) twin(e *event, have row) (row, []move) {
	other := c.found.rows[key{source: e.twin.source, id: e.twin.id}]
	switch {
	case have == sameMoney && other == applied:
		return sameMoney, nil
	case have == applied && other == applied && e.id > e.twin.id:
		c.differ("events %s and %s report one payment: both are applied", e.twin.id, e.id)
		return sameMoney, nil
	}
	return applied, e.contents[0].moves
}

// rival returns the moves of the content that stands, of two that came under one
// id, and expects the other one to be parked as a conflict.
func (c *comparison) rival(e *event, seen map[key]bool) []move {
	conflicts := 0
	for k, r := range c.found.rows {
		if k.source == e.source && k.id == e.id && strings.HasPrefix(k.variant, "conflict:") {
			seen[k] = true
			conflicts++
			if r != conflict {
				c.differ("event %v: %v, want %v", k, r, conflict)
			}
		}
	}
	if conflicts != 1 {
		c.differ("event %s: %d of its contents are parked as conflicts, want 1 of 2", e.id, conflicts)
	}
	for _, content := range e.contents {
		if slices.Equal(c.found.moves[key{source: e.source, id: e.id}], content.moves) {
			return content.moves
		}
	}
	return e.contents[0].moves
}

// keyless counts the rows of deliveries without an id.
func (c *comparison) keyless(want map[keylessRow]int, seen map[key]bool) {
	have := map[keylessRow]int{}
	for k, r := range c.found.rows {
		if k.generated() {
			seen[k] = true
			have[keylessRow{k.source, r}]++
			if len(c.found.moves[k]) > 0 {
				c.differ("event %v: moves money without an id", k)
			}
		}
	}
	for r := range have {
		if want[r] == 0 {
			c.differ("%d events without an id are %v: nobody sent one", have[r], r)
		}
	}
	for r, n := range want {
		if have[r] < n || have[r] > n+c.extra[r] {
			c.differ("%d events without an id are %v, want %d", have[r], r, n)
		}
	}
}

// post adds moves to the balances that must be there.
func (c *comparison) post(moves []move) {
	for _, m := range moves {
		debit, credit := account{m.debit, m.asset}, account{m.credit, m.asset}
		b := c.want[debit]
		b.debits += m.amount
		c.want[debit] = b
		b = c.want[credit]
		b.credits += m.amount
		c.want[credit] = b
		c.transfers++
	}
}

// money compares every balance, both ways, and the number of transfers.
func (c *comparison) money() {
	for _, a := range slices.SortedFunc(maps.Keys(c.want), func(a, b account) int {
		return strings.Compare(a.name+a.asset, b.name+b.asset)
	}) {
		if have := c.found.balances[a]; have != c.want[a] {
			c.differ("account %s: %+v %s, want %+v", a.name, have, a.asset, c.want[a])
		}
	}
	for a, have := range c.found.balances {
		if _, ok := c.want[a]; !ok {
			c.differ("account %s: %+v %s, want no such account", a.name, have, a.asset)
		}
	}
	transfers := 0
	for _, moves := range c.found.moves {
		transfers += len(moves)
	}
	if transfers != c.transfers || c.found.operations != c.transfers {
		c.differ("%d transfers and %d operations, want %d of each", transfers, c.found.operations, c.transfers)
	}
	if c.found.unlettered > 0 {
		c.differ("%d parked events have no dead letter", c.found.unlettered)
	}
}
