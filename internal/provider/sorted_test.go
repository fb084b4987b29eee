package provider

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// Case 50: fields are joined by ampersands that are not escaped, so that a buyer's
// text in one could be signed for others.
func TestFieldsThatReadAsSeveralAreRefused(t *testing.T) {
	t.Parallel()
	s := mustNew(t, sourceOf(t, "wechatpay-v2"))
	for attach, ok := range map[string]bool{
		"user=1&order=2":       true, // no fields of WeChat's
		"a&b":                  true,
		"a&total_fee":          true,
		"a&total_fee=99999":    false,
		"a&x=1&mch_id=2&y=3":   false,
		"a&&transaction_id=t1": false,
	} {
		body, _, err := s.Compose(Sample{ID: "t1", Set: []string{"xml.attach=" + attach}})
		require.NoError(t, err)
		req, err := s.Sign(body, "t1", now)
		require.NoError(t, err)
		require.Equal(t, ok, s.Verify(t.Context(), req, now) == nil, attach)
	}
	// The request of whoever splits such a text anew: its last field takes the rest.
	forged := `<xml><a>1</a><total_fee>99999</total_fee><x>&amp;transaction_id=t1</x></xml>`
	req, err := s.Sign([]byte(forged), "", now)
	require.NoError(t, err)
	require.ErrorIs(t, s.Verify(t.Context(), req, now), ErrSignature)

	ali := mustNew(t, sourceOf(t, "alipay"))
	for passback, ok := range map[string]bool{"user=1&order=2": true, "a&out_trade_no=other": false, "a%26out_trade_no%3Dother": true} {
		req, err := ali.Sign([]byte("notify_id=1&app_id=a&passback_params="+url.QueryEscape(passback)), "", now)
		require.NoError(t, err)
		require.Equal(t, ok, ali.Verify(t.Context(), req, now) == nil, passback)
	}
}
