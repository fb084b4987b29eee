package provider

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

// The values are openssl's: printf '1750000000.%s' "$body" | openssl dgst -sha512 -hmac sk_test_1.
func TestPaystackForms(t *testing.T) {
	const (
		body  = `{"event":"charge.success","data":{"id":1}}`
		plain = "7eecf60076339fb3fa0714e3b1b9e870f06c5ac9561c42af5c6f1ecc62c015de21bd5f92f72982c97e369001d55e1526e38b3a378bad00ffb9da98b89eb4c9d8"
		exact = "024c3884bf24c323a6c33276ce7a072797a444f492cd5e37ae1fbe7b78b420050fa70e5b9d487cb44eac135880db0c8b22608aa34754d6d350ed2254ff6d5db9"
		old   = "27a79b668ba700a69e0c7c92f8ad6979104451bdf3ec9f9c5053950a0d09e7ad571ee1d4f7ddffdad050d80a7a2b572441394e746a289b262b2523b064eb5417"
		ahead = "8ba00a2a89fc759055aa644caf5548e73c6aa389b39b8d7570d7a23b574fc33e8cbce23eb029213635526fceeb0c8947ca8d3b06ed64f520076c1384fe3ef5a0"
		older = "e0d97b06a70ae4d44b7e3172f54a0130dc0bdbcff7e655cb5bddc8da4d6bef77d3a2f720184251a3301832c252d5cf3c619edb063e3c3b79ee13f028c2c51135"
		later = "4a78e5bd6822ebaf1f88402f7195ab3d790df02a9346e2eafac2042d8a58efdd466cdea71f7aeda20c91649fb655d2af7cac494b36e46af14e3703cd864eaad4"
	)
	s := mustNew(t, config.Source{Provider: config.Text{Value: "paystack"}, Secrets: []config.Secret{config.NewSecret("sk_other"), config.NewSecret("sk_test_1")}})
	for _, c := range []struct{ name, value, wrong string }{
		{"the body alone", plain, ""},
		{"the time and the body", "t=1750000000,v1=kid_1:" + exact, ""},
		{"spaces between the parts", "t=1750000000, v1=kid_1:" + exact, ""},
		{"the time last", "v1=kid_1:" + exact + ",t=1750000000", ""},
		{"an empty name", "t=1750000000,v1=:" + exact, ""},
		{"two keys sign, one of them is ours", "t=1750000000,v1=kid_0:" + plain + ",v1=kid_1:" + exact, ""},
		{"five minutes ago", "t=1749999700,v1=kid_1:" + old, ""},
		{"in five minutes", "t=1750000300,v1=kid_1:" + ahead, ""},

		{"too old", "t=1749999699,v1=kid_1:" + older, "5m1s away"},
		{"too far ahead", "t=1750000301,v1=kid_1:" + later, "5m1s away"},
		{"the time of another request", "t=1750000001,v1=kid_1:" + exact, "no signature"},
		{"no name", "t=1750000000,v1=" + exact, "no signature"},
		{"a signature of the body alone", "t=1750000000,v1=kid_1:" + plain, "no signature"},
		{"a signature of the time, too", exact, "no signature"},
		{"another version", "t=1750000000,v0=kid_1:" + exact, "no signature"},
		{"no time", "v1=kid_1:" + exact, "0 times"},
		{"two times", "t=1750000000,t=1750000000,v1=kid_1:" + exact, "2 times"},
		{"a part of a signature", "t=1750000000,v1=kid_1:" + exact[:64], "no signature"},
		{"too many parts", "t=1750000000," + strings.Repeat("v1=a:b,", maxParts) + "v1=kid_1:" + exact, "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := Request{Method: http.MethodPost, Body: []byte(body), Header: http.Header{"X-Paystack-Signature": {c.value}}}
			err := s.Verify(context.Background(), req, now)
			if c.wrong == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrSignature)
			require.ErrorContains(t, err, c.wrong)
		})
	}

	// The text of the newer form, as the body of the older one, would know no clock.
	replayed := Request{Method: http.MethodPost, Body: []byte("1750000000." + body), Header: http.Header{"X-Paystack-Signature": {exact}}}
	require.ErrorIs(t, s.Verify(context.Background(), replayed, now.Add(24*time.Hour)), ErrSignature)

	explained := s.Explain(context.Background(), Request{
		Method: http.MethodPost, Body: []byte(body), Header: http.Header{"X-Paystack-Signature": {"t=1750000000,v1=kid_1:00"}},
	}, now)
	require.Equal(t, "v1=KEY:"+exact, explained.Steps[len(explained.Steps)-1].Expected)

	own := mustNew(t, config.Source{
		Provider: config.Text{Value: "paystack"}, Secrets: []config.Secret{config.NewSecret("sk_test_1")}, Tolerance: time.Minute,
	})
	for value, wrong := range map[string]bool{plain: false, "t=1749999700,v1=kid_1:" + old: true} {
		err := own.Verify(context.Background(), Request{Body: []byte(body), Header: http.Header{"X-Paystack-Signature": {value}}}, now)
		require.Equal(t, wrong, err != nil, err)
	}
}
