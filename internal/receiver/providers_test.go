package receiver

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// Case 73: a request with many events is answered when each of them is stored,
// under a key of its own.
func TestABatchIsStoredEventByEvent(t *testing.T) {
	t.Parallel()
	r := newRigFor(t, shared.Addresses, `{provider: gocardless, secrets: [long-enough]}`)
	items := make([]string, 250)
	for i := range items {
		items[i] = fmt.Sprintf(`{"id":"EV%d","resource_type":"payments","action":"confirmed"}`, i)
	}
	items[100] = `{"resource_type":"payments"}`
	items[200] = items[1]
	body := `{"events":[` + strings.Join(items, ",") + `]}`

	got := r.must(r.request(body))
	require.Equal(t, http.StatusNoContent, got.status)
	require.Empty(t, got.body)
	require.Len(t, r.stored(), 249, "the one that is there twice shares its message")
	ids := r.ids()
	for i := range items {
		if i != 100 && i != 200 {
			require.Equal(t, 1, ids[fmt.Sprintf("EV%d", i)])
		}
	}
	require.InDelta(t, 1, testutil.ToFloat64(r.server.metrics.faults.WithLabelValues(r.name, "no_event_id")), 0)

	// A resend finds what is there.
	require.Equal(t, http.StatusNoContent, r.must(r.request(body)).status)
	require.Len(t, r.stored(), 250, "only the one without an id is stored again")

	// Unless all are stored, none is answered for.
	r.remove()
	more := strings.ReplaceAll(body, "EV", "EX")
	require.Equal(t, http.StatusServiceUnavailable, r.must(r.request(more)).status)
	r.create(1 << 30)
	require.Eventually(t, func() bool { return r.must(r.request(more)).status == http.StatusNoContent }, patience, 50*time.Millisecond)
	ids = r.ids()
	require.Equal(t, 1, ids["EX249"])
}

// Case 79: what sets an endpoint up is answered, and is no event.
func TestHandshakesAreNotStored(t *testing.T) {
	t.Parallel()
	meta := newRigFor(t, shared.Addresses, `{provider: meta, secrets: [long-enough], verify_token: verify-me}`)
	get := func(query string) reply {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, meta.url+query, nil)
		require.NoError(t, err)
		return meta.must(req)
	}
	got := get("?hub.mode=subscribe&hub.verify_token=verify-me&hub.challenge=123")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "123", got.body)
	require.Equal(t, "text/plain; charset=utf-8", got.header.Get("Content-Type"))
	require.Equal(t, "nosniff", got.header.Get("X-Content-Type-Options"))
	require.Equal(t, http.StatusForbidden, get("?hub.mode=subscribe&hub.verify_token=x&hub.challenge=123").status)
	require.Equal(t, http.StatusMethodNotAllowed, get("").status)
	require.Empty(t, meta.stored())

	graph := newRigFor(t, shared.Addresses, `{provider: microsoft-graph, secrets: [client-state]}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, graph.url+"?validationToken=%3Cscript%3E", nil)
	require.NoError(t, err)
	got = graph.must(req)
	require.Equal(t, "<script>", got.body)
	require.Equal(t, "text/plain; charset=utf-8", got.header.Get("Content-Type"))

	slack := newRigFor(t, shared.Addresses, `{provider: slack, secrets: [long-enough]}`)
	challenge := `{"type":"url_verification","challenge":"abc"}`
	require.Equal(t, "abc", slack.must(slack.request(challenge)).body)
	forged := slack.request(challenge)
	forged.Header.Set("X-Slack-Signature", "v0=00")
	require.Equal(t, http.StatusUnauthorized, slack.must(forged).status)
	require.InDelta(t, 1, testutil.ToFloat64(slack.server.metrics.deliveries.WithLabelValues(slack.name, "handshake")), 0)
	require.Empty(t, graph.stored())
	require.Empty(t, slack.stored())
}

// Case 63 and 78: each outcome is said in the provider's own words.
func TestAnswersAreTheProviders(t *testing.T) {
	t.Parallel()
	xsolla := newRigFor(t, shared.Addresses, `{provider: xsolla, secrets: [long-enough]}`)
	req := xsolla.request(`{"notification_type":"payment","transaction":{"id":1}}`)
	require.Equal(t, http.StatusNoContent, xsolla.must(req).status)
	req = xsolla.request(`{"notification_type":"payment","transaction":{"id":1}}`)
	req.Header.Set("Authorization", "Signature 00")
	got := xsolla.must(req)
	require.Equal(t, http.StatusBadRequest, got.status)
	require.JSONEq(t, `{"error":{"code":"INVALID_SIGNATURE","message":"Invalid signature"}}`, got.body)

	adyen := newRigFor(t, shared.Addresses, `{provider: adyen, secrets: [`+strings.Repeat("0a", 32)+`]}`)
	got = adyen.must(adyen.request(string(adyen.cat.Sources[adyen.name].Sample("P1"))))
	require.Equal(t, http.StatusAccepted, got.status)
	require.Equal(t, "[accepted]", got.body)

	wechat := newRigFor(t, shared.Addresses, `{provider: wechatpay-v2, secrets: [long-enough]}`)
	notice := string(wechat.cat.Sources[wechat.name].Sample("t1"))
	got = wechat.must(wechat.request(notice))
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "<xml><return_code><![CDATA[SUCCESS]]></return_code><return_msg><![CDATA[OK]]></return_msg></xml>", got.body)
	wechat.remove()
	got = wechat.must(wechat.request(strings.Replace(notice, "t1", "t2", 1)))
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Contains(t, got.body, "FAIL")
	require.Equal(t, retryAfter, got.header.Get("Retry-After"))
}

// Case 33: a hint is stored as often as it comes, each time as one of its own.
func TestHintsAreNeverTheSame(t *testing.T) {
	t.Parallel()
	r := newRigFor(t, shared.Addresses, `{provider: mollie-classic, secrets: [in-the-url]}`)
	for range 3 {
		require.Equal(t, http.StatusOK, r.send("id=tr_C9"))
	}
	events := r.stored()
	require.Len(t, events, 3)
	require.Len(t, r.ids(), 3)
	for _, event := range events {
		require.Equal(t, "needs_fetch", event.Fault)
		require.Equal(t, "id=tr_C9", string(event.Data))
	}
	req := r.request("id=tr_C9")
	req.URL.RawQuery = ""
	require.Equal(t, http.StatusUnauthorized, r.must(req).status)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"?token=guessed", bytes.NewReader([]byte("id=tr_C9")))
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, r.must(req).status)
	require.Len(t, r.stored(), 3)
}
