package provider

import (
	"context"
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

func (v vector) now() time.Time { return time.Unix(v.NowUnix, 0) }

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
	return src
}

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
	return req
}

// check holds one vector to what it expects.
func (v vector) check(t *testing.T) {
	ctx := context.Background()
	s, req := mustNew(t, v.config(t)), v.request(t)
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
		refused(s, req, v.now().Add(clock+time.Second))
		refused(s, req, v.now().Add(-clock-time.Second))
	}
	req.Header = http.Header{}
	if len(v.Request.Headers) > 0 && !inBody[v.Provider] {
		refused(s, req, v.now())
	}
}

// other is the vector's source with a secret of its kind that is not its own.
func (v vector) other(t testing.TB) config.Source {
	src := v.config(t)
	secret := "another secret"
	switch {
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
	partly = map[string]bool{"adyen": true}
	inBody = map[string]bool{"adyen": true}
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
