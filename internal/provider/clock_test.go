package provider

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUnixSeconds(t *testing.T) {
	t.Parallel()
	seconds, ok := unixSeconds("999999999999")
	require.True(t, ok)
	require.EqualValues(t, 999_999_999_999, seconds)
	for _, stamp := range []string{"", "0000000000000", "1x", "-1", "+1", " 1", "1.0", "١"} {
		_, ok := unixSeconds(stamp)
		require.False(t, ok, stamp)
	}
}

func TestATimeInMillisecondsIsNamed(t *testing.T) {
	t.Parallel()
	s := mustNew(t, configured("stripe", "whsec_b2xkIHNlY3JldA=="))
	for stamp, want := range map[string]string{"1750000000000": "is in milliseconds", "175000000000x": "not in unix seconds", "": "not in unix seconds"} {
		h := http.Header{"Stripe-Signature": {"t=" + stamp + ",v1=" + strings.Repeat("0", 64)}}
		require.ErrorContains(t, verify(s, h, []byte("{}"), now), want, stamp)
	}
}
