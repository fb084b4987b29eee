// Package traffic makes the events that benchmarks send: Stripe charges of a
// given size, each a function of its number alone, so that whoever recounts
// the ledger knows what should be in it.
//
//	charges := traffic.NewCharges("r1", 1024)
//	body := charges.Append(nil, 7) // always the same bytes
package traffic

import (
	"bytes"
	"fmt"
	"strconv"
)

const (
	// Customers is how many accounts the charges are spread over, as evenly as
	// their numbers are; every charge meets one and the same account besides.
	Customers = 10_000

	firstAmount, amounts = 1000, 9000
)

// template is a charge as Stripe sends it, without the members nobody reads.
// The runs of # have the width of what replaces them.
const template = `{"id":"evt_` + idMark + `","object":"event","api_version":"2024-06-20","created":1700000000,` +
	`"data":{"object":{"id":"ch_` + idMark + `","object":"charge","amount":` + amountMark + `,"amount_captured":` + amountMark + `,` +
	`"amount_refunded":0,"balance_transaction":"txn_` + idMark + `","billing_details":{"address":{"city":null,"country":"DE",` +
	`"line1":null,"postal_code":"10115"},"email":"jenny.rosen@example.com","name":"Jenny Rosen","phone":null},` +
	`"captured":true,"created":1700000000,"currency":"eur","customer":"cus_` + customerMark + `","description":"` + paddingMark + `",` +
	`"disputed":false,"livemode":true,"metadata":{"order":"6735"},"outcome":{"network_status":"approved_by_network",` +
	`"risk_level":"normal","type":"authorized"},"paid":true,"payment_method":"card_1","refunded":false,"status":"succeeded"}},` +
	`"livemode":true,"pending_webhooks":1,"request":{"id":"req_1","idempotency_key":null},"type":"charge.succeeded"}`

const (
	idMark       = "##ID##############" // tag and number
	customerMark = "#CUS#"
	amountMark   = "#AM#"
	paddingMark  = "#PADDING#"

	tagWidth    = 8
	numberWidth = len(idMark) - tagWidth
)

// Charges makes charge.succeeded events. It is safe for concurrent use.
type Charges struct {
	tag      string
	body     []byte
	ids      []int
	amounts  []int
	customer int
}

// NewCharges returns charges of size bytes each, or of the smallest possible
// size where that is less. Charges of different tags have different ids; a tag
// has at most eight characters.
func NewCharges(tag string, size int) *Charges {
	if len(tag) > tagWidth {
		panic("tag is longer than 8 characters: " + tag)
	}
	padding := max(size-len(template)+len(paddingMark), 0)
	body := bytes.Replace([]byte(template), []byte(paddingMark), bytes.Repeat([]byte("p"), padding), 1)
	return &Charges{
		tag:      fmt.Sprintf("%0*s", tagWidth, tag),
		body:     body,
		ids:      marks(body, idMark),
		amounts:  marks(body, amountMark),
		customer: bytes.Index(body, []byte(customerMark)),
	}
}

// Append appends the body of charge n to dst.
func (c *Charges) Append(dst []byte, n int) []byte {
	start := len(dst)
	dst = append(dst, c.body...)
	body := dst[start:]
	for _, at := range c.ids {
		copy(body[at:], c.tag)
		digits(body[at+tagWidth:at+len(idMark)], n)
	}
	for _, at := range c.amounts {
		digits(body[at:at+len(amountMark)], int(Amount(n)))
	}
	digits(body[c.customer:c.customer+len(customerMark)], n%Customers)
	return dst
}

// Amount is what charge n moves, in minor units.
func Amount(n int) int64 { return firstAmount + int64(n%amounts) }

// Number returns the number of the charge whose event has this id, whatever its
// tag is, and false where there is none.
func Number(id string) (n int, ok bool) {
	if len(id) < numberWidth {
		return 0, false
	}
	n, err := strconv.Atoi(id[len(id)-numberWidth:])
	return n, err == nil && n >= 0
}

func marks(body []byte, mark string) []int {
	var found []int
	for at := 0; ; {
		i := bytes.Index(body[at:], []byte(mark))
		if i < 0 {
			return found
		}
		found = append(found, at+i)
		at += i + len(mark)
	}
}

// digits fills dst with n in decimal, zeros in front.
func digits(dst []byte, n int) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + n%10)
		n /= 10
	}
}
