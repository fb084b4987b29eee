package demo

import "bytes"

// faults adds one event of each kind that cannot be applied. Each must be
// parked with its own reason, and none may hold up its neighbours.
func (w *writer) faults() {
	for _, fault := range []struct{ reason, member, value string }{
		{"amount_format", "amount", `"12.50"`},
		{"amount_format", "amount", `-100`},
		{"amount_missing", "amount", `null`},
		{"amount_overflow", "amount", `9223372036854775808`},
		{"currency_unknown", "currency", `"xyz"`},
		{"rule_error", "customer", `null`},
		{"unstorable_text", "customer", `"c\u0000"`},
	} {
		e := w.charge()
		w.fault(e, fault.reason, content{json: e.contents[0].json.with(fault.member, fault.value)})
	}
	for _, fault := range []struct{ reason, total string }{
		{"amount_precision", `"1.2345"`},
		{"amount_format", `"1,234.56"`},
	} {
		body := w.orderBody("order.paid", text(w.customer()), fault.total, text("EUR"), 1)
		w.fault(&event{source: orders, id: w.id("msg")}, fault.reason, content{json: body})
	}
	body := w.orderBody("order.vanished", text(w.customer()), text("1.00"), text("EUR"), 1)
	w.fault(&event{source: orders, id: w.id("msg")}, "unmatched", content{json: body})
	w.fault(w.chargeOf("", w.customer(), currencies[0], 100), "no_operation", content{})

	w.keyless()
}

// fault adds e, to be parked; without a content it keeps its own.
func (w *writer) fault(e *event, reason string, c content) {
	if c.json == nil && c.body == nil {
		c = content{json: e.contents[0].json}
	}
	e.contents, e.want, e.rewritable = []content{c}, parked(reason), false
	w.add(e)
}

// keyless adds requests that are signed and have no readable id.
func (w *writer) keyless() {
	whole := func() []byte { return w.charge().contents[0].bytes() }
	for _, fault := range []struct {
		source, reason string
		body           []byte
	}{
		{stripe, "bad_json", whole()[:100]},
		{orders, "bad_json", []byte("payload=%7B%22type%22%3A%22order.paid%22%7D")},
		{stripe, "ambiguous_json", bytes.Replace(whole(), []byte(`"amount":`), []byte(`"amount":1,"amount":`), 1)},
		{stripe, "no_event_id", w.charge().contents[0].json[1:].write()},
	} {
		e := &event{source: fault.source, id: w.id("msg"), keyless: true}
		w.fault(e, fault.reason, content{body: fault.body})
	}
}
