package explain_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/explain"
	"github.com/onceledger/onceledger/internal/provider"
)

func TestWhatPassesIsReadAsTheReceiverReadsIt(t *testing.T) {
	t.Parallel()
	why := func(source, text string) *explain.Report {
		return explain.Explain(t.Context(), shared(), source, captured(t, text), now)
	}
	t.Run("an event", func(t *testing.T) {
		t.Parallel()
		r := why("stripe", wire(sign("stripe", `{"id":"evt_1","type":"charge.succeeded","livemode":false,"account":"acct_1"}`), "/webhooks/stripe"))
		require.NoError(t, r.Err)
		require.Equal(t, http.StatusOK, r.Answer.Status)
		require.Len(t, r.Events, 1)
		require.Equal(t, "test/acct_1/evt_1", r.Events[0].ID)
		require.Empty(t, r.Notes)
		require.Zero(t, r.Tried)
	})
	t.Run("one that will be parked", func(t *testing.T) {
		t.Parallel()
		r := why("github", wire(sign("github", `not JSON`), "/webhooks/github"))
		require.NoError(t, r.Err)
		require.Equal(t, "bad_json", r.Events[0].Fault)
	})
	t.Run("a batch with the provider's own answer", func(t *testing.T) {
		t.Parallel()
		r := why("adyen", wire(sign("adyen", `{"live":"true","notificationItems":[{"NotificationRequestItem":{"eventCode":"A","pspReference":"P1"}},`+
			`{"NotificationRequestItem":{"eventCode":"A","pspReference":"P2"}}]}`), "/webhooks/adyen"))
		require.NoError(t, r.Err)
		require.Len(t, r.Events, 2)
		require.Equal(t, http.StatusAccepted, r.Answer.Status)
		require.Equal(t, "[accepted]", string(r.Answer.Body))
	})
	t.Run("a compressed body", func(t *testing.T) {
		t.Parallel()
		req := sign("github", plain)
		req.Body = []byte(compressed(plain))
		req.Header.Set("Content-Encoding", "gzip")
		r := why("github", wire(req, "/webhooks/github"))
		require.NoError(t, r.Err)
		require.Contains(t, r.Notes[0], "the body was compressed (gzip)")
	})
	t.Run("a body that the tool has decompressed", func(t *testing.T) {
		t.Parallel()
		req := sign("github", plain)
		req.Header.Set("Content-Encoding", "gzip")
		r := why("github", wire(req, "/webhooks/github"))
		require.NoError(t, r.Err)
		require.Contains(t, r.Notes[0], "Content-Encoding says gzip, and the body is not")
	})
	t.Run("a handshake that comes unsigned", func(t *testing.T) {
		t.Parallel()
		r := why("meta", "GET /webhooks/meta?hub.mode=subscribe&hub.verify_token=token-of-meta&hub.challenge=42 HTTP/1.1\n\n")
		require.NoError(t, r.Err)
		require.True(t, r.Handshake)
		require.Equal(t, "42", string(r.Answer.Body))
	})
	t.Run("a handshake that has to be signed", func(t *testing.T) {
		t.Parallel()
		r := why("slack", wire(sign("slack", `{"type":"url_verification","challenge":"c"}`), "/webhooks/slack"))
		require.NoError(t, r.Err)
		require.True(t, r.Handshake)
		require.Equal(t, "c", string(r.Answer.Body))
		require.Empty(t, r.Events)
	})
	t.Run("one that was sent to another source", func(t *testing.T) {
		t.Parallel()
		r := why("github", wire(sign("github", plain), "/webhooks/shop"))
		require.NoError(t, r.Err)
		require.Equal(t, []string{"it was sent to /webhooks/shop, and is verified for github"}, r.Notes)
	})
}

func TestWhatIsRefusedBeforeItsSignature(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*provider.Request)
		status int
		err    string
	}{
		"with another method": {func(r *provider.Request) { r.Method = http.MethodPut }, http.StatusMethodNotAllowed, "the method is PUT"},
		"too large":           {body(strings.Repeat("x", 64<<10+1)), http.StatusRequestEntityTooLarge, "receiver.max_body is 65536"},
		"in another encoding": {set("Content-Encoding", "br"), http.StatusUnsupportedMediaType, "br"},
		"too large inside": {func(r *provider.Request) {
			r.Body = []byte(compressed(strings.Repeat("x", 64<<10+1)))
			r.Header.Set("Content-Encoding", "gzip")
		}, http.StatusRequestEntityTooLarge, "65536"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := sign("github", plain)
			row.change(&req)
			r := explain.Explain(t.Context(), shared(), "github", captured(t, wire(req, "/webhooks/github")), now)
			require.ErrorContains(t, r.Err, row.err)
			require.Equal(t, row.status, r.Answer.Status)
			require.Empty(t, r.Steps)
			require.Empty(t, r.Events)
		})
	}
}

// What cannot be proven is told as a hint.
func TestHintsWhereNoCauseIsFound(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		source string
		change func(*provider.Request)
		want   string
	}{
		"a body that is cut off":       {"github", func(r *provider.Request) { r.Header.Set("Content-Length", "99"); r.Body = r.Body[:20] }, "the body is cut off: 20 of 99 bytes are here"},
		"no body":                      {"stripe", body(""), "there is no body"},
		"an object of JavaScript":      {"stripe", body("[object Object]"), "does not serialise"},
		"replaced bytes":               {"github", body("{\"n\":\"Zo\uFFFD\"}"), "U+FFFD"},
		"replaced characters":          {"github", body(`{"n":"Zo??"}`), `holds "??"`},
		"another amount, indented":     {"github", body("{\n  \"amount\": 11\n}"), "the body is indented"},
		"no signature":                 {"shop", func(r *provider.Request) { r.Header.Del("X-Shopify-Hmac-Sha256") }, "a header is missing"},
		"a secret that nobody knows":   {"stripe", signedAs("stripe", "whsec_of_a_third", plain), "`stripe listen` prints one of its own"},
		"another secret than Stripe's": {"github", signedAs("github", "a third secret", plain), "what remains is another secret"},
		"another key":                  {"sendgrid", body(plain + "x"), "what remains is another"},
		"a webhook id nobody knows":    {"paypal", set("Paypal-Transmission-Id", "x"), "what remains is another webhook_id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := sign(row.source, plain)
			row.change(&req)
			r := explain.Explain(t.Context(), shared(), row.source, captured(t, wire(req, "/webhooks/"+row.source)), now)
			require.ErrorIs(t, r.Err, provider.ErrSignature)
			require.Empty(t, r.Causes)
			require.Greater(t, r.Tried, 10)
			require.Contains(t, strings.Join(r.Hints, "\n"), row.want)
		})
	}
}

// A cause is proven: whatever a stranger's request looks like, nothing is found.
func TestNoCauseIsMadeUp(t *testing.T) {
	t.Parallel()
	for name := range shared().Sources {
		req := sign(name, `{"live":"true","notificationItems":[{"NotificationRequestItem":{"pspReference":"P1"}}]}`)
		for header, values := range req.Header {
			if header != "Content-Type" {
				req.Header[header] = []string{strings.Map(func(r rune) rune {
					if r == 'a' || r == 'A' {
						return 'b'
					}
					return r
				}, values[0]) + "00"}
			}
		}
		req.Query = "token=guess"
		req.Body = append(req.Body, ' ', 'x')
		r := explain.Explain(t.Context(), shared(), name, captured(t, wire(req, "/webhooks/"+name)), now.Add(time.Hour))
		require.ErrorIs(t, r.Err, provider.ErrSignature, name)
		require.Empty(t, r.Causes, name)
	}
}

// Indenting a document costs the square of its depth: a deep one is not indented.
func TestADeepBodyIsExplainedInTime(t *testing.T) {
	t.Parallel()
	req := sign("github", plain)
	req.Body = []byte(strings.Repeat("[", 9000) + "1" + strings.Repeat("]", 9000))
	r := explain.Explain(t.Context(), shared(), "github", captured(t, wire(req, "/webhooks/github")), now)
	require.Empty(t, r.Causes)
	shallow := explain.Explain(t.Context(), shared(), "github", captured(t, wire(withBody(req, "[[1]]"), "/webhooks/github")), now)
	require.Less(t, r.Tried, shallow.Tried)
}

func withBody(req provider.Request, text string) provider.Request {
	req.Body = []byte(text)
	return req
}
