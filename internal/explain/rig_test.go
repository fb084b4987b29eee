package explain_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/explain"
	"github.com/onceledger/onceledger/internal/provider"
)

const configuration = `
receiver: {max_body: 64KiB}
sources:
  stripe: {provider: stripe, secret: whsec_of_the_live_endpoint}
  stripe-test: {provider: stripe, secret: whsec_of_the_test_endpoint, mode: test}
  bare: {provider: stripe, secret: MissesItsPrefix}
  quoted: {provider: github, secret: '"secret in quotes"'}
  hex: {provider: github, secret: "6d65616e7420696e20686578"}
  github: {provider: github, secret: secret-of-github}
  shop: {provider: shopify, secret: secret-of-the-shop}
  slack: {provider: slack, secret: secret-of-slack}
  svix: {provider: standard-webhooks, secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}
  square: {provider: square, secret: secret-of-square, url: "https://hooks.example.com/webhooks/square"}
  twilio: {provider: twilio, secret: secret-of-twilio, url: "https://hooks.example.com/webhooks/twilio"}
  hubspot: {provider: hubspot, secret: secret-of-hubspot, url: "https://hooks.example.com/webhooks/hubspot"}
  adyen: {provider: adyen, secret: "0a0b0c0d0e0f0a0b0c0d0e0f0a0b0c0d0e0f"}
  meta: {provider: meta, secret: secret-of-meta, verify_token: token-of-meta}
  flutterwave: {provider: flutterwave, secret: hash-of-flutterwave}
  mollie: {provider: mollie-classic, secret: token-of-mollie}
  sendgrid: {provider: sendgrid, secret: "${KEY}"}
  paypal: {provider: paypal, secret: "${KEY}", webhook_id: WH-LIVE}
  paypal-test: {provider: paypal, secret: "${KEY}", webhook_id: WH-TEST}
  orders:
    provider: hmac
    secret: secret-of-the-orders
    hmac: {header: X-Signature, encoding: hex, algorithm: sha256}
    id: body:id
`

// privateKey is a made-up one, as a user would write it; its public half verifies.
var privateKey = sync.OnceValue(func() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
})

var now = time.Unix(1_750_000_000, 0)

// shared is the configuration above. Nothing of it changes.
var shared = sync.OnceValue(func() *catalog.Catalog {
	dir, err := os.MkdirTemp("", "explain")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "onceledger.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		panic(err)
	}
	cat, err := catalog.Load(file, func(name string) (string, bool) { return privateKey(), name == "KEY" })
	if err != nil {
		panic(err)
	}
	return cat
})

// sign is the request that a source's provider sends with this body.
func sign(source, body string) provider.Request {
	return signWith(shared().Sources[source].Source, body)
}

func signWith(source *provider.Source, body string) provider.Request {
	req, err := source.Sign([]byte(body), "evt_1", now)
	if err != nil {
		panic(err)
	}
	return req
}

// wire is a request as it travels.
func wire(req provider.Request, path string) string {
	if req.Query != "" {
		path += "?" + req.Query
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", req.Method, path)
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		for _, value := range req.Header[name] {
			fmt.Fprintf(&b, "%s: %s\r\n", name, value)
		}
	}
	return b.String() + "\r\n" + string(req.Body)
}

// captured is what comes of a file.
func captured(t testing.TB, text string) *explain.Captured {
	t.Helper()
	c, err := explain.Parse([]byte(text))
	require.NoError(t, err)
	return c
}

func set(name, value string) func(*provider.Request) {
	return func(r *provider.Request) { r.Header.Set(name, value) }
}

// rename gives headers other names.
func rename(pairs ...string) func(*provider.Request) {
	return func(r *provider.Request) {
		for i := 0; i < len(pairs); i += 2 {
			from, to := http.CanonicalHeaderKey(pairs[i]), http.CanonicalHeaderKey(pairs[i+1])
			r.Header[to] = r.Header[from]
			delete(r.Header, from)
		}
	}
}

// body replaces the body after it was signed.
func body(text string) func(*provider.Request) {
	return func(r *provider.Request) { r.Body = []byte(text) }
}
