package demo

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The sources of the demo's configuration.
const (
	stripe = "stripe"
	orders = "orders"
)

// size is how much a plan holds. Every other number is a share of these.
type size struct {
	events, deliveries int
}

// full is what the command runs.
var full = size{events: 15_000, deliveries: 20_000}

// plan is the whole traffic of one run, and what has to come of it. It depends
// on the seed alone.
type plan struct {
	events     []*event
	deliveries []delivery
	customers  int
}

// event is one event of a provider, by its id, with what must become of it.
// What that is was known before a byte of JSON was written.
type event struct {
	source, id string
	// want is the row it must leave; the zero value: one without a key.
	want row
	// contents is what stands under the id. Of two, with different amounts,
	// either may be applied, and exactly one.
	contents []content
	// twin is another event that reports the same payment: one of them is
	// applied and the other one is a duplicate_operation.
	twin *event
	// keyless says that no id can be found: every delivery is parked by itself.
	keyless bool
	// rewritable says that it may be sent again in other bytes.
	rewritable bool
}

// content is a body, with the money it moves if it is applied.
type content struct {
	json  object
	body  []byte // what is sent, in place of json, where that is not JSON
	moves []move
}

// bytes is the body as it is sent first.
func (c content) bytes() []byte {
	if c.body != nil {
		return c.body
	}
	return c.json.write()
}

// move is one transfer: from debit to credit, in minor units.
type move struct {
	debit, credit, asset string
	amount               int64
}

// row is what the ledger says of an event.
type row struct {
	state, outcome, reason string
}

// String is the row as differences name it: "completed applied".
func (r row) String() string {
	return strings.Join(strings.Fields(r.state+" "+r.outcome+" "+r.reason), " ")
}

// What can become of an event.
var (
	applied   = row{"completed", "applied", ""}
	unmatched = row{"completed", "ignored", "unmatched"}
	noMoney   = row{"completed", "ignored", "no_transfers"}
	testMode  = row{"completed", "ignored", "mode_mismatch"}
	sameMoney = row{"completed", "duplicate_operation", ""}
	conflict  = row{"failed", "", "id_conflict"}
)

func parked(reason string) row { return row{"failed", "", reason} }

// delivery is one request.
type delivery struct {
	event *event
	body  []byte
	// forged is a body that the signature does not cover.
	forged bool
}

// newPlan makes the traffic of a seed.
func newPlan(seed uint64, n size) *plan {
	rng := rand.New(rand.NewPCG(seed, 0x6f6e6365)) //nolint:gosec // a plan has to be repeatable, not secret
	p := &plan{customers: max(n.events/12, 3)}
	w := &writer{plan: p, rng: rng, events: n.events}
	w.write()

	for _, e := range p.events {
		for _, c := range e.contents {
			p.deliveries = append(p.deliveries, delivery{event: e, body: c.bytes()})
		}
	}
	for range n.events / 75 {
		p.deliveries = append(p.deliveries, w.forge())
	}
	for len(p.deliveries) < n.deliveries {
		p.deliveries = append(p.deliveries, w.resend())
	}
	rng.Shuffle(len(p.deliveries), func(i, j int) {
		p.deliveries[i], p.deliveries[j] = p.deliveries[j], p.deliveries[i]
	})
	return p
}

// forge is somebody else's request: an event that was really sent, with more
// money in it and the old signature.
func (w *writer) forge() delivery {
	for {
		if e := w.any(); e.rewritable {
			return delivery{event: e, body: e.contents[0].json.rewrite(w.rng), forged: true}
		}
	}
}

// resend is an event that was sent already: byte for byte, or, every other time,
// with other bytes and the same meaning.
func (w *writer) resend() delivery {
	for {
		e := w.any()
		c := e.contents[w.rng.IntN(len(e.contents))]
		switch {
		case e.keyless:
		case e.rewritable && w.rng.IntN(2) == 0:
			return delivery{event: e, body: c.json.rewrite(w.rng)}
		default:
			return delivery{event: e, body: c.bytes()}
		}
	}
}

func (w *writer) any() *event { return w.plan.events[w.rng.IntN(len(w.plan.events))] }

// id is a new id with this prefix; ids are as long as the providers' own.
func (w *writer) id(prefix string) string {
	w.ids++
	return fmt.Sprintf("%s_1P%06d%010x", prefix, w.ids, w.rng.Uint64N(1<<40))
}
