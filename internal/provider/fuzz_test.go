package provider

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fuzzed is a source, and where its requests carry what.
type fuzzed struct {
	source               *Source
	signature, prefix    string
	idHeader, timeHeader string
}

// FuzzVerify feeds each scheme headers from outside: whatever they are, a
// request is accepted only if it holds the signature that the secret makes.
func FuzzVerify(f *testing.F) {
	targets := []fuzzed{
		{source: stripeSource(f, "k"), signature: "Stripe-Signature", prefix: "v1="},
		{source: mustNew(f, configured("github", "k")), signature: "X-Hub-Signature-256", prefix: "sha256="},
		{
			source: mustNew(f, configured("standard-webhooks", "whsec_b2xkIHNlY3JldA==",
				"whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=")),
			signature: "Webhook-Signature", prefix: "v1,",
			idHeader: "Webhook-Id", timeHeader: "Webhook-Timestamp",
		},
	}
	for _, target := range targets {
		value := signedHeader(f, target.source, "{}", now).Get(target.signature)
		f.Add(value, "evt_1", "1750000000", "{}")
		f.Add(value+" v1,AAAA v1a,"+strings.Repeat("A", 86)+"==", "evt_1", "1750000000", "{}")
		f.Add(strings.ToUpper(value), "", "", "{}")
		f.Add(strings.Replace(value, "t=", "t=1,t=", 1), "", "", "{}")
	}
	f.Fuzz(func(t *testing.T, value, id, stamp, body string) {
		for _, target := range targets {
			h := http.Header{target.signature: {value}}
			if target.idHeader != "" {
				h[target.idHeader], h[target.timeHeader] = []string{id}, []string{stamp}
			}
			if err := verify(target.source, h, []byte(body), now); err != nil {
				require.ErrorIs(t, err, ErrSignature)
				continue
			}
			require.True(t, target.genuine(t, value, id, stamp, body), "%q is accepted", value)
		}
	})
}

// genuine reports whether value holds the signature that the source's own
// secret makes of the body, at the time the request names.
func (z fuzzed) genuine(t *testing.T, value, id, stamp, body string) bool {
	for part := range strings.SplitSeq(value, ",") {
		if rest, ok := strings.CutPrefix(part, "t="); ok {
			stamp = rest
		}
	}
	seconds, _ := unixSeconds(stamp)
	req, err := z.source.Sign([]byte(body), id, time.Unix(seconds, 0))
	require.NoError(t, err)
	_, digest, found := strings.Cut(req.Header.Get(z.signature), z.prefix)
	require.True(t, found)
	return strings.Contains(strings.ToLower(value), strings.ToLower(digest))
}
