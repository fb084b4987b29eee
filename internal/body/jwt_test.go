package body_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
)

// signer signs the tokens of the tests.
var signer = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// sign makes an RS256 token.
func sign(tb testing.TB, header string, claims map[string]any) string {
	payload, err := json.Marshal(claims)
	require.NoError(tb, err)
	text := encode(header) + "." + encode(string(payload))
	digest := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(nil, signer(), crypto.SHA256, digest[:])
	require.NoError(tb, err)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// Times of the tokens.
const (
	issuedAt  = 1550182335
	expiresAt = 1550185935
)

// pubsub is the claims that Pub/Sub documents.
func pubsub(changes ...any) map[string]any {
	claims := map[string]any{
		"aud": "https://example.com", "azp": "113774264463038321964", "email": "gae-gcp@appspot.gserviceaccount.com", "sub": "113774264463038321964",
		"email_verified": true, "exp": expiresAt, "iat": issuedAt, "iss": "https://accounts.google.com",
	}
	for i := 0; i < len(changes); i += 2 {
		name := changes[i].(string)
		if changes[i+1] == nil {
			delete(claims, name)
			continue
		}
		claims[name] = changes[i+1]
	}
	return claims
}

var errAway = errors.New("key server is away")

func google() body.Bearer {
	return body.Bearer{
		Keys: func(id string) (crypto.PublicKey, error) {
			switch id {
			case "k1":
				return &signer().PublicKey, nil
			case "away":
				return nil, errAway
			}
			return nil, body.ErrNoKey
		},
		Algorithm: body.RS256,
		Issuers:   []string{"https://accounts.google.com", "accounts.google.com"},
		Audience:  "https://example.com",
		Email:     "gae-gcp@appspot.gserviceaccount.com",
		Tolerance: time.Minute,
	}
}

const header = `{"alg":"RS256","kid":"k1","typ":"JWT"}`

func TestBearer(t *testing.T) {
	now := time.Unix(issuedAt+60, 0)

	t.Run("case 84: a token of Pub/Sub", func(t *testing.T) {
		claims, err := google().Verify(sign(t, header, pubsub()), now)
		require.NoError(t, err)
		require.Equal(t, int64(expiresAt), claims["exp"])
		_, err = google().Verify(sign(t, header, pubsub("iss", "accounts.google.com", "aud", []string{"x", "https://example.com"}, "nbf", issuedAt)), now)
		require.NoError(t, err)
	})

	t.Run("case 45: the clock, in both directions", func(t *testing.T) {
		token := sign(t, header, pubsub("nbf", issuedAt+10))
		for at, valid := range map[int64]bool{
			issuedAt - 61: false, issuedAt - 51: false, issuedAt - 50: true, expiresAt: true, expiresAt + 59: true, expiresAt + 60: false, issuedAt * 1000: false,
		} {
			_, err := google().Verify(token, time.Unix(at, 0))
			require.Equal(t, valid, err == nil, "%d: %v", at, err)
		}
		_, err := google().Verify(sign(t, header, pubsub()), time.Unix(issuedAt-61, 0))
		require.ErrorContains(t, err, "in the future")
	})

	for name, claims := range map[string]map[string]any{
		"another issuer":        pubsub("iss", "https://accounts.google.com.evil.example"),
		"no issuer":             pubsub("iss", nil),
		"another audience":      pubsub("aud", "https://example.com/"),
		"no audience":           pubsub("aud", nil),
		"a list without it":     pubsub("aud", []string{"x"}),
		"another e-mail":        pubsub("email", "anybody@gmail.com"),
		"e-mail not verified":   pubsub("email_verified", false),
		"verified as text":      pubsub("email_verified", "true"),
		"no e-mail":             pubsub("email", nil),
		"no exp":                pubsub("exp", nil),
		"no iat":                pubsub("iat", nil),
		"exp as text":           pubsub("exp", "1550185935"),
		"exp as fraction":       pubsub("exp", 1550185935.5),
		"exp in milliseconds":   pubsub("exp", expiresAt*1000),
		"exp past all calendar": pubsub("exp", uint64(1)<<63-1),
		"a negative time":       pubsub("nbf", -1),
		"nbf that is no time":   pubsub("nbf", "now"),
		"valid for too long":    pubsub("exp", issuedAt+86401),
		"claims that are none":  nil,
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			_, err := google().Verify(sign(t, header, claims), now)
			require.ErrorIs(t, err, body.ErrToken)
		})
	}

	t.Run("without an audience, an issuer or an algorithm nothing is accepted", func(t *testing.T) {
		for name, c := range map[string]struct {
			change func(*body.Bearer)
			claims map[string]any
		}{
			"audience":  {func(b *body.Bearer) { b.Audience = "" }, pubsub("aud", "")},
			"issuers":   {func(b *body.Bearer) { b.Issuers = []string{""} }, pubsub("iss", "")},
			"algorithm": {func(b *body.Bearer) { b.Algorithm = "" }, pubsub()},
		} {
			bearer := google()
			c.change(&bearer)
			_, err := bearer.Verify(sign(t, header, c.claims), now)
			require.ErrorIs(t, err, body.ErrToken, name)
		}
	})

	t.Run("keys: none of this id is the token's fault, one that is away is not", func(t *testing.T) {
		_, err := google().Verify(sign(t, `{"alg":"RS256","kid":"k2"}`, pubsub()), now)
		require.ErrorIs(t, err, body.ErrToken)
		_, err = google().Verify(sign(t, `{"alg":"RS256","kid":"away"}`, pubsub()), now)
		require.ErrorIs(t, err, errAway)
		require.NotErrorIs(t, err, body.ErrToken)
		_, err = google().Verify(sign(t, `{"alg":"none","kid":"away"}`, pubsub()), now)
		require.ErrorIs(t, err, body.ErrToken, "no key is fetched for an algorithm that is not the one")
	})

	t.Run("claims that are repeated are refused", func(t *testing.T) {
		text := encode(header) + "." + encode(`{"aud":"https://example.com","aud":"x"}`)
		digest := sha256.Sum256([]byte(text))
		signature, err := rsa.SignPKCS1v15(nil, signer(), crypto.SHA256, digest[:])
		require.NoError(t, err)
		_, err = google().Verify(text+"."+base64.RawURLEncoding.EncodeToString(signature), now)
		require.ErrorIs(t, err, body.ErrToken)
	})

	t.Run("the claims of an unsigned token count for nothing", func(t *testing.T) {
		token := sign(t, header, pubsub())
		other := maps.Clone(pubsub())
		other["email"] = "x"
		forged, err := json.Marshal(other)
		require.NoError(t, err)
		parts := token[len(encode(header))+1:]
		_, err = google().Verify(encode(header)+"."+encode(string(forged))+parts[len(parts)-343:], now)
		require.ErrorIs(t, err, body.ErrToken)
	})
}
