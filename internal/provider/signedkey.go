package provider

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/onceledger/onceledger/internal/config"
)

// Providers that sign with a private key of their own; their public keys or
// certificates are under public_keys of the source.

// wise signs the body. Its key is published in its documentation, one for
// production and one for the sandbox. Read: transferwise/digital-signatures-examples;
// that X-Delivery-Id stays the same when a delivery is repeated is not stated, so
// the event is known by its subscription, its object, its state and its time.
var wise = preset{
	name:   "wise",
	signed: "RSA with SHA-256, base64, header X-Signature-SHA256, over the body",
	secret: "none; public_keys has the key that Wise publishes, one for production and one for the sandbox",
	scheme: public{header: "X-Signature-SHA256", content: template{bodyPart}}.scheme,
	uses:   usesKeys,
	id: []string{
		"body:subscription_id", "body:event_type", "body:data.resource.id", "body:data.current_state?",
		"body:data.occurred_at,data.step_id,sent_at",
	},
	typ:      []string{"body:event_type"},
	account:  "body:data.resource.profile_id",
	occurred: "body:data.occurred_at,sent_at",
	keep:     []string{"X-Delivery-Id", "X-Test-Notification"},
	fingerprint: []string{
		"event_type", "data.resource", "data.current_state", "data.previous_state", "data.occurred_at", "data.amount", "data.currency",
		"data.transaction_type",
	},
	sample: `{"data":{"resource":{"id":{number},"profile_id":16055450,"account_id":14124090,"type":"transfer"},"current_state":"processing",` +
		`"previous_state":null,"occurred_at":"2024-01-01T00:00:00Z"},"subscription_id":"01234567-89ab-cdef-0123-456789abcdef",` +
		`"event_type":"transfers#state-change","schema_version":"2.0.0","sent_at":"2024-01-01T00:00:01Z"}`,
}

// sendgrid signs its time and the body to its last line break. Its libraries set
// no limit to the time. Read: sendgrid-go.
var sendgrid = preset{
	name:   "sendgrid",
	signed: "ECDSA with SHA-256, base64, header X-Twilio-Email-Event-Webhook-Signature, over time+body",
	secret: "none; public_keys has the verification key, as it is shown",
	scheme: public{
		header: "X-Twilio-Email-Event-Webhook-Signature", timeHeader: "X-Twilio-Email-Event-Webhook-Timestamp",
		content: mustTemplate("{timestamp}{body}"),
	}.scheme,
	uses:     usesKeys,
	batch:    ".",
	id:       []string{"body:sg_event_id"},
	typ:      []string{"body:event"},
	occurred: "body:timestamp",
	sample:   `[{"email":"a@example.com","timestamp":1700000000,"event":"delivered","sg_event_id":"{id}"}]` + "\r\n",
}

// public verifies a header with public keys.
type public struct {
	header, timeHeader, idHeader string
	content                      template
	clock                        clock

	keys keys
}

func (p public) scheme(src config.Source, f *faults) scheme {
	var others []string
	p.keys, others = publicKeys(src, f)
	if len(others) > 0 {
		f.add(src.Pos, "secrets", "is no private key; this provider signs with one of its own, whose public key stands under public_keys")
	}
	p.configure(src, f)
	return &p
}

func (p *public) configure(src config.Source, f *faults) {
	if len(p.keys.publics) == 0 {
		f.add(src.Pos, "public_keys", "at least one is needed: what the provider publishes to verify its signatures")
	}
	p.header, p.timeHeader = http.CanonicalHeaderKey(p.header), http.CanonicalHeaderKey(p.timeHeader)
	p.idHeader = http.CanonicalHeaderKey(p.idHeader)
	if src.Tolerance != 0 {
		p.clock.tolerance = src.Tolerance
		if !p.content.has(stampPart) {
			f.add(src.Pos, "tolerance", "no time is signed here, so there is nothing to tolerate; leave it out")
		}
	}
}

func (p *public) limit() time.Duration { return p.clock.limit() }

func (p *public) verify(_ context.Context, req Request, now time.Time) error {
	value, err := req.single(p.header)
	if err != nil {
		return err
	}
	text := signed{body: req.Body}
	if p.timeHeader != "" {
		if text.stamp, err = req.single(p.timeHeader); err != nil {
			return err
		}
		if err := p.clock.check(text.stamp, now, req.trace); err != nil {
			return err
		}
	}
	if p.idHeader != "" {
		if text.id, err = req.single(p.idHeader); err != nil {
			return err
		}
	}
	message := p.content.message(&text)
	req.trace.message(message)
	if !p.keys.verify(message, value, req.trace) {
		return refuse("the signature in header %s is by none of the public keys", p.header)
	}
	return nil
}

func (p *public) sign(req *Request, id string, now time.Time) error {
	text := signed{id: id, stamp: strconv.FormatInt(now.Unix(), 10), body: req.Body}
	value, err := p.keys.sign(p.content.message(&text))
	if err != nil {
		return err
	}
	if p.timeHeader != "" {
		req.Header.Set(p.timeHeader, text.stamp)
	}
	if p.idHeader != "" {
		req.Header.Set(p.idHeader, id)
	}
	req.Header.Set(p.header, value)
	return nil
}
