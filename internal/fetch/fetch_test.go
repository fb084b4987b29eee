package fetch

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

// row is what one provider's API is asked and tells.
type row struct {
	provider, hint, path string
	header               http.Header
	answer               string
	facts                []Fact // Body is compared where it is set
	known                string // Ask.ID
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

const molliePayment = `{"resource":"payment","id":"tr_5B8cwPMGnU","mode":"live","amount":{"currency":"EUR","value":"10.00"},"status":"paid","paidAt":"2024-03-20T09:14:00+01:00","createdAt":"2024-03-20T09:13:37+00:00","_embedded":{"refunds":[{"resource":"refund","id":"re_4qqhO89gsT","amount":{"currency":"EUR","value":"5.95"},"status":"refunded","createdAt":"2024-03-21T09:13:37+00:00"},{"resource":"refund","id":"re_2","status":"pending"}],"chargebacks":[{"resource":"chargeback","id":"chb_1","amount":{"currency":"EUR","value":"4.05"},"createdAt":"2024-04-01T09:13:37+00:00","reversedAt":"2024-04-02T09:13:37+00:00"}]}}`

func push(notification string) string {
	return fmt.Sprintf(`{"message":{"data":%q,"messageId":"1"},"subscription":"projects/p/subscriptions/s"}`, base64.StdEncoding.EncodeToString([]byte(notification)))
}

var rows = map[string]row{
	"mollie": {
		provider: "mollie-classic", hint: "id=tr_5B8cwPMGnU", path: "/v2/payments/tr_5B8cwPMGnU?embed=refunds,chargebacks", answer: molliePayment,
		facts: []Fact{
			{ID: "tr_5B8cwPMGnU:paid", Type: "payment.paid", Mode: "live", Time: at("2024-03-20T08:14:00Z"), Body: []byte(molliePayment)},
			{ID: "tr_5B8cwPMGnU:re_4qqhO89gsT:refunded", Type: "refund.refunded", Mode: "live", Time: at("2024-03-21T09:13:37Z"),
				Body: []byte(`{"resource":"refund","id":"re_4qqhO89gsT","amount":{"currency":"EUR","value":"5.95"},"status":"refunded","createdAt":"2024-03-21T09:13:37+00:00"}`)},
			{ID: "tr_5B8cwPMGnU:re_2:pending", Type: "refund.pending", Mode: "live"},
			{ID: "tr_5B8cwPMGnU:chb_1:received", Type: "chargeback.received", Mode: "live", Time: at("2024-04-01T09:13:37Z")},
			{ID: "tr_5B8cwPMGnU:chb_1:reversed", Type: "chargeback.reversed", Mode: "live", Time: at("2024-04-02T09:13:37Z")},
		},
	},
	"mollie, open": {
		provider: "mollie-classic", hint: "id=tr_1&x=y", path: "/v2/payments/tr_1?embed=refunds,chargebacks",
		answer: `{"id":"tr_1","mode":"test","status":"open"}`, facts: []Fact{{ID: "tr_1:open", Type: "payment.open", Mode: "test"}},
	},
	"stripe": {
		provider: "stripe", path: "/v1/charges/ch_1", known: "evt_1",
		hint: `{"id":"evt_1","object":"v2.core.event","type":"v1.charge.succeeded","livemode":true,"created":"2024-05-01T10:00:00.000Z",` +
			`"context":"acct_1","related_object":{"id":"ch_1","type":"charge","url":"/v1/charges/ch_1"}}`,
		header: http.Header{"Stripe-Version": {stripeVersion}, "Stripe-Context": {"acct_1"}},
		answer: `{"id":"ch_1","amount":1250}`,
		facts:  []Fact{{ID: "evt_1", Type: "v1.charge.succeeded", Mode: "live", Account: "acct_1", Time: at("2024-05-01T10:00:00Z"), Body: []byte(`{"id":"ch_1","amount":1250}`)}},
	},
	"stripe without an object": {
		provider: "stripe", path: "/v2/core/events/evt_2", known: "evt_2", header: http.Header{"Stripe-Context": nil},
		hint:   `{"id":"evt_2","type":"v2.core.health.event_generation_failure.resolved","livemode":false,"created":"2024-05-01T10:00:00Z"}`,
		answer: `{"id":"evt_2","data":{}}`,
		facts:  []Fact{{ID: "evt_2", Type: "v2.core.health.event_generation_failure.resolved", Mode: "test", Time: at("2024-05-01T10:00:00Z")}},
	},
	"mercado pago": {
		provider: "mercado-pago", path: "/v1/payments/123456789", hint: `{"id":1,"live_mode":true,"type":"payment","action":"payment.updated","data":{"id":"123456789"}}`,
		answer: `{"id":123456789,"status":"refunded","live_mode":true,"date_approved":"2024-01-01T10:00:00.000-04:00","date_last_updated":"2024-01-02T00:00:00.000+00:00","transaction_amount":58.8,"refunds":[{"id":77,"payment_id":123456789,"amount":58.8,"status":"approved"}]}`,
		facts: []Fact{
			{ID: "123456789:approved", Type: "payment.approved", Mode: "live", Time: at("2024-01-01T14:00:00Z")},
			{ID: "123456789:refunded", Type: "payment.refunded", Mode: "live", Time: at("2024-01-02T00:00:00Z")},
			{ID: "123456789:77:approved", Type: "refund.approved", Mode: "live", Body: []byte(`{"id":77,"payment_id":123456789,"amount":58.8,"status":"approved"}`)},
		},
	},
	"mercado pago, approved": {
		provider: "mercado-pago", path: "/v1/payments/9", hint: `{"type":"payment","data":{"id":9}}`,
		answer: `{"id":9,"status":"approved","live_mode":false,"date_approved":"2024-01-01T10:00:00.000-04:00"}`,
		facts:  []Fact{{ID: "9:approved", Type: "payment.approved", Mode: "test"}},
	},
	"flutterwave": {
		provider: "flutterwave", path: "/v3/transactions/285959875/verify", hint: `{"event":"charge.completed","data":{"id":285959875,"amount":1000000}}`,
		answer: `{"status":"success","data":{"id":285959875,"amount":100,"currency":"NGN","status":"successful","created_at":"2020-07-15T14:31:16.000Z"}}`,
		facts:  []Fact{{ID: "charge:285959875:successful", Type: "charge.successful", Time: at("2020-07-15T14:31:16Z")}},
	},
	"flutterwave, transfer": {
		provider: "flutterwave", path: "/v3/transfers/33286", hint: `{"event":"transfer.completed","data":{"id":33286}}`,
		answer: `{"status":"success","data":{"id":33286,"status":"FAILED"}}`, facts: []Fact{{ID: "transfer:33286:failed", Type: "transfer.failed"}},
	},
	"chargebee": {
		provider: "chargebee", path: "/api/v2/events/ev_1", known: "ev_1", hint: `{"id":"ev_1","event_type":"anything"}`,
		header: http.Header{"Authorization": {"Basic dG9rZW4tMTo="}},
		answer: `{"event":{"id":"ev_1","occurred_at":1700000000,"event_type":"payment_succeeded","content":{}}}`,
		facts:  []Fact{{ID: "ev_1", Type: "payment_succeeded", Time: time.Unix(1_700_000_000, 0).UTC()}},
	},
	"play, product": {
		provider: "google-play", path: "/androidpublisher/v3/applications/com.some.thing/purchases/products/gems.100/tokens/ab.AO-J1:x",
		hint:   push(`{"version":"1.0","packageName":"com.some.thing","eventTimeMillis":"1503349566168","oneTimeProductNotification":{"notificationType":1,"purchaseToken":"ab.AO-J1:x","sku":"gems.100"}}`),
		answer: `{"purchaseState":0,"orderId":"GPA.1-2-3","purchaseTimeMillis":"1700000000000","quantity":2}`,
		facts:  []Fact{{ID: "product:GPA.1-2-3:purchased", Type: "product.purchased", Mode: "live", Time: time.UnixMilli(1_700_000_000_000).UTC()}},
	},
	"play, given away in a test": {
		provider: "google-play", path: "/androidpublisher/v3/applications/a.b/purchases/products/s/tokens/t1",
		hint:   push(`{"packageName":"a.b","oneTimeProductNotification":{"purchaseToken":"t1","sku":"s"}}`),
		answer: `{"purchaseState":0,"purchaseType":0}`,
		facts:  []Fact{{ID: "product:token-" + fmt.Sprintf("%x", sha256.Sum256([]byte("t1")))[:32] + ":purchased", Type: "product.purchased", Mode: "test"}},
	},
	"play, subscription": {
		provider: "google-play", path: "/androidpublisher/v3/applications/a.b/purchases/subscriptionsv2/tokens/t2",
		hint:   push(`{"packageName":"a.b","subscriptionNotification":{"notificationType":4,"purchaseToken":"t2"}}`),
		answer: `{"subscriptionState":"SUBSCRIPTION_STATE_ACTIVE","latestOrderId":"GPA.1..0","startTime":"2024-01-01T00:00:00.5Z"}`,
		facts:  []Fact{{ID: "subscription:GPA.1..0:active", Type: "subscription.active", Mode: "live"}},
	},
	"play, voided": {
		provider: "google-play", path: "/androidpublisher/v3/applications/a.b/orders/GPA.1-2",
		hint:   push(`{"packageName":"a.b","voidedPurchaseNotification":{"purchaseToken":"t3","orderId":"GPA.1-2","productType":2}}`),
		answer: `{"orderId":"GPA.1-2","state":"PARTIALLY_REFUNDED","lastEventTime":"2024-01-01T00:00:00Z"}`,
		facts:  []Fact{{ID: "order:GPA.1-2:partially_refunded:1704067200000", Type: "order.partially_refunded", Mode: "live", Time: at("2024-01-01T00:00:00Z")}},
	},
}

func TestFacts(t *testing.T) {
	t.Parallel()
	for name, want := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newStub(t, says(http.StatusOK, want.answer))
			c := client(t, want.provider, api.URL+"/")
			if want.provider == "google-play" {
				c.auth = fixed("Bearer token-1")
			}
			h := hint(want.hint)
			ask, err := c.Ask(h)
			require.NoError(t, err)
			require.Equal(t, want.known, ask.ID)
			facts, err := c.Facts(t.Context(), h, ask)
			require.NoError(t, err)
			require.Len(t, facts, len(want.facts))
			for i, f := range facts {
				if want.facts[i].Body == nil {
					f.Body = nil
				}
				if want.facts[i].Time.IsZero() {
					f.Time = time.Time{}
				}
				require.Equal(t, want.facts[i], f)
			}
			request := api.requests()[0]
			require.Equal(t, http.MethodGet, request.Method)
			require.Equal(t, want.path, request.RequestURI)
			if want.header["Authorization"] == nil {
				require.Equal(t, "Bearer token-1", request.Header.Get("Authorization"))
			}
			for header, values := range want.header {
				require.Equal(t, values, request.Header[header], header)
			}
		})
	}
}

// A hint is anybody's: it leads to no other path, host or header.
func TestAHintLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	api := newStub(t, says(http.StatusOK, `{}`))
	for provider, hints := range map[string][]string{
		"mollie-classic": {"", "id=", "id=tr_1&id=tr_2", "id=tr_%2F..%2Fme", "id=tr_1%3Ftestmode%3Dtrue", "id=tr_1%0d%0aX:%20y", "id=" + strings.Repeat("tr_", 99), "%zz", "id=tr_1#x", "id=tr_é"},
		"stripe": {
			``, `[]`, `{"id":"evt_1","id":"evt_2"}`, `{}`, `{"id":"../x"}`, `{"id":5e3}`,
			`{"id":"evt_1","related_object":{"id":"x","url":"https://evil.example/v1/a/b"}}`,
			`{"id":"evt_1","related_object":{"id":"x","url":"//evil.example/v1/a/b"}}`,
			`{"id":"evt_1","related_object":{"id":"x","url":"@evil.example/v1/a/b"}}`,
			`{"id":"evt_1","related_object":{"id":"x","url":"/v1/../v3/x"}}`,
			`{"id":"evt_1","related_object":{"id":"x","url":"/v1/charges/ch_1?expand=x"}}`,
			`{"id":"evt_1","related_object":{"id":"x","url":"/v1/charges/ch_1%2f.."}}`,
			`{"id":"evt_1","context":"acct_1\r\nX: y"}`,
		},
		"mercado-pago": {``, `{"type":"payment"}`, `{"type":"payment","data":{"id":"../x"}}`, `{"type":"payment","data":{"id":1.5}}`, `{"type":"payment","data":{"id":["1"]}}`},
		"flutterwave":  {``, `{"event":"charge.completed"}`, `{"event":"charge.completed","data":{"id":"1/../2"}}`, `{"event":"charge.completed","data":{"id":"."}}`, `{"event":"charge.completed","data":{"id":".."}}`},
		"chargebee":    {``, `{"id":""}`, `{"id":"a/b"}`, `{"id":"a b"}`},
		"google-play": {
			``, `{}`, `{"message":{"data":"%%"}}`, `{"message":{"data":""}}`, push(`{}`), push(`x`),
			push(`{"packageName":"a/b","oneTimeProductNotification":{"purchaseToken":"t","sku":"s"}}`),
			push(`{"packageName":"a.b","oneTimeProductNotification":{"purchaseToken":"t","sku":"../s"}}`),
			push(`{"packageName":"a.b","oneTimeProductNotification":{"purchaseToken":"../t","sku":"s"}}`),
			push(`{"packageName":"a.b","oneTimeProductNotification":{"purchaseToken":"..","sku":"s"}}`),
			push(`{"packageName":"a.b","subscriptionNotification":{}}`),
			push(`{"packageName":"a.b","voidedPurchaseNotification":{"orderId":"x?y"}}`),
			push(`{"packageName":"a.b","voidedPurchaseNotification":{"orderId":"` + strings.Repeat("x", 601) + `"}}`),
		},
	} {
		c := client(t, provider, api.URL)
		for _, h := range hints {
			_, err := look(t, c, h)
			require.ErrorIs(t, err, ErrRefused, "%s %q", provider, h)
		}
	}
	require.Empty(t, api.requests())
}

func client(t *testing.T, provider, url string) *Client {
	t.Helper()
	src := configured(provider, url)
	if provider == "google-play" {
		src.Fetch.Token = config.NewSecret(keyFile(t))
	}
	return newClient(t, src)
}

func TestKindsThatAreNotLookedUp(t *testing.T) {
	t.Parallel()
	for provider, h := range map[string]string{
		"mollie-classic": "id=ord_1", "mercado-pago": `{"type":"merchant_order","data":{"id":"1"}}`, "flutterwave": `{"event":"subscription.cancelled","data":{"id":1}}`,
		"google-play": push(`{"packageName":"a.b","testNotification":{"version":"1.0"}}`),
	} {
		_, err := look(t, client(t, provider, "http://127.0.0.1:1"), h)
		require.ErrorIs(t, err, ErrKind, provider)
	}
}

// What an API may answer instead of what it documents.
func TestAnswersThatTellNothing(t *testing.T) {
	t.Parallel()
	var api = newStub(t, nil)
	for name, want := range map[string]struct {
		answer http.HandlerFunc
		err    error
	}{
		"not found":         {says(http.StatusNotFound, `{}`), ErrRefused},
		"gone":              {says(http.StatusGone, `{}`), ErrRefused},
		"unauthorized":      {says(http.StatusUnauthorized, `{}`), ErrRefused},
		"forbidden":         {says(http.StatusForbidden, `{}`), ErrRefused},
		"redirect":          {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, ErrRefused},
		"nothing":           {says(http.StatusNoContent, ``), ErrRefused},
		"empty":             {says(http.StatusOK, ``), ErrRefused},
		"HTML":              {says(http.StatusOK, `<html>`), ErrRefused},
		"another payment":   {says(http.StatusOK, `{"id":"tr_2","status":"paid"}`), ErrRefused},
		"no status":         {says(http.StatusOK, `{"id":"tr_1"}`), ErrRefused},
		"an odd status":     {says(http.StatusOK, `{"id":"tr_1","status":"paid:x"}`), ErrRefused},
		"a refund twice":    {says(http.StatusOK, `{"id":"tr_1","status":"paid","_embedded":{"refunds":[{"id":"re_1","status":"x"},{"id":"re_1","status":"x"}]}}`), ErrRefused},
		"a refund unnamed":  {says(http.StatusOK, `{"id":"tr_1","status":"paid","_embedded":{"refunds":[{"status":"x"}]}}`), ErrRefused},
		"repeated members":  {says(http.StatusOK, `{"id":"tr_1","status":"open","status":"paid"}`), ErrRefused},
		"too large":         {says(http.StatusOK, `"`+strings.Repeat("x", 1<<20)+`"`), ErrRefused},
		"too many requests": {says(http.StatusTooManyRequests, `{}`), ErrUnavailable},
		"a fault":           {says(http.StatusInternalServerError, `{}`), ErrUnavailable},
		"away":              {says(http.StatusServiceUnavailable, `{}`), ErrUnavailable},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
		}, ErrUnavailable},
	} {
		api.mu.Lock()
		api.answer = want.answer
		api.mu.Unlock()
		before := len(api.requests())
		c := newClient(t, configured("mollie-classic", api.URL))
		_, err := look(t, c, "id=tr_1")
		require.ErrorIs(t, err, want.err, name)
		require.NotContains(t, err.Error(), "token-1")
		require.LessOrEqual(t, len(api.requests())-before, 2, "%s: net/http repeats a cut GET, nothing follows a redirect", name)
	}
	held := make(chan struct{})
	defer close(held)
	mute := newStub(t, func(http.ResponseWriter, *http.Request) { <-held })
	src := configured("mollie-classic", mute.URL)
	src.Fetch.Timeout = 50 * time.Millisecond
	_, err := look(t, newClient(t, src), "id=tr_1")
	require.ErrorIs(t, err, ErrUnavailable)
	_, err = look(t, newClient(t, configured("mollie-classic", "http://127.0.0.1:1")), "id=tr_1")
	require.ErrorIs(t, err, ErrUnavailable)
	_, err = look(t, newClient(t, configured("mollie-classic", "https://10.0.0.1")), "id=tr_1")
	require.ErrorIs(t, err, ErrUnavailable, "an address of a private network is not dialled")
}

func TestFaultsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		src  config.Source
		path string
	}{
		"another provider":     {configured("github", "https://a.b"), "sources.s.fetch"},
		"no site":              {configured("chargebee", ""), "sources.s.fetch.url"},
		"a query":              {configured("stripe", "https://a.b/?x=y"), "sources.s.fetch.url"},
		"no service account":   {configured("google-play", ""), "sources.s.fetch.token"},
		"white space":          {withToken("stripe", "a b"), "sources.s.fetch.token"},
		"a colon":              {withToken("chargebee", "a:b"), "sources.s.fetch.token"},
		"another kind of key":  {withToken("google-play", `{"type":"authorized_user","client_email":"x"}`), "sources.s.fetch.token"},
		"a key without a key":  {withToken("google-play", `{"type":"service_account","client_email":"x","private_key":"y"}`), "sources.s.fetch.token"},
		"a key without RSA":    {withToken("google-play", `{"type":"service_account","client_email":"x","private_key":"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"}`), "sources.s.fetch.token"},
		"a key that is no key": {withToken("google-play", `x`), "sources.s.fetch.token"},
	} {
		_, faults := New(want.src, 1<<20)
		require.Len(t, faults, 1, name)
		require.Equal(t, want.path, faults[0].Path, name)
	}
	require.Equal(t, []string{"chargebee", "flutterwave", "google-play", "mercado-pago", "mollie-classic", "stripe"}, Names())
}

func withToken(provider, token string) config.Source {
	src := configured(provider, "https://a.b")
	src.Fetch.Token = config.NewSecret(token)
	return src
}

// Whatever a notice and an answer hold, nothing panics, and no fact has an id that
// could be another's.
func FuzzFacts(f *testing.F) {
	for _, r := range rows {
		f.Add(r.provider, r.hint, r.answer)
	}
	f.Fuzz(func(t *testing.T, provider, notice, answer string) {
		api, ok := apis[provider]
		if !ok {
			return
		}
		h := hint(notice)
		ask, err := api.fetcher.Ask(h)
		if err != nil {
			return
		}
		require.True(t, strings.HasPrefix(ask.Path, "/"), ask.Path)
		path, _, _ := strings.Cut(ask.Path, "?")
		require.NotContains(t, path+"/", "/../")
		require.NotContains(t, path+"/", "/./")
		request, err := http.NewRequest(http.MethodGet, "https://api.example"+ask.Path, nil)
		require.NoError(t, err)
		require.Equal(t, "api.example", request.URL.Host)
		for _, values := range ask.Header {
			require.NotContains(t, values[0], "\n")
		}
		facts, err := api.fetcher.Facts(h, ask, []byte(answer))
		if err != nil {
			return
		}
		for _, fact := range facts {
			require.NotEmpty(t, fact.ID)
			require.Contains(t, answer, string(fact.Body))
		}
	})
}
