package keyring

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// keySet is what Google answers, with signingKey under each id.
func keySet(ids ...string) []byte {
	var keys []string
	for _, id := range ids {
		keys = append(keys, fmt.Sprintf(`{"kty":"RSA","use":"sig","alg":"RS256","kid":%q,"n":%q,"e":"AQAB"}`, id, b64(signingKey().N.Bytes())))
	}
	return []byte(`{"keys":[` + strings.Join(keys, ",") + `]}`)
}

func TestGoogleKeys(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(http.StatusOK, keySet("k1", "k2"), "Cache-Control", "public, max-age=7200, must-revalidate"))
	keys := Google(p.Options)
	for _, id := range []string{"k1", "k2", "k1"} {
		key, err := keys.Key(t.Context(), id)
		require.NoError(t, err)
		require.True(t, signingKey().PublicKey.Equal(key))
	}
	p.asked(1)

	// A stream of made-up ids makes us ask once a minute.
	p.pass(2 * time.Minute)
	for i := range 100 {
		_, err := keys.Key(t.Context(), fmt.Sprint("made-up-", i))
		require.ErrorIs(t, err, ErrRefused)
	}
	p.asked(2)
	_, err := keys.Key(t.Context(), "")
	require.ErrorIs(t, err, ErrRefused)
	_, err = keys.Key(t.Context(), strings.Repeat("x", maxID+1))
	require.ErrorIs(t, err, ErrRefused)

	// A new key is found as soon as that allows.
	p.answers(says(http.StatusOK, keySet("k2", "k3")))
	p.pass(unknownEvery)
	_, err = keys.Key(t.Context(), "k3")
	require.NoError(t, err)
	_, err = keys.Key(t.Context(), "k1")
	require.ErrorIs(t, err, ErrRefused, "it was withdrawn")
	p.asked(3)
}

func TestGoogleAway(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(http.StatusServiceUnavailable, nil))
	keys := Google(p.Options)
	for range 10 {
		_, err := keys.Key(t.Context(), "k1")
		require.ErrorIs(t, err, ErrUnavailable, "it must be sent again")
	}
	p.asked(1)
	p.answers(says(http.StatusOK, keySet("k1"), "Cache-Control", "max-age=600"))
	p.pass(firstPause)
	_, err := keys.Key(t.Context(), "k1")
	require.NoError(t, err)

	for _, answer := range []http.HandlerFunc{says(http.StatusNotFound, nil), says(http.StatusOK, []byte("<html>")), says(http.StatusFound, nil, "Location", "/")} {
		p.answers(answer)
		p.pass(refusedFor)
		_, err = keys.Key(t.Context(), "k1")
		require.NoError(t, err, "the last good one is used on")
		_, err = keys.Key(t.Context(), "k9")
		require.ErrorIs(t, err, ErrUnavailable, "perhaps it is a new one")
	}
	p.pass(600*time.Second + stale)
	_, err = keys.Key(t.Context(), "k1")
	require.ErrorIs(t, err, ErrUnavailable, "but not for ever")
}

func TestKeySets(t *testing.T) {
	t.Parallel()
	point, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	bytes, err := point.PublicKey.Bytes()
	require.NoError(t, err)
	ec := fmt.Sprintf(`{"kty":"EC","crv":"P-256","kid":"e1","x":%q,"y":%q}`, b64(bytes[1:33]), b64(bytes[33:]))
	keys, err := readKeySet([]byte(`{"keys":[` + ec + `,{"kty":"oct","kid":"o1","k":"AAAA"},{"kty":"RSA","use":"enc","kid":"x"}]}`))
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.True(t, point.PublicKey.Equal(keys["e1"]))

	rsaWith := func(n, e string) string { return fmt.Sprintf(`{"keys":[{"kty":"RSA","kid":"k","n":%q,"e":%q}]}`, n, e) }
	modulus := b64(signingKey().N.Bytes())
	odd := new(big.Int).Rsh(signingKey().N, 1200)
	short := b64(odd.SetBit(odd, 0, 1).Bytes())
	for _, text := range []string{
		``, `[]`, `{}`, `{"keys":[]}`, `{"keys":[{"kty":"oct","kid":"o"}]}`, `{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`,
		rsaWith("", "AQAB"), rsaWith(modulus, ""), rsaWith(modulus, "AQ"), rsaWith(modulus, "Ag"), rsaWith(modulus, "AAAAAAAB"), rsaWith(modulus, "_____w"),
		rsaWith(short, "AQAB"), rsaWith(modulus+modulus+modulus+modulus+modulus, "AQAB"), rsaWith("+/", "AQAB"),
		fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","kid":"e","x":%q,"y":%q}]}`, b64(bytes[1:33]), b64(bytes[1:33])),
		`{"keys":[{"kty":"EC","crv":"P-256","kid":"e","x":"AA","y":"AA"}]}`,
		`{"keys":[` + ec + `,` + ec + `]}`,
		`{"keys":[` + strings.Repeat(`{},`, maxKeys) + `{}]}`,
	} {
		_, err := readKeySet([]byte(text))
		require.Error(t, err, "%.80s", text)
	}
}

func TestFreshness(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"":                       usualFresh,
		"no-store":               usualFresh,
		"max-age=600":            600 * time.Second,
		"public, MAX-AGE=\"60\"": time.Minute,
		"max-age=-1":             usualFresh,
		"max-age=x":              usualFresh,
		"max-age=99999999999":    mostFresh,
		"max-age=0":              0,
		"s-maxage=9, max-age=7":  7 * time.Second,
	} {
		require.Equal(t, want, freshness(http.Header{"Cache-Control": {text}}), text)
	}
	require.Equal(t, 400*time.Second, freshness(http.Header{"Cache-Control": {"max-age=600"}, "Age": {"200"}}))
	require.Zero(t, freshness(http.Header{"Cache-Control": {"max-age=600"}, "Age": {"700"}}))
	var d document[int]
	d.now = time.Now
	d.keep(loaded[int]{fresh: 0}, nil)
	require.Equal(t, leastFresh, d.last.fresh)
	d.keep(loaded[int]{fresh: 1000 * time.Hour}, nil)
	require.Equal(t, mostFresh, d.last.fresh)
}

// Whoever decided to fetch before another fetch ended takes what that one brought.
func TestAFetchThatHasEndedIsNotRepeated(t *testing.T) {
	t.Parallel()
	loads := 0
	d := document[int]{now: time.Now, load: func(context.Context) (loaded[int], error) { loads++; return loaded[int]{value: loads}, nil }}
	first, err := d.get(t.Context())
	require.NoError(t, err)
	late, err := d.wait(t.Context(), 0)
	require.NoError(t, err)
	require.Equal(t, first, late)
	require.Equal(t, 1, loads)
}

// away cannot say anything.
type away struct{}

func (away) Key(context.Context, string) (crypto.PublicKey, error) { return nil, ErrUnavailable }

func TestEither(t *testing.T) {
	t.Parallel()
	fixed := Fixed{"PUB_KEY_ID_1": &signingKey().PublicKey}
	find := func(k Keys, id string) error { _, err := k.Key(t.Context(), id); return err }
	require.NoError(t, find(fixed, "PUB_KEY_ID_1"))
	require.ErrorIs(t, find(fixed, "x"), ErrRefused)
	require.NoError(t, find(Either{away{}, fixed}, "PUB_KEY_ID_1"))
	require.NoError(t, find(Either{fixed, away{}}, "PUB_KEY_ID_1"))
	require.ErrorIs(t, find(Either{fixed, away{}}, "x"), ErrUnavailable)
	require.ErrorIs(t, find(Either{away{}, fixed}, "x"), ErrUnavailable)
	require.ErrorIs(t, find(Either{fixed, fixed}, "x"), ErrRefused)
	require.ErrorIs(t, find(Either{}, "x"), ErrRefused)
}

func FuzzKeySet(f *testing.F) {
	f.Add(keySet("k1"))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","kid":"e","x":"AA","y":"AA"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if keys, err := readKeySet(text); err == nil {
			require.NotEmpty(t, keys)
		}
	})
}
