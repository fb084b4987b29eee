package provider

import (
	"context"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/config"
)

// Providers whose body nobody signs. What such a request says is a hint: an id
// to look up, often the same for every change. Each gets a generated id, and
// waits as needs_fetch until the provider's API was asked.
//
// Those that carry no proof of who sends (classic Mollie, IPN) are let in by a
// token that is a part of the registered URL, https://…/webhooks/NAME?token=….
// Without it anybody could fill the stream.

const queryToken = "token"

// mollieClassic is a form with nothing but the id of a payment. Read:
// docs.mollie.com/overview/webhooks.
var mollieClassic = preset{
	name:        "mollie-classic",
	signed:      "a token in the query of the registered URL, over nothing",
	secret:      "a text of your own, at least as long as a password; register https://…/webhooks/NAME?token=THAT_TEXT",
	scheme:      token{query: queryToken}.scheme,
	hint:        true,
	kind:        body.Kind{Format: body.FormatForm},
	contentType: "application/x-www-form-urlencoded",
	sample:      "id=tr_{id}",
}

// paypalIPN is PayPal's older notice, which is verified by sending it back.
// Read: developer.paypal.com IPN guide, spookylukey/django-paypal.
var paypalIPN = preset{
	name:        "paypal-ipn",
	signed:      "a token in the query of the registered URL, over nothing",
	secret:      "a text of your own, at least as long as a password; register https://…/webhooks/NAME?token=THAT_TEXT",
	scheme:      token{query: queryToken}.scheme,
	hint:        true,
	kind:        body.Kind{Format: body.FormatForm, CharsetField: "charset"},
	typ:         []string{"body:txn_type", "body:payment_status"},
	account:     "body:receiver_id",
	live:        "body:test_ipn",
	modes:       []word{{"", live}, {"0", live}, {"1", test}},
	occurred:    "body:payment_date",
	zone:        "Pacific",
	contentType: "application/x-www-form-urlencoded",
	sample: "txn_type=web_accept&payment_status=Completed&txn_id={id}&receiver_id=R1&mc_gross=19.95&mc_currency=USD&" +
		"payment_date=20%3A12%3A59+Jan+13%2C+2024+PST&charset=UTF-8",
	amount:   []string{"mc_gross"},
	currency: []string{"mc_currency"},
}

// flutterwave repeats a fixed text; that the amount is the one that was ordered
// has to be asked of its API. Read: developer.flutterwave.com webhooks. The
// newer flutterwave-signature header is not looked at.
var flutterwave = preset{
	name:     "flutterwave",
	signed:   "a fixed text, header Verif-Hash, over nothing",
	secret:   "the secret hash",
	scheme:   token{header: "Verif-Hash"}.scheme,
	hint:     true,
	typ:      []string{"body:event"},
	occurred: "body:data.created_at",
	sample:   `{"event":"charge.completed","data":{"id":{number},"tx_ref":"{id}","amount":100,"currency":"NGN","status":"successful","created_at":"2024-01-01T00:00:00.000Z"}}`,
	amount:   []string{"data.amount"},
	currency: []string{"data.currency"},
}

// chargebee authenticates with a user and a password, which say nothing of the
// body. Read: chargebee docs.
var chargebee = preset{
	name:     "chargebee",
	signed:   "user and password, header Authorization (Basic …), over nothing",
	secret:   "user:password of the webhook's basic authentication",
	scheme:   token{basic: true}.scheme,
	hint:     true,
	typ:      []string{"body:event_type"},
	occurred: "body:occurred_at",
	sample:   `{"id":"{id}","occurred_at":1700000000,"event_type":"payment_succeeded","content":{"transaction":{"id":"txn_{id}","amount":1000,"currency_code":"USD"}}}`,
	amount:   []string{"content.transaction.amount"},
	currency: []string{"content.transaction.currency_code"},
}

// graph is Microsoft Graph: each notification repeats the clientState of its
// subscription. Its endpoint is checked by an echo. Read: learn.microsoft.com
// graph change notifications.
var graph = preset{
	name:      "microsoft-graph",
	signed:    "a fixed text, clientState of each item, over nothing",
	secret:    "the clientState of the subscriptions",
	scheme:    token{batch: "value", member: "clientState"}.scheme,
	batch:     "value",
	hint:      true,
	typ:       []string{"body:changeType"},
	account:   "body:tenantId",
	ack:       Ack{Status: http.StatusAccepted},
	handshake: graphHandshake,
	sample:    `{"value":[{"id":"{id}","subscriptionId":"s1","changeType":"updated","resource":"users/1","tenantId":"t1"}]}`,
}

// mercadoPago signs ids and a time, and nothing of the body, so that a repeat
// gains nothing and no limit is held to. Its libraries disagree about the case
// of data.id and about the unit of the time: either is taken. Read: sdk-nodejs
// #439 and #458, sdk-java#420.
var mercadoPago = preset{
	name:     "mercado-pago",
	signed:   "HMAC-SHA256, hex, header X-Signature (v1=), over ids and time, nothing of the body",
	secret:   "the webhook's secret signature",
	scheme:   mercadoScheme,
	hint:     true,
	typ:      []string{"body:type", "body:action"},
	account:  "body:user_id",
	live:     "body:live_mode",
	occurred: "body:date_created",
	keep:     []string{"X-Request-Id"},
	sample:   `{"id":{number},"live_mode":true,"type":"payment","action":"payment.updated","user_id":44444,"date_created":"2024-01-01T00:00:00Z","data":{"id":"{id}"}}`,
}

const (
	mercadoHeader = "X-Signature"
	mercadoID     = "data.id"
)

type mercado struct {
	clock clock
	keys  []*sync.Pool
}

func mercadoScheme(src config.Source, f *faults) scheme {
	s := &mercado{clock: clock{tolerance: src.Tolerance, millis: true}}
	for _, secret := range secrets(src, f) {
		s.keys = append(s.keys, newKey(sha256.New, []byte(secret)))
	}
	return s
}

func (s *mercado) limit() time.Duration { return s.clock.limit() }

func (s *mercado) verify(_ context.Context, req Request, now time.Time) error {
	value, err := req.single(mercadoHeader)
	if err != nil {
		return err
	}
	if strings.Count(value, ",") >= maxParts {
		return refuse("header %s has more than %d parts", mercadoHeader, maxParts)
	}
	var stamp, signature string
	for part := range strings.SplitSeq(value, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case name == "ts" && stamp == "":
			stamp = text
		case name == "v1" && signature == "":
			signature = text
		case name == "ts" || name == "v1":
			return refuse("header %s names %s twice", mercadoHeader, name)
		}
	}
	if err := s.clock.check(stamp, now, req.trace); err != nil {
		return err
	}
	id, _ := queryValue(req.Query, mercadoID).(string)
	for i, key := range s.keys {
		hasher := key.Get().(*hasher)
		found := false
		for _, id := range [...]string{id, strings.ToLower(id)} {
			text := mercadoText(id, req.Header, stamp)
			sum := hasher.sum(template{bodyPart}, &signed{body: text})
			found = hexText.equal(signature, sum)
			req.trace.message(text)
			req.trace.mac(i, "v1=", hexText, sum, found)
			if found {
				break
			}
		}
		key.Put(hasher)
		if found {
			return nil
		}
	}
	return refuse("no signature in header %s matches a live secret", mercadoHeader)
}

// mercadoText is what is signed; a part that a request does not have is left out.
func mercadoText(id string, h http.Header, stamp string) []byte {
	var text []byte
	if id != "" {
		text = append(text, "id:"+id+";"...)
	}
	if values := h["X-Request-Id"]; len(values) == 1 {
		text = append(text, "request-id:"+values[0]+";"...)
	}
	return append(text, "ts:"+stamp+";"...)
}

func (s *mercado) sign(req *Request, id string, now time.Time) error {
	req.Header.Set("X-Request-Id", id)
	req.Query = url.Values{mercadoID: {id}, "type": {"payment"}}.Encode()
	stamp := strconv.FormatInt(now.UnixMilli(), 10)
	hasher := s.keys[0].Get().(*hasher)
	defer s.keys[0].Put(hasher)
	sum := hasher.sum(template{bodyPart}, &signed{body: mercadoText(id, req.Header, stamp)})
	req.Header.Set(mercadoHeader, "ts="+stamp+",v1="+hexText.encode(sum))
	return nil
}
