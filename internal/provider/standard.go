package provider

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onceledger/onceledger/internal/config"
)

// standardWebhooks is the scheme of standardwebhooks.com, which Svix, OpenAI,
// Lithic, Resend, Clerk, Polar and others send: "id.timestamp.body" under
// SHA-256 (v1) or Ed25519 (v1a), in webhook-* headers or in svix-* ones.
//
// The id is the header's; one in the body may differ. Senders call the type
// and the time as they like: where it is not "type" and "timestamp" of the
// body, the source's type: and time: say so.
var standardWebhooks = preset{
	name:     "standard-webhooks",
	signed:   "HMAC-SHA256, base64, header Webhook-Signature or Svix-Signature (v1,), over id.time.body; or Ed25519 (v1a,)",
	secret:   "whsec_… as the sender shows it; or whpk_… of an Ed25519 public key",
	scheme:   standardScheme,
	id:       []string{"header:Webhook-Id,Svix-Id"},
	typ:      []string{"body:type"},
	occurred: "body:timestamp",
	sample: `{"type":"order.paid","timestamp":"2024-01-01T00:00:00Z","data":{"id":"ord_{id}","customer_id":"cus_test","points":10,` +
		`"total":19.99,"amount":19.99,"currency":"EUR"}}`,
	amount:   []string{"data.total", "data.amount"},
	currency: []string{"data.currency"},
}

// The forms of a secret. Each is followed by base64; whsec_ may be left out.
const (
	macSecret  = "whsec_" // shared key: verifies and signs v1
	publicKey  = "whpk_"  // 32 bytes: verifies v1a
	privateKey = "whsk_"  // 32-byte seed, or seed and public key: verifies and signs v1a
)

const (
	macPrefix     = "v1,"
	ed25519Prefix = "v1a,"
)

type standard struct {
	macs     []standardKey[*sync.Pool]
	publics  []standardKey[ed25519.PublicKey]
	private  ed25519.PrivateKey // the first one; nil if there is none
	clock    clock
	template template
}

// standardKey is the key of the secret at this place.
type standardKey[K any] struct {
	key    K
	secret int
}

func standardScheme(src config.Source, f *faults) scheme {
	s := &standard{
		clock:    clock{tolerance: tolerance},
		template: mustTemplate("{id}.{timestamp}.{body}"),
	}
	if src.Tolerance != 0 {
		s.clock.tolerance = src.Tolerance
	}
	for i, secret := range secrets(src, f) {
		if err := s.add(i, secret); err != nil {
			f.add(src.Pos, fmt.Sprintf("secrets[%d]", i), "%v", err)
		}
	}
	return s
}

// add takes the secret at a place. Its errors do not hold it.
func (s *standard) add(place int, secret string) error {
	kind, text := macSecret, secret
	for _, prefix := range [...]string{macSecret, publicKey, privateKey} {
		if rest, ok := strings.CutPrefix(secret, prefix); ok {
			kind, text = prefix, rest
		}
	}
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil || len(key) == 0 {
		return fmt.Errorf("is no base64 after %s", kind)
	}

	switch kind {
	case macSecret:
		s.macs = append(s.macs, standardKey[*sync.Pool]{newKey(sha256.New, key), place})
	case publicKey:
		if len(key) != ed25519.PublicKeySize {
			return fmt.Errorf("%s has %d bytes, not %d", kind, len(key), ed25519.PublicKeySize)
		}
		s.publics = append(s.publics, standardKey[ed25519.PublicKey]{key, place})
	case privateKey:
		private, err := parsePrivate(key)
		if err != nil {
			return err
		}
		if s.private == nil {
			s.private = private
		}
		s.publics = append(s.publics, standardKey[ed25519.PublicKey]{private.Public().(ed25519.PublicKey), place})
	}
	return nil
}

func parsePrivate(key []byte) (ed25519.PrivateKey, error) {
	if len(key) != ed25519.SeedSize && len(key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("%s has %d bytes, not %d or %d",
			privateKey, len(key), ed25519.SeedSize, ed25519.PrivateKeySize)
	}
	private := ed25519.NewKeyFromSeed(key[:ed25519.SeedSize])
	if len(key) == ed25519.PrivateKeySize && !bytes.Equal(private, key) {
		return nil, fmt.Errorf("%s holds a public key that is not its own", privateKey)
	}
	return private, nil
}

// family is a set of header names.
type family struct{ id, stamp, signature string }

var (
	webhookFamily = family{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"}
	svixFamily    = family{"Svix-Id", "Svix-Timestamp", "Svix-Signature"}
)

// familyOf chooses svix-* only where no webhook-* header is there at all: the
// id that is verified must be the one the event is known by, or a webhook-id
// added to a genuine svix-* request would make a new event of an old one.
func familyOf(h http.Header) family {
	for _, name := range [...]string{webhookFamily.id, webhookFamily.stamp, webhookFamily.signature} {
		if len(h[name]) > 0 {
			return webhookFamily
		}
	}
	if len(h[svixFamily.signature]) > 0 {
		return svixFamily
	}
	return webhookFamily
}

func (s *standard) verify(_ context.Context, req Request, now time.Time) error {
	names := familyOf(req.Header)
	id, err := req.single(names.id)
	if err != nil {
		return err
	}
	stamp, err := req.single(names.stamp)
	if err != nil {
		return err
	}
	value, err := req.single(names.signature)
	if err != nil {
		return err
	}

	if id == "" {
		return refuse("header %s is empty", names.id)
	}
	if strings.Count(value, " ") >= maxParts {
		return refuse("header %s has more than %d parts", names.signature, maxParts)
	}
	if err := s.clock.check(stamp, now, req.trace); err != nil {
		return err
	}
	text := signed{id: id, stamp: stamp, body: req.Body}
	req.trace.text(s.template, &text)
	if s.verifyMAC(value, &text, req.trace) || s.verifyEd25519(value, &text, req.trace) {
		return nil
	}
	return refuse("no signature in header %s matches a live secret", names.signature)
}

func (s *standard) limit() time.Duration { return s.clock.limit() }

func (s *standard) verifyMAC(value string, text *signed, t *trace) bool {
	for _, mac := range s.macs {
		hasher := mac.key.Get().(*hasher)
		sum := hasher.sum(s.template, text)
		found := false
		for part := range strings.SplitSeq(value, " ") {
			signature, ok := strings.CutPrefix(part, macPrefix)
			found = found || ok && base64Text.equal(signature, sum)
		}
		t.mac(mac.secret, macPrefix, base64Text, sum, found)
		mac.key.Put(hasher)
		if found {
			return true
		}
	}
	return false
}

func (s *standard) verifyEd25519(value string, text *signed, t *trace) bool {
	if len(s.publics) == 0 {
		return false
	}
	message := s.template.message(text)
	for _, public := range s.publics {
		found := verifiesAny(public.key, message, value)
		t.token(public.secret, found)
		if found {
			return true
		}
	}
	return false
}

// verifiesAny reports whether one of the signatures in value is by public.
func verifiesAny(public ed25519.PublicKey, message []byte, value string) bool {
	for part := range strings.SplitSeq(value, " ") {
		encoded, ok := strings.CutPrefix(part, ed25519Prefix)
		if !ok {
			continue
		}
		signature, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err == nil && ed25519.Verify(public, message, signature) {
			return true
		}
	}
	return false
}

func (s *standard) sign(req *Request, id string, now time.Time) error {
	text := signed{id: id, stamp: strconv.FormatInt(now.Unix(), 10), body: req.Body}
	var value string
	switch {
	case len(s.macs) > 0:
		hasher := s.macs[0].key.Get().(*hasher)
		defer s.macs[0].key.Put(hasher)
		value = macPrefix + base64Text.encode(hasher.sum(s.template, &text))
	case s.private != nil:
		value = ed25519Prefix + base64Text.encode(ed25519.Sign(s.private, s.template.message(&text)))
	default:
		return fmt.Errorf("none of the secrets can sign; add one that begins with %s", privateKey)
	}

	req.Header.Set(webhookFamily.id, id)
	req.Header.Set(webhookFamily.stamp, text.stamp)
	req.Header.Set(webhookFamily.signature, value)
	return nil
}
