package traffic

import (
	"bytes"
	"container/heap"
	"fmt"
	"strings"
)

// began is when events happened, in unix seconds.
const began = 1_764_374_400

// customers is how many there are; one of them is in every tenth event, so that
// workers meet at an account.
const customers = 2000

// The money is in currencies of 0, 2 and 3 decimals.
var currencies = []struct {
	code     string
	decimals int
}{{"USD", 2}, {"USD", 2}, {"EUR", 2}, {"JPY", 0}, {"KWD", 3}}

// shares is what traffic consists of: each line's weight, out of all weights.
var shares = []struct {
	weight int
	write  func(*Stream)
}{
	{420, func(s *Stream) { s.emit(0, s.charge()) }},
	{250, func(s *Stream) { s.emit(0, s.order()) }},
	{90, (*Stream).refunded},
	{40, (*Stream).twins},
	{30, (*Stream).rivals},
	{30, func(s *Stream) { s.emit(0, s.unmatched()) }},
	{12, func(s *Stream) { s.emit(0, s.testCharge()) }},
	{12, (*Stream).purse},
	{30, func(s *Stream) { s.emit(0, s.refused()) }},
	{4, func(s *Stream) { s.emit(0, s.keyless()) }},
	{12, func(s *Stream) { s.emit(0, s.forged()) }},
}

func (s *Stream) id(kind string) string {
	s.ids++
	return fmt.Sprintf("%s_%d%04x", kind, s.ids, s.rng.Uint32()&0xffff)
}

func (s *Stream) customer() string {
	n := 0
	if s.rng.IntN(10) > 0 {
		n = s.rng.IntN(customers)
	}
	return fmt.Sprintf("c%04d", n)
}

func (s *Stream) amount() int64 { return 1 + s.rng.Int64N(5_000_000) }

func (s *Stream) stripeBody(id, kind string, thing object) object {
	return object{
		{"id", text(id)}, {"object", text("event")}, {"api_version", text("2025-10-29.clover")},
		{"created", number(began + int64(s.ids))}, {"type", text(kind)}, {"livemode", "true"}, {"pending_webhooks", "1"},
		{"data", object{{"object", thing}}},
	}
}

func (s *Stream) charge() *Event {
	c := currencies[s.rng.IntN(len(currencies))]
	return s.chargeOf(s.id("ch"), s.customer(), c.code, s.amount())
}

func (s *Stream) chargeOf(charge, customer, currency string, amount int64) *Event {
	e := &Event{Source: Stripe, ID: s.id("evt")}
	e.Contents = []Content{{
		JSON: s.stripeBody(e.ID, "charge.succeeded", object{
			{"id", text(charge)}, {"object", text("charge")}, {"amount", number(amount)},
			{"currency", text(strings.ToLower(currency))}, {"customer", text(customer)}, {"status", text("succeeded")},
		}),
		Moves: []Move{{"stripe:receivable", "wallet:" + customer, currency, amount}},
	}}
	return e
}

// refunded is a charge and a refund that names it as its parent, in any order.
func (s *Stream) refunded() {
	charge, customer, c, amount := s.id("ch"), s.customer(), currencies[s.rng.IntN(len(currencies))], s.amount()
	s.emit(s.later(200), s.chargeOf(charge, customer, c.code, amount))
	e := &Event{Source: Stripe, ID: s.id("evt")}
	e.Contents = []Content{{
		JSON: s.stripeBody(e.ID, "refund.created", object{
			{"id", text(s.id("re"))}, {"object", text("refund")}, {"charge", text(charge)}, {"amount", number(amount)},
			{"currency", text(strings.ToLower(c.code))}, {"metadata", object{{"customer", text(customer)}}},
		}),
		Moves: []Move{{"wallet:" + customer, "stripe:receivable", c.code, amount}},
	}}
	s.emit(s.later(200), e)
}

func (s *Stream) order() *Event {
	c := currencies[s.rng.IntN(len(currencies))]
	return s.orderOf(s.customer(), c.code, c.decimals, s.amount(), s.rng.Int64N(100))
}

// orderOf is a paid order, which earns points as well; sometimes none.
func (s *Stream) orderOf(customer, currency string, decimals int, amount, points int64) *Event {
	e := &Event{Source: Orders, ID: s.id("msg")}
	e.Contents = []Content{{
		JSON:  s.orderBody("order.paid", customer, major(amount, decimals), currency, points),
		Moves: []Move{{"orders:receivable", "wallet:" + customer, currency, amount}},
	}}
	if points > 0 {
		e.Contents[0].Moves = append(e.Contents[0].Moves, Move{"loyalty:issued", "points:" + customer, "POINTS", points})
	}
	return e
}

func (s *Stream) orderBody(kind, customer, total, currency string, points int64) object {
	return object{
		{"type", text(kind)}, {"timestamp", text("2025-11-29T00:00:00Z")},
		{"data", object{
			{"id", text(s.id("ord"))}, {"customer_id", text(customer)}, {"total", total},
			{"currency", text(currency)}, {"points", number(points)}, {"note", text("Grüße, 日本")},
		}},
	}
}

// major writes minor units with their decimals.
func major(amount int64, decimals int) string {
	digits := fmt.Sprintf("%0*d", decimals+1, amount)
	if decimals == 0 {
		return digits
	}
	return digits[:len(digits)-decimals] + "." + digits[len(digits)-decimals:]
}

// twins are two events that report one charge.
func (s *Stream) twins() {
	charge, customer, amount := s.id("ch"), s.customer(), s.amount()
	a, b := s.chargeOf(charge, customer, "EUR", amount), s.chargeOf(charge, customer, "EUR", amount)
	a.Twin, b.Twin = b, a
	s.emit(0, a)
	s.emit(s.later(50), b)
}

// rivals is an event that arrives with two contents: the same payment, with
// another amount.
func (s *Stream) rivals() {
	customer, amount := s.customer(), s.amount()
	e, name, value := s.chargeOf(s.id("ch"), customer, "USD", amount), "amount", number(amount+1)
	if s.rng.IntN(2) == 0 {
		e, name, value = s.orderOf(customer, "KWD", 3, amount, 1), "total", major(amount+1, 3)
	}
	second := Content{JSON: e.Contents[0].JSON.with(name, value), Moves: append([]Move(nil), e.Contents[0].Moves...)}
	second.Moves[0].Amount++
	e.Contents = append(e.Contents, second)
	s.emit(0, e)
}

func (s *Stream) unmatched() *Event {
	e := &Event{Source: Stripe, ID: s.id("evt"), Fate: Ignored}
	e.Contents = []Content{{JSON: s.stripeBody(e.ID, "customer.updated", object{{"id", text(s.customer())}})}}
	return e
}

// testCharge is what a provider's test button sends.
func (s *Stream) testCharge() *Event {
	e := s.charge()
	e.Contents = []Content{{JSON: e.Contents[0].JSON.with("livemode", "false")}}
	e.ID, e.Fate = "test/"+e.ID, TestMode
	return e
}

// purse is an account with room for some spends, and more spends than that.
func (s *Stream) purse() {
	name, price := s.id("purse"), 1+s.rng.Int64N(1000)
	p := &Purse{Name: "purse:" + name, Room: 1 + s.rng.IntN(5)}
	fund := &Event{Source: Orders, ID: s.id("msg")}
	amount := price * int64(p.Room)
	fund.Contents = []Content{{
		JSON:  s.orderBody("purse.filled", name, number(amount), "GEMS", 0),
		Moves: []Move{{"orders:receivable", p.Name, "GEMS", amount}},
	}}
	s.emit(s.later(20), fund)
	for range p.Room + 1 + s.rng.IntN(4) {
		e := &Event{Source: Orders, ID: s.id("msg"), Fate: Spend, Reason: "insufficient_funds", Purse: p}
		e.Contents = []Content{{
			JSON:  s.orderBody("purse.spent", name, number(price), "GEMS", 0),
			Moves: []Move{{p.Name, "shop:sales", "GEMS", price}},
		}}
		p.Spends = append(p.Spends, e)
		s.emit(s.later(50), e)
	}
}

// refused is a verified event that cannot be applied.
func (s *Stream) refused() *Event {
	e := s.charge()
	e.Fate = Refused
	whole := e.Contents[0].JSON
	e.Contents[0].Moves = nil
	switch s.rng.IntN(5) {
	case 0:
		e.Reason, e.Contents[0].JSON = "currency_unknown", whole.with("currency", text("zzz"))
	case 1:
		e.Reason, e.Contents[0].JSON = "amount_missing", whole.without("amount")
	case 2:
		e.Reason, e.Contents[0].JSON = "no_operation", s.chargeOf("", s.customer(), "EUR", 100).Contents[0].JSON.with("id", text(e.ID))
		e.Contents[0].JSON = s.stripeBody(e.ID, "charge.succeeded", object{
			{"id", text("")}, {"amount", number(100)}, {"currency", text("eur")}, {"customer", text(s.customer())},
		})
	case 3:
		e.Reason, e.Contents[0].JSON = "amount_overflow", whole.with("amount", "99999999999999999999")
	default:
		e.Source, e.ID, e.Reason = Orders, s.id("msg"), "unmatched"
		e.Contents[0].JSON = s.orderBody("order.unheard_of", s.customer(), "1.00", "EUR", 0)
	}
	return e
}

// keyless is a signed request without a readable id.
func (s *Stream) keyless() *Event {
	e := s.charge()
	whole := e.Contents[0].JSON.form(0)
	e.Fate, e.Keyless, e.Contents[0].Moves = Refused, true, nil
	switch s.rng.IntN(3) {
	case 0:
		e.Reason, e.Contents[0].Raw = "bad_json", whole[:len(whole)-20]
	case 1:
		e.Reason, e.Contents[0].Raw = "ambiguous_json", bytes.Replace(whole, []byte(`"amount":`), []byte(`"amount":1,"amount":`), 1)
	default:
		e.Reason, e.Contents[0].Raw = "no_event_id", e.Contents[0].JSON[1:].form(0)
	}
	return e
}

// forged is signed with a secret that nobody has.
func (s *Stream) forged() *Event {
	e := s.charge()
	e.Forged, e.Contents[0].Moves = true, nil
	return e
}

// Deadly adds an event that kills whoever judges it.
func (s *Stream) Deadly() {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Nothing of it is drawn: it comes at a moment of its own, and the rest of the
	// traffic must not depend on that.
	s.deadly++
	e := &Event{Source: Orders, ID: fmt.Sprintf("msg_deadly_%d", s.deadly), Deadly: true}
	e.Contents = []Content{{
		JSON: object{
			{"type", text("order.paid")}, {"timestamp", text("2025-11-29T00:00:00Z")},
			{"data", object{{"id", text(fmt.Sprintf("ord_deadly_%d", s.deadly))}, {"customer_id", text("deadly")},
				{"total", "1.00"}, {"currency", text("EUR")}, {"points", "0"}}},
		},
		Moves: []Move{{"orders:receivable", "wallet:deadly", "EUR", 100}},
	}}
	s.Events = append(s.Events, e)
	heap.Push(&s.due, due{Delivery{Event: e}, s.position, 0})
}
