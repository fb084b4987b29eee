package fetch

import (
	"net/url"
	"strings"

	"github.com/onceledger/onceledger/pkg/envelope"
)

// mollie is Mollie's classic webhook: a form with the id of a payment, the same
// for every change of it, its refunds and its chargebacks. Each of them is a fact
// of its own, named and typed as in Mollie's newer events: payment.paid,
// refund.refunded, chargeback.received. The body is that payment, refund or
// chargeback. Read: docs.mollie.com/reference/webhooks, /reference/get-payment.
type mollie struct{}

// Ask implements Fetcher.
func (mollie) Ask(hint *envelope.Event) (Ask, error) {
	form, err := url.ParseQuery(string(hint.Data))
	if err != nil || len(form["id"]) != 1 {
		return Ask{}, refuse("the notice is no form with one id")
	}
	id, err := word("the id of the notice", form.Get("id"))
	switch {
	case err != nil:
		return Ask{}, err
	case !strings.HasPrefix(id, "tr_"):
		return Ask{}, ErrKind // orders, subscriptions: their payments have notices of their own
	}
	return Ask{Path: "/v2/payments/" + escape(id) + "?embed=refunds,chargebacks", object: id}, nil
}

// Facts implements Fetcher.
func (mollie) Facts(_ *envelope.Event, ask Ask, answer []byte) ([]Fact, error) {
	payment, err := read(answer)
	if err != nil {
		return nil, err
	}
	if err := same(payment.text("id"), ask.object); err != nil {
		return nil, err
	}
	f := gather{mode: payment.text("mode")}
	status := payment.text("status")
	f.add(payment, "payment."+status, payment.instant(status+"At"), ask.object, status) // paidAt, canceledAt …
	for _, refund := range payment.list("_embedded", "refunds") {
		status := refund.text("status")
		f.add(refund, "refund."+status, refund.instant("createdAt"), ask.object, refund.text("id"), status)
	}
	for _, chargeback := range payment.list("_embedded", "chargebacks") {
		id := chargeback.text("id")
		f.add(chargeback, "chargeback.received", chargeback.instant("createdAt"), ask.object, id, "received")
		if chargeback.has("reversedAt") {
			f.add(chargeback, "chargeback.reversed", chargeback.instant("reversedAt"), ask.object, id, "reversed")
		}
	}
	return f.facts, f.err
}
