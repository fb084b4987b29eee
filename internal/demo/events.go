package demo

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// began is when the events of a plan happened, in unix seconds.
const began = 1_764_374_400

// writer writes the events of a plan.
type writer struct {
	plan   *plan
	rng    *rand.Rand
	events int // how many there are to be
	ids    int
}

// write fills the plan: what is special in fixed shares, and payments for the
// rest.
func (w *writer) write() {
	share := func(of int) int { return max(w.events/of, 1) }
	for range share(150) {
		w.twins()
		w.rivals()
		w.testCharge()
	}
	for range share(75) {
		w.add(w.unmatchedStripe())
		w.add(w.orderCreated())
	}
	for range share(500) {
		w.faults()
	}
	for len(w.plan.events) < w.events {
		switch n := w.rng.IntN(20); {
		case n < 9:
			w.add(w.charge())
		case n < 11:
			w.add(w.refund())
		default:
			w.add(w.order())
		}
	}
}

func (w *writer) add(e *event) { w.plan.events = append(w.plan.events, e) }

// customer is anybody; one of them buys more than the others, so that workers
// meet at an account.
func (w *writer) customer() string {
	n := 0
	if w.rng.IntN(10) > 0 {
		n = w.rng.IntN(w.plan.customers)
	}
	return fmt.Sprintf("c%05d", n)
}

// currency is an asset with its number of decimals.
type currency struct {
	code     string
	decimals int
}

var currencies = []currency{{"USD", 2}, {"USD", 2}, {"EUR", 2}, {"JPY", 0}, {"KWD", 3}}

func (w *writer) currency() currency { return currencies[w.rng.IntN(len(currencies))] }

func (w *writer) amount() int64 { return 1 + w.rng.Int64N(5_000_000) }

// major writes an amount of minor units with its decimals.
func major(amount int64, decimals int) string {
	digits := fmt.Sprintf("%0*d", decimals+1, amount)
	if decimals == 0 {
		return digits
	}
	return digits[:len(digits)-decimals] + "." + digits[len(digits)-decimals:]
}

// stripeBody is an event as Stripe sends it.
func (w *writer) stripeBody(id, kind string, live string, thing object) object {
	return object{
		{"id", text(id)},
		{"object", text("event")},
		{"api_version", text("2025-10-29.clover")},
		{"created", number(began + int64(w.ids))},
		{"type", text(kind)},
		{"livemode", live},
		{"pending_webhooks", "1"},
		{"request", object{{"id", "null"}, {"idempotency_key", "null"}}},
		{"data", object{{"object", thing}}},
	}
}

// charge is a payment of a customer.
func (w *writer) charge() *event {
	return w.chargeOf(w.id("ch"), w.customer(), w.currency(), w.amount())
}

func (w *writer) chargeOf(charge, customer string, c currency, amount int64) *event {
	e := &event{source: stripe, id: w.id("evt"), want: applied, rewritable: true}
	e.contents = []content{{
		json: w.stripeBody(e.id, "charge.succeeded", "true", object{
			{"id", text(charge)},
			{"object", text("charge")},
			{"amount", number(amount)},
			{"currency", text(strings.ToLower(c.code))},
			{"customer", text(customer)},
			{"status", text("succeeded")},
		}),
		moves: []move{{"stripe:receivable", "wallet:" + customer, c.code, amount}},
	}}
	return e
}

func (w *writer) refund() *event {
	customer, c, amount := w.customer(), w.currency(), w.amount()
	e := &event{source: stripe, id: w.id("evt"), want: applied, rewritable: true}
	e.contents = []content{{
		json: w.stripeBody(e.id, "refund.created", "true", object{
			{"id", text(w.id("re"))},
			{"object", text("refund")},
			{"amount", number(amount)},
			{"currency", text(strings.ToLower(c.code))},
			{"metadata", object{{"customer", text(customer)}}},
		}),
		moves: []move{{"wallet:" + customer, "stripe:receivable", c.code, amount}},
	}}
	return e
}

// order is a paid order, which earns points as well; sometimes none.
func (w *writer) order() *event {
	return w.orderOf(w.customer(), w.currency(), w.amount(), w.rng.Int64N(100))
}

func (w *writer) orderOf(customer string, c currency, amount, points int64) *event {
	e := &event{source: orders, id: w.id("msg"), want: applied, rewritable: true}
	e.contents = []content{{
		json:  w.orderBody("order.paid", text(customer), text(major(amount, c.decimals)), text(c.code), points),
		moves: []move{{"orders:receivable", "wallet:" + customer, c.code, amount}},
	}}
	if points > 0 {
		e.contents[0].moves = append(e.contents[0].moves, move{"loyalty:issued", "points:" + customer, "POINTS", points})
	}
	return e
}

func (w *writer) orderBody(kind, customer, total, code string, points int64) object {
	return object{
		{"type", text(kind)},
		{"timestamp", text("2025-11-29T00:00:00Z")},
		{"data", object{
			{"id", text(w.id("ord"))},
			{"customer_id", customer},
			{"total", total},
			{"currency", code},
			{"points", number(points)},
			{"note", text("Grüße, 日本")},
		}},
	}
}

// twins are two events that report one charge.
func (w *writer) twins() {
	charge, customer, c, amount := w.id("ch"), w.customer(), w.currency(), w.amount()
	a, b := w.chargeOf(charge, customer, c, amount), w.chargeOf(charge, customer, c, amount)
	a.twin, b.twin = b, a
	w.add(a)
	w.add(b)
}

// rivals is an event that arrives with two contents: the same payment, with
// another amount.
func (w *writer) rivals() {
	customer, c, amount := w.customer(), w.currency(), w.amount()
	e, member, other := w.chargeOf(w.id("ch"), customer, c, amount), "amount", number(amount+1)
	if w.rng.IntN(2) == 0 {
		e, member, other = w.orderOf(customer, c, amount, 1), "total", text(major(amount+1, c.decimals))
	}
	second := content{
		json:  e.contents[0].json.with(member, other),
		moves: slices.Clone(e.contents[0].moves),
	}
	second.moves[0].amount++
	e.contents = append(e.contents, second)
	e.rewritable = false
	w.add(e)
}

// testCharge is what a provider's test button sends.
func (w *writer) testCharge() {
	e := w.charge()
	e.contents = []content{{json: e.contents[0].json.with("livemode", "false")}}
	e.id, e.want = "test/"+e.id, testMode
	w.add(e)
}

func (w *writer) unmatchedStripe() *event {
	e := &event{source: stripe, id: w.id("evt"), want: unmatched, rewritable: true}
	e.contents = []content{{json: w.stripeBody(e.id, "customer.updated", "true", object{{"id", text(w.customer())}})}}
	return e
}

func (w *writer) orderCreated() *event {
	e := &event{source: orders, id: w.id("msg"), want: noMoney, rewritable: true}
	e.contents = []content{{json: w.orderBody("order.created", text(w.customer()), text("10.00"), text("EUR"), 1)}}
	return e
}

// with returns o with another value for the member of this name, at any depth.
func (o object) with(name, value string) object {
	out := make(object, len(o))
	for i, m := range o {
		if inner, ok := m.value.(object); ok {
			m.value = inner.with(name, value)
		} else if m.name == name {
			m.value = value
		}
		out[i] = m
	}
	return out
}
