package check

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onceledger/onceledger/test/torture/client"
	"github.com/onceledger/onceledger/test/torture/traffic"
)

// Verdict is every difference between what must be true and what is there.
type Verdict struct {
	// Lost is money, or an event, that was accepted and is not there; Doubled is
	// money that moved more often than it should.
	Lost    []string `json:"lost"`
	Doubled []string `json:"doubled"`
	// Unexplained is everything else that should not be.
	Unexplained []string `json:"unexplained"`
	// Found counts them: the lists may be cut.
	Found struct {
		Lost        int `json:"lost"`
		Doubled     int `json:"doubled"`
		Unexplained int `json:"unexplained"`
	} `json:"found"`
	// Outcomes counts the events by what became of them.
	Outcomes map[string]int `json:"outcomes"`
	// Events and Transfers are how many there are.
	Events    int `json:"events"`
	Transfers int `json:"transfers"`
}

// Clean reports whether nothing differs.
func (v *Verdict) Clean() bool { return v.Findings() == 0 }

// Findings is how many there are.
func (v *Verdict) Findings() int { return v.Found.Lost + v.Found.Doubled + v.Found.Unexplained }

// Cut keeps the first n of each list, and returns all of them.
func (v *Verdict) Cut(n int) (all []string) {
	for _, list := range []*[]string{&v.Lost, &v.Doubled, &v.Unexplained} {
		all = append(all, *list...)
		*list = (*list)[:min(n, len(*list))]
	}
	return all
}

func (v *Verdict) lost(format string, args ...any) {
	v.Lost = append(v.Lost, fmt.Sprintf(format, args...))
}
func (v *Verdict) doubled(format string, args ...any) {
	v.Doubled = append(v.Doubled, fmt.Sprintf(format, args...))
}

func (v *Verdict) odd(format string, args ...any) {
	v.Unexplained = append(v.Unexplained, fmt.Sprintf(format, args...))
}

// comparison is one run of Compare.
type comparison struct {
	*Verdict
	*State
	seen map[key]bool
	want map[account]balance
	// conflicts are the variants of each event.
	conflicts map[key][]key
	// bodies are what was sent for an event, by the hash of the body.
	bodies map[*traffic.Event]map[hash]client.Acked
}

type hash = [sha256.Size]byte

// Compare returns what differs. acked says what the senders' own history has.
func Compare(stream *traffic.Stream, acked map[client.Body]client.Acked, s *State) *Verdict {
	c := &comparison{
		Verdict: &Verdict{Outcomes: map[string]int{}}, State: s,
		seen: map[key]bool{}, want: map[account]balance{}, conflicts: map[key][]key{}, bodies: map[*traffic.Event]map[hash]client.Acked{},
	}
	for _, a := range acked {
		if c.bodies[a.Event] == nil {
			c.bodies[a.Event] = map[hash]client.Acked{}
		}
		c.bodies[a.Event][a.Hash] = a
	}
	for k := range s.rows {
		if k.variant != "" {
			plain := key{source: k.source, id: k.id}
			c.conflicts[plain] = append(c.conflicts[plain], k)
		}
	}
	for _, e := range stream.Events {
		if !e.Keyless && !e.Forged && e.Fate != traffic.Spend {
			c.event(e)
		}
	}
	for _, p := range stream.Purses {
		c.purse(p)
	}
	c.keyless(acked)
	for k, r := range s.rows {
		c.Outcomes[r.String()]++
		if !c.seen[k] {
			c.odd("event %s: %s, and nobody sent it", k, r)
		}
	}
	c.acked(acked)
	c.books()
	c.deadLetters(acked)
	c.Events, c.Transfers = len(s.rows), 0
	for _, moves := range s.moves {
		c.Transfers += len(moves)
	}
	for _, list := range [][]string{c.Lost, c.Doubled, c.Unexplained} {
		slices.Sort(list)
	}
	c.Found.Lost, c.Found.Doubled, c.Found.Unexplained = len(c.Lost), len(c.Doubled), len(c.Unexplained)
	return c.Verdict
}

// event holds the row and the transfers of one event against its meaning.
func (c *comparison) event(e *traffic.Event) {
	k := key{source: e.Source, id: e.ID}
	c.seen[k] = true
	have, ok := c.rows[k]
	want, moves := row{state: "completed", outcome: "applied"}, e.Contents[0].Moves
	switch {
	case !ok:
		c.lost("event %s: accepted, and has no row", k)
		return
	case e.Fate == traffic.Ignored:
		want.outcome = "ignored"
	case e.Fate == traffic.TestMode:
		want.outcome, want.reason = "ignored", "mode_mismatch"
	case e.Fate == traffic.Refused:
		want = row{state: "failed", reason: e.Reason}
	case e.Twin != nil:
		want, moves = c.twin(e, have)
	case len(e.Contents) == 2:
		moves = c.rival(e, k, have)
	}
	if have.state != want.state || have.outcome != want.outcome || have.reason != want.reason && want.reason != "" {
		if want.outcome == "applied" {
			c.lost("event %s: %s, want %s", k, have, want)
		} else {
			c.odd("event %s: %s, want %s", k, have, want)
		}
	}
	c.posted(k, c.moves[have.no], moves)
}

// posted holds an event's transfers against those it must have.
func (c *comparison) posted(k key, have, want []traffic.Move) {
	for _, m := range want {
		c.expect(m)
	}
	switch {
	case slices.Equal(have, want):
	case len(have) > len(want):
		c.doubled("event %s: transfers %v, want %v", k, have, want)
	default:
		c.lost("event %s: transfers %v, want %v", k, have, want)
	}
}

func (c *comparison) expect(m traffic.Move) {
	debit, credit := account{m.Debit, m.Asset}, account{m.Credit, m.Asset}
	b := c.want[debit]
	b.debits += m.Amount
	c.want[debit] = b
	b = c.want[credit]
	b.credits += m.Amount
	c.want[credit] = b
}

// twin: of two events that report one payment, one is applied, the other one is
// told apart.
func (c *comparison) twin(e *traffic.Event, have row) (row, []traffic.Move) {
	same := row{state: "completed", outcome: "duplicate_operation"}
	other := c.rows[key{source: e.Twin.Source, id: e.Twin.ID}]
	if have.outcome == same.outcome && other.outcome == "applied" {
		return same, nil
	}
	if have.outcome == "applied" && other.outcome == "applied" && e.ID > e.Twin.ID {
		c.doubled("events %s and %s report one payment: both are applied", e.Twin.ID, e.ID)
		return same, nil
	}
	return row{state: "completed", outcome: "applied"}, e.Contents[0].Moves
}

// rival: of two contents under one id one stands, and the other is parked.
func (c *comparison) rival(e *traffic.Event, k key, have row) []traffic.Move {
	stands, known := c.bodies[e][have.hash]
	if !known {
		c.odd("event %s: nobody sent the body that stands", k)
	}
	parked := map[hash]bool{}
	for _, conflict := range c.conflicts[k] {
		c.seen[conflict] = true
		r := c.rows[conflict]
		if r.state != "failed" || r.reason != "id_conflict" {
			c.odd("event %s: %s, want failed id_conflict", conflict, r)
		}
		if other, known := c.bodies[e][r.hash]; !known || other.Content == stands.Content {
			c.odd("event %s: parked as a conflict, and it says what stands", conflict)
		}
		parked[r.hash] = true
		c.posted(conflict, c.moves[r.no], nil)
	}
	// Each form of the other content that was accepted is parked by itself.
	for body, a := range c.bodies[e] {
		if a.Content != stands.Content && a.Acks > 0 && !parked[body] {
			c.lost("event %s: a form of its other content was accepted, and is not parked as a conflict", k)
		}
	}
	return e.Contents[stands.Content].Moves
}

// purse: as many spends are applied as the purse has room for.
func (c *comparison) purse(p *traffic.Purse) {
	applied := 0
	for _, e := range p.Spends {
		k := key{source: e.Source, id: e.ID}
		c.seen[k] = true
		switch have, ok := c.rows[k]; {
		case !ok:
			c.lost("event %s: accepted, and has no row", k)
		case have.outcome == "applied":
			applied++
			c.posted(k, c.moves[have.no], e.Contents[0].Moves)
		case have.state == "failed" && have.reason == e.Reason:
			c.posted(k, c.moves[have.no], nil)
		default:
			c.odd("event %s: %s, want it applied or failed %s", k, have, e.Reason)
		}
	}
	if want := min(p.Room, len(p.Spends)); applied > want {
		c.doubled("%s: %d spends are applied, it has room for %d", p.Name, applied, want)
	} else if applied < want {
		c.lost("%s: %d spends are applied, it has room for %d", p.Name, applied, want)
	}
}

// keyless: each stored delivery without an id stands for itself. One that was
// tried and not answered may be stored or not.
func (c *comparison) keyless(acked map[client.Body]client.Acked) {
	least, most, have := map[row]int{}, map[row]int{}, map[row]int{}
	for _, a := range acked {
		if a.Event.Keyless {
			r := row{state: "failed", reason: a.Event.Reason}
			least[r] += a.Acks
			most[r] += a.Tries
		}
	}
	for k, r := range c.rows {
		if strings.HasPrefix(k.id, "generated/") {
			c.seen[k] = true
			have[row{state: r.state, outcome: r.outcome, reason: r.reason}]++
			c.posted(k, c.moves[r.no], nil)
		}
	}
	for r, n := range have {
		if n > most[r] {
			c.odd("%d events without an id are %s, at most %d were sent", n, r, most[r])
		}
	}
	for r, n := range least {
		if have[r] < n {
			c.lost("%d events without an id are %s, %d were accepted", have[r], r, n)
		}
	}
}

// acked: whatever was answered with 2xx is in the stream.
func (c *comparison) acked(acked map[client.Body]client.Acked) {
	for body, a := range acked {
		if a.Acks > 0 && !c.stored[body] {
			c.lost("event %s: accepted %d times, and not in EVENTS", a.Event, a.Acks)
		}
	}
}

// books: every balance, both ways, each operation once.
func (c *comparison) books() {
	for _, a := range slices.SortedFunc(maps.Keys(c.want), func(a, b account) int { return strings.Compare(a.name+a.asset, b.name+b.asset) }) {
		if have := c.balances[a]; have != c.want[a] {
			c.odd("account %s: %+v %s, want %+v", a.name, have, a.asset, c.want[a])
		}
	}
	for a, have := range c.balances {
		if _, ok := c.want[a]; !ok {
			c.odd("account %s: %+v %s, want no such account", a.name, have, a.asset)
		}
	}
	for operation, n := range c.operations {
		if n > 1 {
			c.doubled("operation %s: %d transfers", operation, n)
		}
	}
	if c.reserved != len(c.operations) {
		c.odd("%d operations are reserved, %d have transfers", c.reserved, len(c.operations))
	}
}

// deadLetters: every failed event names its letter, and every letter is named.
func (c *comparison) deadLetters(acked map[client.Body]client.Acked) {
	for seq, l := range c.letters {
		if a, ok := acked[l.body]; !ok || a.Event.ID != l.id && !a.Event.Keyless {
			c.lost("letter %d of %s: its bytes are none that were sent for it", seq, l.key)
		}
	}
	for k, r := range c.rows {
		switch r.state {
		case "failed":
			if l, ok := c.letters[r.letter]; !ok {
				c.lost("event %s: %s, its letter %d is not in DLQ", k, r, r.letter)
			} else if l.key != k || l.reason != r.reason {
				c.odd("event %s: %s, its letter %d is of %s %s", k, r, r.letter, l.key, l.reason)
			}
		case "pending", "processing":
			c.lost("event %s: still %s", k, r)
		}
	}
	for _, seq := range c.Unnamed() {
		l := c.letters[seq]
		c.odd("letter %d of %s (%s): no failed event names it, its row is %s with letter %d",
			seq, l.key, l.reason, c.rows[l.key], c.rows[l.key].letter)
	}
}
