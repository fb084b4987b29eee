package provider

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

// vector is a signed request that a provider or its library published; official
// ones are theirs byte for byte.
type vector struct {
	ID, Provider, Expect, Note string
	KeyHex                     string `json:"key_hex"`
	SecretText                 string `json:"secret_text"`
	PublicKey                  string `json:"pubkey"`
	NowUnix                    int64  `json:"now_unix"`
	Request                    struct {
		Headers map[string]string
		Body    string `json:"body_b64"`
	}
}

func vectors(t *testing.T) []vector {
	data, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	var list []vector
	require.NoError(t, json.Unmarshal(data, &list))
	require.Len(t, list, 33)
	return list
}

func (v vector) secret(t *testing.T) string {
	if v.SecretText != "" || v.PublicKey != "" {
		return v.SecretText + v.PublicKey
	}
	key, err := hex.DecodeString(v.KeyHex)
	require.NoError(t, err)
	return string(key)
}

// vectorSources says how a user configures the provider of each vector. Where
// there is no preset yet, the generic scheme does it.
var vectorSources = map[string]config.Source{
	"github":            {Provider: config.Text{Value: "github"}},
	"stripe":            {Provider: config.Text{Value: "stripe"}},
	"standard-webhooks": {Provider: config.Text{Value: "standard-webhooks"}},
	"svix-v1a":          {Provider: config.Text{Value: "standard-webhooks"}},
	"openai":            {Provider: config.Text{Value: "standard-webhooks"}},
	"lithic":            {Provider: config.Text{Value: "standard-webhooks"}},
	"resend":            {Provider: config.Text{Value: "standard-webhooks"}},
	"razorpay":          genericSource(config.HMAC{Header: "X-Razorpay-Signature"}),
	"gocardless":        genericSource(config.HMAC{Header: "Webhook-Signature"}),
	"coinbase-commerce": genericSource(config.HMAC{Header: "X-CC-Webhook-Signature"}),
	"shopify":           genericSource(config.HMAC{Header: "X-Shopify-Hmac-SHA256", Encoding: "base64"}),
	"modern-treasury":   genericSource(config.HMAC{Header: "X-Signature"}),
	"mailersend":        genericSource(config.HMAC{Header: "Signature"}),
	"pusher":            genericSource(config.HMAC{Header: "X-Pusher-Signature"}),
	"slack": genericSource(config.HMAC{
		Header: "X-Slack-Signature", Prefix: "v0=", TimestampHeader: "X-Slack-Request-Timestamp",
		Content: config.Text{Value: "v0:{timestamp}:{body}"},
	}),
	// GitHub's legacy signatures, where the source's hmac: block asks for them.
	"V04": optIn("github", config.HMAC{Header: "X-Hub-Signature", Prefix: "sha1=", Algorithm: "sha1"}),
	"V07": optIn("github", config.HMAC{Header: "X-Hub-Signature", Prefix: "sha1=", Algorithm: "sha1"}),
	"V06": optIn("github", config.HMAC{Header: "X-Hub-Signature-256", Prefix: "sha512=", Algorithm: "sha512"}),
}

func genericSource(h config.HMAC) config.Source {
	src := optIn("hmac", h)
	src.ID = config.Text{Value: "body:id"}
	return src
}

func optIn(provider string, h config.HMAC) config.Source {
	return config.Source{Provider: config.Text{Value: provider}, HMAC: &h}
}

// paddle shows that a provider with a signature list of its own is data.
var paddle = preset{name: "paddle", scheme: mac{
	header: "Paddle-Signature", separator: ";", timePart: "ts=", prefix: "h1=",
	content: mustTemplate("{timestamp}:{body}"), tolerance: 5 * time.Second,
}.scheme}

// source returns the source that should accept the vector under this secret.
func (v vector) source(t *testing.T, secret string) *Source {
	src, ok := vectorSources[v.ID]
	if !ok {
		src = vectorSources[v.Provider]
	}
	src.Name = config.Text{Value: v.Provider}
	src.Secrets = []config.Secret{config.NewSecret(secret)}
	if v.Provider == "paddle" {
		f := &faults{src: src}
		s := &Source{name: "paddle", preset: &paddle, scheme: paddle.scheme(src, f)}
		require.Empty(t, f.list)
		return s
	}
	s, faults := New(src)
	require.Empty(t, faults)
	return s
}

func (v vector) request(t *testing.T) (http.Header, []byte) {
	h := http.Header{}
	for name, value := range v.Request.Headers {
		h.Set(name, value)
	}
	body, err := base64.StdEncoding.DecodeString(v.Request.Body)
	require.NoError(t, err)
	return h, body
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			h, body := v.request(t)
			now := time.Unix(v.NowUnix, 0)
			s := v.source(t, v.secret(t))
			if v.Expect != "valid" {
				require.ErrorIs(t, s.Verify(h, body, now), ErrSignature)
				return
			}
			require.NoError(t, s.Verify(h, body, now))

			// Each of these must make the difference.
			for i := range body {
				body[i] ^= 1
				require.ErrorIs(t, s.Verify(h, body, now), ErrSignature, "byte %d", i)
				body[i] ^= 1
			}
			require.ErrorIs(t, s.Verify(h, append(body, '\n'), now), ErrSignature)
			require.ErrorIs(t, s.Verify(http.Header{}, body, now), ErrSignature)
			other := v.source(t, otherSecret(v))
			require.ErrorIs(t, other.Verify(h, body, now), ErrSignature)
			if v.NowUnix != 0 {
				require.ErrorIs(t, s.Verify(h, body, now.Add(time.Hour)), ErrSignature)
				require.ErrorIs(t, s.Verify(h, body, now.Add(-time.Hour)), ErrSignature)
			}
		})
	}
}

// otherSecret is of the vector's kind, and not its own.
func otherSecret(v vector) string {
	switch {
	case v.PublicKey != "":
		return "whpk_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	case v.SecretText != "":
		return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	}
	return "another secret"
}

func TestGitHubLooksAtSHA1OnlyWhereAsked(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		if v.ID == "V04" || v.ID == "V06" || v.ID == "V07" {
			h, body := v.request(t)
			secret := v.secret(t)
			v.ID = "" // the plain preset
			require.ErrorIs(t, v.source(t, secret).Verify(h, body, time.Time{}), ErrSignature)
		}
	}
}
