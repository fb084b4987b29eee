package fetch

import (
	"strings"

	"github.com/onceledger/onceledger/pkg/envelope"
)

// mercadoPago is Mercado Pago: its notice says which payment changed. That a
// payment was approved is a fact of its own, also once it is refunded, and so is
// each refund. The body is the payment or the refund. Read:
// mercadopago.com/developers, reference/payments/_payments_id/get.
type mercadoPago struct{}

// Ask implements Fetcher.
func (mercadoPago) Ask(hint *envelope.Event) (Ask, error) {
	notice, err := read(hint.Data)
	if err != nil {
		return Ask{}, err
	}
	if typ := notice.text("type"); typ != "payment" {
		return Ask{}, ErrKind
	}
	id, err := word("data.id of the notice", notice.text("data", "id"))
	if err != nil {
		return Ask{}, err
	}
	return Ask{Path: "/v1/payments/" + escape(id), object: id}, nil
}

// Facts implements Fetcher.
func (mercadoPago) Facts(_ *envelope.Event, ask Ask, answer []byte) ([]Fact, error) {
	payment, err := read(answer)
	if err != nil {
		return nil, err
	}
	id := payment.text("id")
	if !strings.EqualFold(id, ask.object) {
		return nil, same(id, ask.object)
	}
	const approved = "approved"
	f := gather{mode: modeOf(payment.flag("live_mode"))}
	status := payment.text("status")
	if status != approved && payment.has("date_approved") {
		f.add(payment, "payment."+approved, payment.instant("date_approved"), id, approved)
	}
	f.add(payment, "payment."+status, payment.instant("date_last_updated"), id, status)
	for _, refund := range payment.list("refunds") {
		status := refund.text("status")
		f.add(refund, "refund."+status, refund.instant("date_created"), id, refund.text("id"), status)
	}
	return f.facts, f.err
}
