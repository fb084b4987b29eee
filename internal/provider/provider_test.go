package provider

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/pkg/envelope"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Unix(1_750_000_000, 700_000_000)

// text is a value at a place by which faults can be told apart.
func text(value string) config.Text {
	return config.Text{Value: value, Pos: config.Pos{Line: len(value), Column: 1}}
}

// configured is a source of this provider with these secrets.
func configured(provider string, secrets ...string) config.Source {
	src := config.Source{
		Name:     config.Text{Value: "src"},
		Provider: text(provider),
		Mode:     "live",
		Pos:      config.Pos{Line: 1, Column: 3},
	}
	for _, secret := range secrets {
		src.Secrets = append(src.Secrets, config.NewSecret(secret))
	}
	return src
}

func mustNew(t testing.TB, src config.Source) *Source {
	s, faults := New(src)
	require.Empty(t, faults)
	return s
}

func stripeSource(t testing.TB, secrets ...string) *Source {
	return mustNew(t, configured("stripe", secrets...))
}

func verify(s *Source, h http.Header, body []byte, at time.Time) error {
	return s.Verify(context.Background(), Post(h, body), at)
}

// eventOf is the one event of a request.
func eventOf(s *Source, h http.Header, body []byte, at time.Time) *envelope.Event {
	events := s.Events(Post(h, body), at)
	if len(events) != 1 {
		panic("not one event")
	}
	return events[0]
}

// signedHeader are the headers with which the holder of secret sends body.
func signedHeader(t testing.TB, s *Source, body string, at time.Time) http.Header {
	req, err := s.Sign([]byte(body), "evt_1", at)
	require.NoError(t, err)
	return req.Header
}

func TestSignedRequestsVerify(t *testing.T) {
	t.Parallel()
	timed := configured("hmac", "k")
	timed.ID = text("header:X-Event")
	timed.HMAC = &config.HMAC{
		Header: "x-signature", Prefix: "v0=", Encoding: "base64", Algorithm: "sha512",
		Content:         text("{id}.{timestamp}.{body}"),
		TimestampHeader: "x-time", IDHeader: "x-id",
	}
	for name, src := range map[string]config.Source{
		"stripe":             configured("stripe", "whsec_x"),
		"github":             configured("github", "k"),
		"standard webhooks":  configured("standard-webhooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
		"without whsec_":     configured("standard-webhooks", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
		"ed25519 seed":       configured("standard-webhooks", "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="),
		"generic, all parts": timed,
	} {
		t.Run(name, func(t *testing.T) {
			s := mustNew(t, src)
			h := signedHeader(t, s, `{"id":1}`, now)
			require.NoError(t, verify(s, h, []byte(`{"id":1}`), now))
			require.ErrorIs(t, verify(s, h, []byte(`{"id":2}`), now), ErrSignature)
			require.Equal(t, "application/json", h.Get("Content-Type"))
			for _, header := range s.id[0].headers[:min(1, len(s.id[0].headers))] {
				require.Equal(t, "evt_1", h.Get(header))
			}
		})
	}
}

func TestEachSignedPartCounts(t *testing.T) {
	t.Parallel()
	src := configured("hmac", "k")
	src.ID = text("body:id")
	src.HMAC = &config.HMAC{
		Header: "X-Signature", Content: text("{id}.{timestamp}.{body}"),
		TimestampHeader: "X-Time", IDHeader: "X-Id",
	}
	for name, s := range map[string]*Source{
		"generic":  mustNew(t, src),
		"standard": mustNew(t, configured("standard-webhooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")),
	} {
		genuine := signedHeader(t, s, `{}`, now)
		for header := range genuine {
			if header == "Content-Type" {
				continue
			}
			t.Run(name+" "+header, func(t *testing.T) {
				h := genuine.Clone()
				value := []byte(h.Get(header))
				value[len(value)-2] ^= 1
				h.Set(header, string(value))
				require.ErrorIs(t, verify(s, h, []byte(`{}`), now), ErrSignature)
				h.Del(header)
				require.ErrorIs(t, verify(s, h, []byte(`{}`), now), ErrSignature)
				h[header] = []string{genuine.Get(header), genuine.Get(header)}
				require.ErrorIs(t, verify(s, h, []byte(`{}`), now), ErrSignature)
			})
		}
	}
}

// Case 39, 41 and 81: bytes are hashed, whatever the headers say of them.
func TestBodiesAreBytes(t *testing.T) {
	t.Parallel()
	s := stripeSource(t, "k")
	for _, body := range []string{
		`{"id":"evt_E2","note":"café 🎉"}`, "{\"id\":\"evt_1\"}\r\n", "\xEF\xBB\xBF{\"id\":\"evt_1\"}",
		"payload=%7B%7D", "", "\xff\x00", "{\"note\":\"\u2028 \\u00e9 \\/\"}",
	} {
		h := signedHeader(t, s, body, now)
		for _, contentType := range []string{
			"", "application/json; charset=utf-8", "application/json; charset=iso-8859-1",
			"application/json; charset=utf8", "application/x-www-form-urlencoded",
		} {
			h.Set("Content-Type", contentType)
			require.NoError(t, verify(s, h, []byte(body), now))
		}
	}
}

// Case 31 at this level: a refused request leaves nothing behind.
func TestARefusedRequestDoesNotBlockTheGoodOne(t *testing.T) {
	t.Parallel()
	s := stripeSource(t, "k")
	body := `{"id":"evt_C7"}`
	require.ErrorIs(t, verify(s, signedHeader(t, stripeSource(t, "x"), body, now), []byte(body), now), ErrSignature)
	require.NoError(t, verify(s, signedHeader(t, s, body, now), []byte(body), now))
}

// Case 43.
func TestEveryLiveSecretIsTried(t *testing.T) {
	t.Parallel()
	body := `{"id":"evt_E6"}`
	before := signedHeader(t, stripeSource(t, "old"), body, now).Get("Stripe-Signature")
	after := signedHeader(t, stripeSource(t, "new"), body, now).Get("Stripe-Signature")
	_, after, _ = strings.Cut(after, ",")
	both := http.Header{"Stripe-Signature": {before + "," + after}}

	require.NoError(t, verify(stripeSource(t, "new"), both, []byte(body), now))
	require.NoError(t, verify(stripeSource(t, "old"), both, []byte(body), now))
	require.NoError(t, verify(stripeSource(t, "new", "old"), both, []byte(body), now))
	require.ErrorIs(t, verify(stripeSource(t, "third"), both, []byte(body), now), ErrSignature)

	later := now.Add(24 * time.Hour)
	retired := signedHeader(t, stripeSource(t, "old"), body, later)
	require.ErrorIs(t, verify(stripeSource(t, "new"), retired, []byte(body), later), ErrSignature)
	require.NoError(t, verify(stripeSource(t, "new", "old"), retired, []byte(body), later))

	standardOld := mustNew(t, configured("standard-webhooks", "whsec_b2xkIHNlY3JldA=="))
	rotated := mustNew(t, configured("standard-webhooks",
		"whsec_bmV3IHNlY3JldA==", "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=", "whsec_b2xkIHNlY3JldA=="))
	h := signedHeader(t, standardOld, body, now)
	h.Set("Webhook-Signature", "v1,AAAA v1a,AAAA v2,x "+h.Get("Webhook-Signature"))
	require.NoError(t, verify(rotated, h, []byte(body), now))
}

// Case 44.
func TestIgnoredSchemesDoNotCount(t *testing.T) {
	t.Parallel()
	s := stripeSource(t, "k")
	body := []byte(`{"id":"evt_E7"}`)
	good := signedHeader(t, s, string(body), now).Get("Stripe-Signature")
	stamp, digest, _ := strings.Cut(good, ",v1=")
	for name, value := range map[string]string{
		"v0 only":           stamp + ",v0=" + digest,
		"empty v1":          stamp + ",v1=",
		"v1 twice prefixed": stamp + ",v1=v1=" + digest,
		"500 parts":         stamp + strings.Repeat(",v1="+digest, 500),
		"17 parts":          stamp + strings.Repeat(",v1=00", 15) + ",v1=" + digest,
		"two times":         stamp + ",t=1," + "v1=" + digest,
		"an old time too":   "t=1," + good,
		"only the digest":   digest,
		"nothing":           "",
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, verify(s, http.Header{"Stripe-Signature": {value}}, body, now), ErrSignature)
		})
	}
	require.NoError(t, verify(s, http.Header{"Stripe-Signature": {
		stamp + strings.Repeat(",v1=00", 14) + ",v1=" + digest,
	}}, body, now))

	// A shared key says nothing about v1a.
	standard := mustNew(t, configured("standard-webhooks", "whsec_b2xkIHNlY3JldA=="))
	h := signedHeader(t, standard, "{}", now)
	h.Set("Webhook-Signature", strings.Replace(h.Get("Webhook-Signature"), "v1,", "v1a,", 1))
	require.ErrorIs(t, verify(standard, h, []byte("{}"), now), ErrSignature)

	h = signedHeader(t, standard, "{}", now)
	signature := h.Get("Webhook-Signature")
	h.Set("Webhook-Signature", strings.Repeat("v1, ", 15)+signature)
	require.NoError(t, verify(standard, h, []byte("{}"), now))
	h.Set("Webhook-Signature", strings.Repeat("v1, ", 16)+signature)
	require.ErrorIs(t, verify(standard, h, []byte("{}"), now), ErrSignature)
}

// Case 45.
func TestTheClockIsHeldToTheTolerance(t *testing.T) {
	t.Parallel()
	body := []byte(`{"id":"evt_E8"}`)
	s := stripeSource(t, "k")
	for _, row := range []struct {
		offset time.Duration
		ok     bool
	}{
		{-299 * time.Second, true}, {-300 * time.Second, true}, {-301 * time.Second, false},
		{299 * time.Second, true}, {301 * time.Second, false}, {10 * time.Minute, false},
	} {
		err := verify(s, signedHeader(t, s, string(body), now.Add(row.offset)), body, now)
		if row.ok {
			require.NoError(t, err, row.offset)
		} else {
			require.ErrorIs(t, err, ErrSignature, row.offset)
		}
	}

	// The text of the time is signed as it stands, so only its reading can refuse it.
	m := s.scheme.(*mac)
	for _, stamp := range []string{
		"1750000000000", "abc", "", "-1", "+1750000000", " 1750000000", "1750000000.5", "1e9", "99999999999999999999",
	} {
		sum := newKey(m.hash, []byte("k")).Get().(*hasher).sum(m.content, &signed{stamp: stamp, body: body})
		value := "t=" + stamp + ",v1=" + hexText.encode(sum)
		require.ErrorIs(t, verify(s, http.Header{"Stripe-Signature": {value}}, body, now), ErrSignature, stamp)
	}

	short := configured("stripe", "k")
	short.Tolerance = 5 * time.Second
	s = mustNew(t, short)
	require.NoError(t, verify(s, signedHeader(t, s, string(body), now.Add(-5*time.Second)), body, now))
	require.ErrorIs(t, verify(s, signedHeader(t, s, string(body), now.Add(-6*time.Second)), body, now), ErrSignature)
}

// Case 48.
func TestOddSignaturesAreRefusedQuietly(t *testing.T) {
	t.Parallel()
	s := mustNew(t, configured("github", "k"))
	body := []byte(`{}`)
	good := signedHeader(t, s, string(body), now).Get("X-Hub-Signature-256")
	digest := strings.TrimPrefix(good, "sha256=")
	sum := newKey(s.scheme.(*mac).hash, []byte("k")).Get().(*hasher).sum(template{bodyPart}, &signed{body: body})

	accepted := []string{
		"X-Hub-Signature-256: " + good,
		"X-Hub-Signature-256: sha256=" + strings.ToUpper(digest),
		"x-hub-signature-256: " + good,
	}
	refused := []string{
		"X-Hub-Signature-256: sha256=",
		"X-Hub-Signature-256:",
		"X-Hub-Signature-256: sha256=" + digest[1:],
		"X-Hub-Signature-256: sha256=" + digest[2:],
		"X-Hub-Signature-256: sha256=" + digest + "00",
		"X-Hub-Signature-256: sha256=" + digest[:62] + "zz",
		"X-Hub-Signature-256: sha256=" + base64Text.encode(sum),
		"X-Hub-Signature-256: " + digest,
		"X-Hub-Signature-256: SHA256=" + digest,
		"X-Hub-Signature-256: sha256=" + strings.Repeat("a", 10_000),
		"X-Hub-Signature-256: " + good + "\r\nX-Hub-Signature-256: " + good,
		"X-Hub-Signature: " + good,
		"X-Nothing: 1",
	}
	verify := func(lines string) error {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST / HTTP/1.1\r\nHost: h\r\n" + lines + "\r\n\r\n")))
		require.NoError(t, err)
		return verify(s, r.Header, body, now)
	}
	for _, lines := range accepted {
		require.NoError(t, verify(lines), lines)
	}
	for _, lines := range refused {
		require.ErrorIs(t, verify(lines), ErrSignature, lines)
	}
}

func TestALongSignatureIsNotCut(t *testing.T) {
	t.Parallel()
	src := genericConfig()
	src.HMAC.Algorithm = "sha512"
	s := mustNew(t, src)
	h := signedHeader(t, s, "{}", now)
	require.NoError(t, verify(s, h, []byte("{}"), now))
	h.Set("X-Signature", h.Get("X-Signature")+"00")
	require.ErrorIs(t, verify(s, h, []byte("{}"), now), ErrSignature)
}

func TestAnEmptySignedIDIsRefused(t *testing.T) {
	t.Parallel()
	s := mustNew(t, configured("standard-webhooks", "whsec_b2xkIHNlY3JldA=="))
	req, err := s.Sign([]byte("{}"), "", now)
	require.NoError(t, err)
	require.ErrorIs(t, verify(s, req.Header, []byte("{}"), now), ErrSignature)
}

func TestAPublicKeyAloneCannotSign(t *testing.T) {
	t.Parallel()
	s := mustNew(t, configured("standard-webhooks", "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="))
	_, err := s.Sign([]byte("{}"), "msg_1", now)
	require.ErrorContains(t, err, "sign request of src")
}

// An id that somebody adds to a genuine request must not become the event's.
func TestTheVerifiedIDIsTheEventID(t *testing.T) {
	t.Parallel()
	s := mustNew(t, configured("standard-webhooks", "whsec_b2xkIHNlY3JldA=="))
	body := []byte(`{"type":"a"}`)
	h := signedHeader(t, s, string(body), now)
	svix := http.Header{
		"Svix-Id":        h["Webhook-Id"],
		"Svix-Timestamp": h["Webhook-Timestamp"],
		"Svix-Signature": h["Webhook-Signature"],
	}
	require.NoError(t, verify(s, svix, body, now))
	require.Equal(t, "evt_1", eventOf(s, svix, body, now).ID)

	svix["Webhook-Id"] = []string{"evt_2"}
	require.ErrorIs(t, verify(s, svix, body, now), ErrSignature)

	h["Svix-Id"] = []string{"evt_2"}
	require.NoError(t, verify(s, h, body, now))
	require.Equal(t, "evt_1", eventOf(s, h, body, now).ID)
}

func TestRefusalsTellNoSecretsAndNoInput(t *testing.T) {
	t.Parallel()
	s := mustNew(t, configured("github", "very secret"))
	h := http.Header{"X-Hub-Signature-256": {"sha256=injected"}}
	err := verify(s, h, []byte("{}"), now)
	require.EqualError(t, err,
		"verify request: bad signature: no signature in header X-Hub-Signature-256 matches a live secret")
}

func TestPresetData(t *testing.T) {
	t.Parallel()
	s := stripeSource(t, "k")
	require.True(t, s.HasMode())
	require.True(t, s.LowerCurrency())
	require.Contains(t, s.FingerprintPaths(), []string{"data", "object", "amount"})
	require.Equal(t, Ack{Status: 200}, s.Ack())
	require.Equal(t, 401, s.Reject().Status)

	for _, provider := range []string{"github", "standard-webhooks"} {
		s := mustNew(t, configured(provider, "b2xkIHNlY3JldA=="))
		require.False(t, s.HasMode())
		require.False(t, s.LowerCurrency())
		require.Empty(t, s.FingerprintPaths())
	}
	require.Len(t, Names(), len(presets))
	require.True(t, slices.IsSorted(Names()))
}
