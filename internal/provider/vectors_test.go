package provider

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

// vector is a signed request that a provider or its library published; official
// ones are theirs byte for byte.
type vector struct {
	ID, Provider, Expect, Note string
	Expected                   string
	KeyHex                     string `json:"key_hex"`
	SecretText                 string `json:"secret_text"`
	PublicKey                  string `json:"pubkey"`
	SignedBase64               string `json:"signed_b64"`
	NowUnix                    int64  `json:"now_unix"`
	Request                    struct {
		Method, URL string
		Headers     map[string]string
		Body        string `json:"body_b64"`
	}
}

func vectors(t testing.TB) []vector {
	data, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var list []vector
	require.NoError(t, json.Unmarshal(data, &list))
	require.Len(t, list, 75)
	return list
}

// signed is the text that the vector's signature covers.
func (v vector) signed(t testing.TB) []byte {
	text, err := base64.StdEncoding.DecodeString(v.SignedBase64)
	require.NoError(t, err)
	return text
}

func (v vector) now() time.Time {
	if v.Provider == "apple" { // its certificates are valid from 2023 to 2032
		return now
	}
	return time.Unix(v.NowUnix, 0)
}

// vectorPresets are the presets of vectors whose provider has another name here.
var vectorPresets = map[string]string{
	"svix-v1a": "standard-webhooks", "openai": "standard-webhooks", "lithic": "standard-webhooks", "resend": "standard-webhooks",
}

// legacy are GitHub's older signatures, where the source's hmac: block asks for them.
var legacy = map[string]config.HMAC{
	"V04": {Header: "X-Hub-Signature", Prefix: "sha1=", Algorithm: "sha1"},
	"V07": {Header: "X-Hub-Signature", Prefix: "sha1=", Algorithm: "sha1"},
	"V06": {Header: "X-Hub-Signature-256", Prefix: "sha512=", Algorithm: "sha512"},
}

// config is how a user would configure the vector's provider.
func (v vector) config(t testing.TB) config.Source {
	name := v.Provider
	if other, ok := vectorPresets[name]; ok {
		name = other
	}
	src := configured(name, v.secrets(t)...)
	if block, ok := legacy[v.ID]; ok {
		src.HMAC = &block
	}
	p := presets[name]
	require.NotNil(t, p, name)
	if p.uses&usesURL != 0 {
		src.URL = config.Text{Value: v.Request.URL}
	}
	if p.uses&usesKeys != 0 {
		src.PublicKeys = []config.Text{{Value: v.publicKey(t)}}
	}
	if v.Provider == "apple" {
		src.Audience = config.Text{Value: "com.example"}
		if v.ID == "V58" {
			src.Audience.Value = "com.example.wrong"
		}
	}
	if _, rest, ok := strings.Cut(v.Note, "configured webhook id = "); ok {
		id, _, _ := strings.Cut(rest, ";")
		src.WebhookID = config.Text{Value: id}
	}
	return src
}

// publicKey is what verifies the vector: of Apple's, the root that the token
// brings along, which there is Apple's test root.
func (v vector) publicKey(t testing.TB) string {
	if v.Provider != "apple" {
		return v.PublicKey
	}
	var chain struct{ X5C []string }
	header, _, _ := strings.Cut(string(v.signed(t)), ".")
	text, err := base64.RawURLEncoding.DecodeString(header)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &chain))
	if len(chain.X5C) == 0 {
		return appleRoot(t)
	}
	return chain.X5C[len(chain.X5C)-1]
}

// appleRoot is that of V57.
func appleRoot(t testing.TB) string {
	return vectorByID(t, "V57").publicKey(t)
}

func vectorByID(t testing.TB, id string) vector {
	for _, v := range vectors(t) {
		if v.ID == id {
			return v
		}
	}
	require.Fail(t, "no vector", id)
	return vector{}
}

// source is the vector's source.
func (v vector) source(t testing.TB, src config.Source) *Source {
	s := mustNew(t, src)
	if b, ok := s.scheme.(*braintreePairs); ok && src.Secrets[0].Reveal() == braintreeSecret {
		key, err := hex.DecodeString(v.KeyHex) // the private key itself is not published
		require.NoError(t, err)
		b.pairs[0].key = newKey(sha1.New, key)
	}
	return s
}

const braintreeSecret = "sz9g7zhxz8838v7h:private"

// secrets returns the vector's key in the form in which the provider shows it.
func (v vector) secrets(t testing.TB) []string {
	key, err := hex.DecodeString(v.KeyHex)
	require.NoError(t, err)
	switch v.Provider {
	case "adyen", "adyen-platform":
		return []string{v.KeyHex}
	case "hubspot-v1", "hubspot-v2": // a plain hash begins with its secret
		return []string{string(v.signed(t)[:len("yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy")])}
	case "svix-v1a":
		return []string{v.PublicKey}
	case "braintree":
		return []string{braintreeSecret}
	case "wechatpay-v2":
		_, key, _ := strings.Cut(string(v.signed(t)), "&key=")
		return []string{key}
	case "wechatpay-v3":
		return []string{"testMchAPIv3Key0"}
	case "wise", "sendgrid", "paypal", "alipay", "apple":
		return nil
	}
	if v.SecretText != "" {
		return []string{v.SecretText}
	}
	return []string{string(key)}
}

// request is the request of the vector.
func (v vector) request(t testing.TB) Request {
	req := Request{Method: v.Request.Method, Header: http.Header{}}
	for name, value := range v.Request.Headers {
		req.Header.Set(name, value)
	}
	var err error
	req.Body, err = base64.StdEncoding.DecodeString(v.Request.Body)
	require.NoError(t, err)
	u, err := url.Parse(v.Request.URL)
	require.NoError(t, err)
	req.Query = u.RawQuery
	switch {
	case v.Provider == "braintree" && len(v.Request.Headers) == 0 && req.Method == http.MethodPost:
		public, _, _ := strings.Cut(braintreeSecret, ":")
		signature := "other|" + strings.Repeat("0", 40) + "&" + public + "|" + v.Expected
		req.Body = []byte(url.Values{"bt_signature": {signature}, "bt_payload": {string(req.Body)}}.Encode())
	case v.Provider == "wechatpay-v2":
		fields, _, _ := strings.Cut(string(req.Body), "&key=")
		document := "<xml>"
		for pair := range strings.SplitSeq(fields+"&sign="+v.Expected, "&") {
			name, value, _ := strings.Cut(pair, "=")
			document += "<" + name + ">" + value + "</" + name + ">"
		}
		req.Body = []byte(document + "</xml>")
	}
	return req
}

// check holds one vector to what it expects.
func (v vector) check(t *testing.T) {
	ctx := context.Background()
	s, req := v.source(t, v.config(t)), v.request(t)
	if req.Method == http.MethodGet {
		ack, ok := s.Handshake(req, false)
		require.True(t, ok)
		require.Equal(t, "sz9g7zhxz8838v7h|"+v.Expected, string(ack.Body))
		return
	}
	if !strings.HasPrefix(v.Expect, "valid") {
		require.ErrorIs(t, s.Verify(ctx, req, v.now()), ErrSignature)
		return
	}
	require.NoError(t, s.Verify(ctx, req, v.now()))

	// Each of these must make the difference.
	refused := func(s *Source, req Request, at time.Time, why ...any) {
		require.ErrorIs(t, s.Verify(ctx, req, at), ErrSignature, why...)
	}
	if !partly[v.Provider] {
		for i := range req.Body {
			req.Body[i] ^= 1
			refused(s, req, v.now(), i)
			req.Body[i] ^= 1
		}
		longer := req
		longer.Body = append(req.Body[:len(req.Body):len(req.Body)], '\n')
		refused(s, longer, v.now())
	}
	refused(mustNew(t, v.other(t)), req, v.now())
	if clock := s.Tolerance(); v.NowUnix != 0 && clock != 0 {
		refused(s, req, v.now().Add(2*clock+time.Second))
		refused(s, req, v.now().Add(-2*clock-time.Second))
	}
	req.Header = http.Header{}
	if len(v.Request.Headers) > 0 && !inBody[v.Provider] {
		refused(s, req, v.now())
	}
}

// other is the vector's source with a secret of its kind that is not its own.
func (v vector) other(t testing.TB) config.Source {
	src := v.config(t)
	if src.PublicKeys != nil {
		src.PublicKeys[0].Value = strangers[v.Provider == "sendgrid"]
		if v.Provider == "apple" {
			src.PublicKeys[0].Value = ecdsaPair(t).certificate
		}
		return src
	}
	secret := "another secret"
	switch {
	case v.Provider == "braintree":
		secret = braintreeSecret + "x"
	case v.Provider == "adyen" || v.Provider == "adyen-platform":
		secret = strings.Repeat("00", 32)
	case v.Provider == "svix-v1a":
		secret = "whpk_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	case v.SecretText != "":
		secret = "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	}
	src.Secrets = []config.Secret{config.NewSecret(secret)}
	return src
}

// partly are the providers that do not sign the whole body, inBody those whose
// signature stands there.
var (
	partly = map[string]bool{"adyen": true, "twilio": true, "braintree": true, "alipay": true, "wechatpay-v2": true, "apple": true}
	inBody = map[string]bool{"adyen": true, "braintree": true, "alipay": true, "apple": true}
)

func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		t.Run(v.ID, v.check)
	}
}

func TestGitHubLooksAtSHA1OnlyWhereAsked(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		if _, ok := legacy[v.ID]; ok {
			req := v.request(t)
			v.ID = "" // the plain preset
			require.ErrorIs(t, mustNew(t, v.config(t)).Verify(t.Context(), req, now), ErrSignature)
		}
	}
}

// strangers are public keys that have signed no vector: RSA, and ECDSA.
var strangers = map[bool]string{
	false: "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAhjXNgWNfCqxIgiSLyC8QsWW/EULfBUdBGSKPZqjXgSkdxoqecBfbmqxk6e1QzBY7wYe+eFv0W91QhrFAiAZ3nw8rjDfWEStr4J9uwoPSTE7EI/1rBUwVI4VszuOjqxpkEkjus8rEUON+a3snIFNGAVLI1S5Rylxt/o0qPq3ReyYFu+XZAITUV/3HPPQDZXqAJZnXw0h4oYs/JSHYKL593APkOChIwkeXDrKGefPLNNggC2d6qsQRYSc665T4VImZcA4bKSrNiWI2I/ZnE/QYSe7PjphfNehU98qXkiuq0fyj50NtXfXoYR3J57iDl0XcDKSkz3SbMvU/VifRgpjtGQIDAQAB",
	true:  "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE5NQmiyE3GJjoZq1CZ5l2iFWu/7dKu1n4hv5d98zTeXJzaw3X3K8rCVex2eed2wWe3ugVFt07RIJszOnuLZ3Lkg==",
}
