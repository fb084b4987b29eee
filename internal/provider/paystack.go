package provider

import (
	"bytes"
	"context"
	"crypto/sha512"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/config"
)

// paystack has no event id: an event is known by its name, its object and the
// object's status. Read: verifying-transaction of PaystackOSS/doc-code-snippets,
// which signs the body with SHA-512, and verifying-signature there, which signs
// "t.body" and names the key.
var paystack = preset{
	name:   "paystack",
	signed: "HMAC-SHA512, hex, header X-Paystack-Signature, over the body, or (v1=) over time.body",
	secret: "the account's secret key, sk_…, or the key of a webhook",
	scheme: paystackScheme,
	id: []string{
		"body:event", "body:data.id,data.reference,data.transfer_code,data.subscription_code,data.invoice_code,data.request_code",
		"body:data.status?",
	},
	typ:         []string{"body:event"},
	live:        "body:data.domain",
	occurred:    "body:data.paid_at,data.updated_at,data.updatedAt,data.created_at,data.createdAt",
	fingerprint: []string{"event", "data.id", "data.domain", "data.status", "data.reference", "data.amount", "data.currency"},
	sample: `{"event":"charge.success","data":{"id":{number},"domain":"live","status":"success","reference":"{id}","amount":10000,` +
		`"currency":"NGN","paid_at":"2024-01-01T00:00:00.000Z"}}`,
	amount:   []string{"data.amount"},
	currency: []string{"data.currency"},
}

// paystackScheme tells the two forms of the header apart by what it has: hex alone,
// or parts with names. What one form signs is never taken for the other: "t.body"
// is no JSON object, and a body never reads so.
func paystackScheme(src config.Source, f *faults) scheme {
	stamped := paystackStamped.scheme(src, f)
	src.Tolerance = 0 // no time is signed there
	return &paystackForms{paystackPlain.scheme(src, &faults{src: src}), stamped}
}

const paystackHeader = "X-Paystack-Signature"

var (
	paystackPlain   = mac{header: paystackHeader, hash: sha512.New}
	paystackStamped = mac{
		header: paystackHeader, hash: sha512.New, separator: ",", timePart: "t=", prefix: "v1=", named: true,
		content: mustTemplate("{timestamp}.{body}"), clock: clock{tolerance: tolerance},
	}
)

type paystackForms struct{ plain, stamped scheme }

func (f *paystackForms) verify(ctx context.Context, req Request, now time.Time) error {
	if strings.Contains(req.Header.Get(paystackHeader), "=") {
		return f.stamped.verify(ctx, req, now)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(req.Body), []byte("{")) {
		return refuse("the body is no JSON object: it may be the text that another form of the signature covers")
	}
	return f.plain.verify(ctx, req, now)
}

func (f *paystackForms) sign(req *Request, id string, now time.Time) error {
	return f.stamped.sign(req, id, now)
}

func (f *paystackForms) limit() time.Duration { return f.stamped.limit() }
