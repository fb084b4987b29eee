package provider

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v82/webhook"
)

// Stripe's own library makes what we accept, and accepts what we make; and of
// requests that somebody tampered with it accepts the same ones.
func TestStripesLibraryAgrees(t *testing.T) {
	t.Parallel()
	const secret, wrong = "whsec_test_secret", "whsec_another"
	s := stripeSource(t, secret)
	random := rand.New(rand.NewPCG(1, 2))
	body := s.Sample("evt_1")

	ours, err := s.Sign(body, "evt_1", time.Now())
	require.NoError(t, err)
	require.NoError(t, webhook.ValidatePayload(ours.Body, ours.Header.Get("Stripe-Signature"), secret))
	require.Error(t, webhook.ValidatePayload(ours.Body, ours.Header.Get("Stripe-Signature"), wrong))

	accepted := 0
	for range 2000 {
		at := time.Now()
		age := 2 * random.IntN(200)
		if age >= 300 {
			age += 2 // between 300 and 301 they count fractions, and we do not
		}
		theirs := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{
			Payload: body, Secret: []string{secret, wrong}[random.IntN(2)],
			Timestamp: at.Add(-time.Duration(age) * time.Second),
		})
		value, sent := []byte(theirs.Header), bytes.Clone(theirs.Payload)
		switch random.IntN(4) { // half of them stay as they are
		case 0:
			value[random.IntN(len(value))] ^= byte(1 << random.IntN(7))
		case 1:
			sent[random.IntN(len(sent))] ^= byte(1 << random.IntN(8))
		}
		want := webhook.ValidatePayload(sent, string(value), secret)
		got := verify(s, http.Header{"Stripe-Signature": {string(value)}}, sent, at)
		if want == nil {
			accepted++
			require.NoError(t, got, "%s", value)
			continue
		}
		require.ErrorIs(t, got, ErrSignature, "%s: %v", value, want)
	}
	require.Greater(t, accepted, 100)
}
