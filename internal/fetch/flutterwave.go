package fetch

import (
	"strings"

	"github.com/onceledger/onceledger/pkg/envelope"
)

// flutterwave is Flutterwave v3: its notice carries the payment, which anybody who
// has seen one could have written, so that it is asked for again. The body is what
// the API answers, with the payment under data. Read:
// developer.flutterwave.com/docs/transaction-verification.
type flutterwave struct{}

// The kinds of notices.
const (
	flutterwaveCharge   = "charge"
	flutterwaveTransfer = "transfer"
)

// Ask implements Fetcher.
func (flutterwave) Ask(hint *envelope.Event) (Ask, error) {
	notice, err := read(hint.Data)
	if err != nil {
		return Ask{}, err
	}
	kind, _, _ := strings.Cut(notice.text("event"), ".")
	if kind != flutterwaveCharge && kind != flutterwaveTransfer {
		return Ask{}, ErrKind
	}
	id, err := word("data.id of the notice", notice.text("data", "id"))
	switch {
	case err != nil:
		return Ask{}, err
	case kind == flutterwaveTransfer:
		return Ask{Path: "/v3/transfers/" + escape(id), object: id, kind: kind}, nil
	}
	return Ask{Path: "/v3/transactions/" + escape(id) + "/verify", object: id, kind: kind}, nil
}

// Facts implements Fetcher.
func (flutterwave) Facts(_ *envelope.Event, ask Ask, answer []byte) ([]Fact, error) {
	got, err := read(answer)
	if err != nil {
		return nil, err
	}
	if got.text("status") != "success" {
		return nil, refuse("the answer is not status success")
	}
	if err := same(got.text("data", "id"), ask.object); err != nil {
		return nil, err
	}
	status := strings.ToLower(got.text("data", "status"))
	var f gather
	f.add(got, ask.kind+"."+status, got.instant("data", "created_at"), ask.kind, ask.object, status)
	return f.facts, f.err
}
