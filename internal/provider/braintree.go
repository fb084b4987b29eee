package provider

import (
	"context"
	"crypto/sha1"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/config"
)

// braintree signs an XML document that stands in base64 in a form, under the
// hash of the private key; a secret is written public_key:private_key. There is
// no event id: kind, subject and time are the key. Read: braintree_python,
// braintree-go.
var braintree = preset{
	name:   "braintree",
	signed: "HMAC-SHA1, hex, form field bt_signature, over bt_payload",
	secret: "public_key:private_key",
	scheme: braintreeScheme,
	kind: body.Kind{Format: body.FormatForm, Inner: []body.Inner{{
		Path: []string{"bt_payload"}, Open: body.Base64Lines.Open, Kind: body.Kind{Format: body.FormatXML},
	}}},
	id: []string{
		"body:bt_payload.notification.kind",
		braintreeSubject("subscription", "transaction", "dispute", "merchant-account", "disbursement", "partner-merchant", "account-updater-daily-report"),
		"body:bt_payload.notification.timestamp",
	},
	typ:      []string{"body:bt_payload.notification.kind"},
	occurred: "body:bt_payload.notification.timestamp",
	fingerprint: []string{
		"bt_payload.notification.kind", "bt_payload.notification.timestamp", "bt_payload.notification.subject",
	},
	handshake:   braintreeHandshake,
	contentType: "application/x-www-form-urlencoded",
	sample: `<notification><kind>subscription_charged_successfully</kind><timestamp type="datetime">2024-01-01T00:00:00Z</timestamp>` +
		`<subject><subscription><id>{id}</id><price>10.00</price><transactions type="array"><transaction><id>tr-{id}</id>` +
		`<amount>10.00</amount><currency-iso-code>USD</currency-iso-code></transaction></transactions></subscription></subject></notification>`,
	amount: []string{
		"bt_payload.notification.subject.subscription.price", "bt_payload.notification.subject.subscription.transactions.0.amount",
	},
	currency: []string{"bt_payload.notification.subject.subscription.transactions.0.currency-iso-code"},
}

// braintreeSubject lists the ids of the objects that a notification can be about.
func braintreeSubject(objects ...string) string {
	for i, object := range objects {
		objects[i] = "bt_payload.notification.subject." + object + ".id"
	}
	return "body:" + strings.Join(objects, ",") + "?"
}

type braintreePairs struct{ pairs []braintreePair }

// braintreePair is a public key and what signs under it.
type braintreePair struct {
	public string
	key    *sync.Pool
}

func braintreeScheme(src config.Source, f *faults) scheme {
	s := &braintreePairs{}
	for i, secret := range secrets(src, f) {
		public, private, ok := strings.Cut(secret, ":")
		if !ok || public == "" || private == "" {
			f.add(src.Pos, fmt.Sprintf("secrets[%d]", i), "is not public_key:private_key")
			continue
		}
		sum := sha1.Sum([]byte(private))
		s.pairs = append(s.pairs, braintreePair{public, newKey(sha1.New, sum[:])})
	}
	if src.Tolerance != 0 {
		f.add(src.Pos, "tolerance", "no time is signed here, so there is nothing to tolerate; leave it out")
	}
	return s
}

func (s *braintreePairs) limit() time.Duration { return 0 }

func (s *braintreePairs) verify(_ context.Context, req Request, _ time.Time) error {
	form, err := body.ReadForm(req.Body)
	if err != nil {
		req.trace.judged("body", err)
		return refuse("the body is no form")
	}
	signature, one := form.Find("bt_signature")
	payload, single := form.Find("bt_payload")
	given := string(signature)
	req.trace.place("field bt_signature", given)
	if one != 1 || single != 1 {
		return refuse("the form has not one bt_signature and one bt_payload")
	}
	if strings.Count(given, "&") >= maxParts {
		return refuse("bt_signature has more than %d parts", maxParts)
	}
	req.trace.message(payload)
	for i, pair := range s.pairs {
		found := pair.verify(given, payload)
		req.trace.pair(i, &pair, payload, found)
		if found {
			return nil
		}
	}
	return refuse("no live key has signed bt_payload")
}

// verify reports whether one of the signatures in given is by p.
func (p braintreePair) verify(given string, payload []byte) bool {
	for part := range strings.SplitSeq(given, "&") {
		public, digest, _ := strings.Cut(part, "|")
		// A last line break may have been lost on the way.
		if public == p.public && (p.signed(payload, digest) || p.signed(append(payload[:len(payload):len(payload)], '\n'), digest)) {
			return true
		}
	}
	return false
}

func (p braintreePair) signed(text []byte, digest string) bool {
	hasher := p.key.Get().(*hasher)
	defer p.key.Put(hasher)
	return hexText.equal(digest, hasher.sum(template{bodyPart}, &signed{body: text}))
}

func (p braintreePair) sum(text []byte) string {
	hasher := p.key.Get().(*hasher)
	defer p.key.Put(hasher)
	return p.public + "|" + hexText.encode(hasher.sum(template{bodyPart}, &signed{body: text}))
}

// sign puts a document into the form, unless it is one already.
func (s *braintreePairs) sign(req *Request, _ string, _ time.Time) error {
	payload := base64Text.encode(req.Body) + "\n"
	req.Body = []byte(url.Values{"bt_signature": {s.pairs[0].sum([]byte(payload))}, "bt_payload": {payload}}.Encode())
	return nil
}

// braintreeHandshake proves that we know the private key, to a GET with a challenge.
func braintreeHandshake(s *Source, req Request, _ bool) (Ack, bool) {
	challenge, ok := queryValue(req.Query, "bt_challenge").(string)
	if req.Method != http.MethodGet || !ok {
		return Ack{}, false
	}
	if len(challenge) < 20 || len(challenge) > 32 || strings.Trim(challenge, "0123456789abcdef") != "" {
		return plainAck(http.StatusBadRequest, "the challenge is not 20 to 32 digits of hex\n"), true
	}
	return plainAck(http.StatusOK, s.scheme.(*braintreePairs).pairs[0].sum([]byte(challenge))), true
}
