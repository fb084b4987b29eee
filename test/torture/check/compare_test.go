package check

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/test/torture/client"
	"github.com/onceledger/onceledger/test/torture/traffic"
)

// right is some traffic, and the state that a system without a fault leaves.
func right(t *testing.T) (*traffic.Stream, map[client.Body]client.Acked, *State) {
	t.Helper()
	stream := traffic.New(5, 100)
	s := &State{
		rows: map[key]row{}, moves: map[int64][]traffic.Move{}, balances: map[account]balance{},
		operations: map[string]int{}, letters: map[uint64]letter{}, stored: map[client.Body]bool{},
	}
	acked := map[client.Body]client.Acked{}
	w := world{t, s, map[*traffic.Purse]int{}, map[string]int{}}
	for n := 0; ; n++ {
		if n == 5000 {
			stream.Finish()
		}
		d, ok := stream.Next()
		if !ok {
			break
		}
		if d.Event.Forged {
			continue
		}
		body := client.BodyOf(d.Event.Source, d.Body())
		a := acked[body]
		a.Event, a.Content, a.Hash, a.Acks, a.Tries = d.Event, d.Content, sha256.Sum256(d.Body()), a.Acks+1, a.Tries+1
		acked[body], s.stored[body] = a, true
		w.deliver(d)
	}
	s.reserved = len(s.operations)
	return stream, acked, s
}

// world applies deliveries as they must be.
type world struct {
	t      *testing.T
	s      *State
	spent  map[*traffic.Purse]int
	stands map[string]int // by event: which content
}

func (w world) deliver(d traffic.Delivery) {
	e := d.Event
	k := key{source: e.Source, id: e.ID}
	if e.Keyless {
		k.id = "generated/" + string(rune('a'+len(w.s.rows)))
	}
	stands, known := w.stands[e.String()]
	switch {
	case e.Keyless, !known:
		w.stands[e.String()] = d.Content
		w.decide(k, d)
	case stands != d.Content:
		k.variant = fmt.Sprintf("conflict:%x", sha256.Sum256(d.Body()))
		w.s.rows[k] = w.parked(k, d, "id_conflict")
	}
}

func (w world) decide(k key, d traffic.Delivery) {
	e := d.Event
	applied := row{no: int64(len(w.s.rows)), state: "completed", outcome: "applied"}
	switch {
	case e.Fate == traffic.Ignored:
		applied.outcome = "ignored"
	case e.Fate == traffic.TestMode:
		applied.outcome, applied.reason = "ignored", "mode_mismatch"
	case e.Fate == traffic.Refused, e.Fate == traffic.Spend && w.spent[e.Purse] == e.Purse.Room:
		applied = w.parked(k, d, e.Reason)
	case e.Twin != nil && w.s.rows[key{source: e.Source, id: e.Twin.ID}].state != "":
		applied.outcome = "duplicate_operation"
	default:
		if e.Purse != nil {
			w.spent[e.Purse]++
		}
		for i, m := range e.Contents[d.Content].Moves {
			w.s.moves[applied.no] = append(w.s.moves[applied.no], m)
			w.s.operations[k.String()+string(rune('0'+i))]++
			debit, credit := account{m.Debit, m.Asset}, account{m.Credit, m.Asset}
			b := w.s.balances[debit]
			b.debits += m.Amount
			w.s.balances[debit] = b
			b = w.s.balances[credit]
			b.credits += m.Amount
			w.s.balances[credit] = b
		}
	}
	applied.hash = sha256.Sum256(d.Body())
	w.s.rows[k] = applied
}

func (w world) parked(k key, d traffic.Delivery, reason string) row {
	if r, there := w.s.rows[k]; there {
		return r
	}
	seq := uint64(len(w.s.letters) + 1)
	w.s.letters[seq] = letter{k, reason, client.BodyOf(k.source, d.Body())}
	return row{no: int64(len(w.s.rows)), state: "failed", reason: reason, letter: seq, hash: sha256.Sum256(d.Body())}
}

func TestRightIsClean(t *testing.T) {
	v := Compare(right(t))
	require.Empty(t, slices.Concat(v.Lost, v.Doubled, v.Unexplained))
	require.Greater(t, v.Outcomes["completed applied"], 1000)
}

// Each thing that can go wrong is found, alone.
func TestEachFaultIsFound(t *testing.T) {
	first := func(s *State, test func(key, row) bool) (key, row) {
		keys := slices.SortedFunc(maps.Keys(s.rows), func(a, b key) int { return int(s.rows[a].no - s.rows[b].no) })
		for _, k := range keys {
			if test(k, s.rows[k]) {
				return k, s.rows[k]
			}
		}
		t.Fatal("no such row")
		return key{}, row{}
	}
	applied := func(_ key, r row) bool { return r.outcome == "applied" }
	failed := func(_ key, r row) bool { return r.state == "failed" }
	for name, breaks := range map[string]func(*State){
		"an event is gone":     func(s *State) { k, _ := first(s, applied); delete(s.rows, k) },
		"an event waits":       func(s *State) { k, r := first(s, applied); r.state, r.outcome = "pending", ""; s.rows[k] = r },
		"its money is gone":    func(s *State) { _, r := first(s, applied); delete(s.moves, r.no) },
		"its money came twice": func(s *State) { _, r := first(s, applied); s.moves[r.no] = append(s.moves[r.no], s.moves[r.no]...) },
		"a balance is off": func(s *State) {
			a := slices.Collect(maps.Keys(s.balances))[0]
			b := s.balances[a]
			b.debits++
			s.balances[a] = b
		},
		"an account too many":   func(s *State) { s.balances[account{"x", "EUR"}] = balance{1, 0} },
		"an operation twice":    func(s *State) { s.operations[slices.Collect(maps.Keys(s.operations))[0]]++ },
		"an operation too many": func(s *State) { s.reserved++ },
		"a letter is gone":      func(s *State) { _, r := first(s, failed); delete(s.letters, r.letter) },
		"a letter too many": func(s *State) {
			k, r := first(s, failed)
			s.letters[9999] = letter{k, r.reason, s.letters[r.letter].body}
		},
		"a letter of another": func(s *State) {
			_, r := first(s, failed)
			s.letters[r.letter] = letter{key{"x", "y", ""}, r.reason, s.letters[r.letter].body}
		},
		"a letter with other bytes": func(s *State) {
			_, r := first(s, failed)
			l := s.letters[r.letter]
			l.body = client.BodyOf("stripe", []byte("x"))
			s.letters[r.letter] = l
		},
		"the loser is parked as what stands": func(s *State) {
			k, r := first(s, func(k key, _ row) bool { return k.variant != "" })
			r.hash = s.rows[key{source: k.source, id: k.id}].hash
			s.rows[k] = r
		},
		"the other money stands": func(s *State) {
			k, _ := first(s, func(k key, _ row) bool { return k.variant != "" })
			no := s.rows[key{source: k.source, id: k.id}].no
			s.moves[no][0].Amount++
		},
		"another reason": func(s *State) { k, r := first(s, failed); r.reason = "crash_budget"; s.rows[k] = r },
		"a conflict is not told": func(s *State) {
			k, _ := first(s, func(k key, _ row) bool { return k.variant != "" })
			delete(s.rows, k)
		},
		"a body is not stored": func(s *State) { delete(s.stored, slices.Collect(maps.Keys(s.stored))[0]) },
		"a stranger's event":   func(s *State) { s.rows[key{"stripe", "evt_x", ""}] = row{state: "completed", outcome: "ignored"} },
		"both twins are applied": func(s *State) {
			k, r := first(s, func(_ key, r row) bool { return r.outcome == "duplicate_operation" })
			r.outcome = "applied"
			s.rows[k] = r
		},
		"a spend too many": func(s *State) {
			k, r := first(s, func(_ key, r row) bool { return r.reason == "insufficient_funds" })
			delete(s.letters, r.letter)
			r.state, r.outcome, r.reason, r.letter = "completed", "applied", "", 0
			s.rows[k] = r
		},
		"a keyless one is gone": func(s *State) {
			k, r := first(s, func(_ key, r row) bool { return r.reason == "bad_json" })
			delete(s.rows, k)
			delete(s.letters, r.letter)
		},
	} {
		t.Run(name, func(t *testing.T) {
			stream, acked, state := right(t)
			breaks(state)
			require.False(t, Compare(stream, acked, state).Clean())
		})
	}
}

// Before letters are sent again, what they could heal is found.
func TestEarlyFindsWhatARedriveHeals(t *testing.T) {
	stream, acked, state := right(t)
	require.Empty(t, Early(stream, acked, state))
	var k key
	for each, r := range state.rows {
		if r.reason == "unmatched" {
			k = each
		}
	}
	r := state.rows[k]
	delete(state.rows, k)
	require.GreaterOrEqual(t, len(Early(stream, acked, state)), 2, "no row for each body that was accepted, and none for its letter")
	r.reason = "currency_unknown"
	state.rows[k] = r
	require.Len(t, Early(stream, acked, state), 1, "parked for another reason than its own")
	r.reason = "crash_budget"
	state.rows[k] = r
	require.Empty(t, Early(stream, acked, state))
}
