package provider

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// composed is the request of a made-up event, which its source accepts, and the
// one event that it carries.
func composed(t *testing.T, s *Source, o Sample) (Request, *envelope.Event) {
	t.Helper()
	body, header, err := s.Compose(o)
	require.NoError(t, err)
	req, err := s.Sign(body, o.ID, now)
	require.NoError(t, err)
	maps.Copy(req.Header, header)
	require.NoError(t, s.Verify(context.Background(), req, now))
	events := s.Events(req, now)
	require.Len(t, events, 1)
	_, err = events[0].Msg()
	require.NoError(t, err)
	return req, events[0]
}

// keyed holds an event to having a key of its own, or to being a hint.
func keyed(t *testing.T, s *Source, event *envelope.Event) {
	t.Helper()
	if s.Hint() {
		require.Equal(t, "needs_fetch", event.Fault)
		return
	}
	require.Empty(t, event.Fault)
	require.NotEmpty(t, event.ID)
	require.False(t, strings.HasPrefix(event.ID, "test/"), "it is in the source's mode")
}

// Those whose sample says nothing of a type, or of money.
var (
	untyped   = []string{"hmac", "mollie-classic"} // hmac's type is the configuration's to name
	moneyless = []string{
		"gocardless", "google-play", "hubspot", "hubspot-v1", "hubspot-v2", "mailersend", "mercado-pago", "meta", "microsoft-graph",
		"mollie-classic", "pusher", "recurly", "sendgrid", "slack", "twilio", "wise", "zoom",
	}
	oneCurrency = []string{"alipay", "github"}
	// within is where their documents begin; elsewhere it is the body.
	within = map[string]string{"braintree": "bt_payload.notification.", "wechatpay-v2": "xml."}
)

// Whatever the provider, a made-up event is accepted, has a key, and holds what
// was asked for.
func TestEverySampleIsWhatWasAskedFor(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			s := mustNew(t, sourceOf(t, name))
			req, usual := composed(t, s, Sample{ID: "evt_1"})
			keyed(t, s, usual)
			again, _, err := s.Compose(Sample{ID: "evt_1"})
			require.NoError(t, err)
			require.Equal(t, s.Sample("evt_1"), again, "the same id makes the same bytes")
			_, other := composed(t, s, Sample{ID: "evt_2"})
			require.NotEqual(t, usual.ID, other.ID)
			_, odd := composed(t, s, Sample{ID: `a"b<c>&d=e f%41\`})
			keyed(t, s, odd)

			t.Run("type", func(t *testing.T) { checkType(t, s, usual.Type) })
			t.Run("money", func(t *testing.T) { checkMoney(t, s) })
			t.Run("members", func(t *testing.T) { checkSet(t, s) })
			t.Run("time", func(t *testing.T) { checkTime(t, s) })
			t.Run("mode", func(t *testing.T) {
				src := sourceOf(t, name)
				src.Mode = test
				s := mustNew(t, src)
				_, event := composed(t, s, Sample{ID: "evt_1"})
				keyed(t, s, event)
				if s.HasMode() {
					require.Equal(t, test, event.Mode)
					require.Equal(t, live, usual.Mode)
				}
			})
			require.Equal(t, s.preset.contentType, req.Header.Get("Content-Type"))
		})
	}
}

func checkType(t *testing.T, s *Source, usual string) {
	wish := Sample{ID: "evt_1", Type: usual + "x"}
	if slices.Contains(untyped, s.preset.name) {
		_, _, err := s.Compose(wish)
		require.ErrorIs(t, err, ErrNoPlace)
		require.ErrorContains(t, err, "type: ")
		return
	}
	require.NotEmpty(t, usual)
	_, event := composed(t, s, wish)
	keyed(t, s, event)
	require.Equal(t, wish.Type, event.Type)

	// One without a dot leaves nothing of what it replaces.
	_, event = composed(t, s, Sample{ID: "evt_1", Type: "7"})
	require.Equal(t, "7", event.Type)
}

func checkMoney(t *testing.T, s *Source) {
	amount, currency := Sample{ID: "evt_1", Amount: "123.45"}, Sample{ID: "evt_1", Currency: "SEK"}
	name := s.preset.name
	if name == "adyen" {
		amount.Amount = "12345" // it is signed as text, which only integers have
	}
	var refused []Sample
	switch {
	case slices.Contains(moneyless, name):
		refused = []Sample{amount, currency}
	case slices.Contains(oneCurrency, name):
		refused = []Sample{currency}
	default:
		_, event := composed(t, s, currency)
		for _, place := range s.preset.currency {
			require.Equal(t, "SEK", strings.ToUpper(seen(t, s, event, place)))
			require.Equal(t, s.LowerCurrency(), seen(t, s, event, place) == "sek")
		}
	}
	for _, wish := range refused {
		_, _, err := s.Compose(wish)
		require.ErrorIs(t, err, ErrNoPlace)
	}
	if len(s.preset.amount) == 0 {
		require.NotEmpty(t, refused)
		return
	}
	_, event := composed(t, s, amount)
	keyed(t, s, event)
	for _, place := range s.preset.amount {
		require.Equal(t, amount.Amount, seen(t, s, event, place))
	}
	_, _, err := s.Compose(Sample{ID: "evt_1", Amount: "12,5"})
	require.ErrorContains(t, err, `amount: "12,5" is not a number`)
}

// seen is what rules see at a path of an event's body, as text.
func seen(t *testing.T, s *Source, event *envelope.Event, place string) string {
	t.Helper()
	doc, err := s.View(event.ContentType, event.Data, everything)
	require.NoError(t, err)
	value, ok := jsondoc.Lookup(doc, strings.Split(place, ".")...)
	if !ok { // the name of a form's field may have dots
		value, ok = jsondoc.Lookup(doc, place)
	}
	require.True(t, ok, place)
	if number, ok := value.(jsondoc.Number); ok {
		return string(number)
	}
	return scalar(value)
}

func checkSet(t *testing.T, s *Source) {
	in := within[s.preset.name]
	probe := in + "probe.deep"
	if s.preset.name == "wechatpay-v2" {
		probe = in + "probe" // elements in elements cannot be signed
	}
	req, event := composed(t, s, Sample{ID: "evt_1", Set: []string{probe + "=7", "body:" + in + "note=a=b & c", "header:x-note=yes"}})
	keyed(t, s, event)
	require.Equal(t, "7", seen(t, s, event, probe))
	require.Equal(t, "a=b & c", seen(t, s, event, in+"note"))
	require.Equal(t, "yes", req.Header.Get("X-Note"))
	for _, bad := range []string{"", "a", "=1", "a..b=1", "header:=1", "header:a b=1", ":=1"} {
		_, _, err := s.Compose(Sample{ID: "evt_1", Set: []string{bad}})
		require.ErrorContains(t, err, "is not path=value", bad)
	}
}

func checkTime(t *testing.T, s *Source) {
	at := now.Add(-time.Hour)
	_, event := composed(t, s, Sample{ID: "evt_1", At: at})
	keyed(t, s, event)
	switch {
	case !s.occurred.set():
		require.Equal(t, now.UTC(), event.Time, "it is not said")
	case s.preset.zone == "Pacific": // it stays the sample's
		require.Less(t, event.Time, at.AddDate(-1, 0, 0))
	default:
		require.Equal(t, at.Unix(), event.Time.Unix())
	}
}

// Members within a batch, beside it, and in what is sealed.
func TestPlacesOfASample(t *testing.T) {
	t.Parallel()
	adyen := mustNew(t, sourceOf(t, "adyen"))
	_, event := composed(t, adyen, Sample{ID: "P1", Set: []string{"batch:live=false", "NotificationRequestItem.success=false"}})
	require.Equal(t, "test/Shop/AUTHORISATION:P1:false", event.ID)

	meta := mustNew(t, sourceOf(t, "meta"))
	_, event = composed(t, meta, Sample{ID: "1", Type: "page.feed"})
	require.Equal(t, "page", strings.SplitN(event.ID, ":", 2)[0][len("w1/"):])
	require.Equal(t, "feed", seen(t, meta, event, "changes.0.field"))
	_, _, err := meta.Compose(Sample{ID: "1", Set: []string{"changes.7.field=x"}})
	require.ErrorContains(t, err, `set: "7" is none of the 1 items of a list`)

	apple := mustNew(t, sourceOf(t, "apple"))
	_, event = composed(t, apple, Sample{ID: "1", Amount: "4990", Set: []string{"signedPayload.data.signedRenewalInfo.autoRenewStatus=1"}})
	require.Equal(t, "4990", seen(t, apple, event, "signedPayload.data.signedTransactionInfo.price"))
	require.Equal(t, "1", seen(t, apple, event, "signedPayload.data.signedRenewalInfo.autoRenewStatus"))
	require.NotContains(t, string(event.Data), "autoRenewStatus", "it is sealed")
	require.Equal(t, "com.example", event.Account)

	wechat := mustNew(t, sourceOf(t, "wechatpay-v3"))
	_, event = composed(t, wechat, Sample{ID: "1", Set: []string{"resource.ciphertext.mchid=77"}})
	require.Equal(t, "77/1", event.ID)
	google := mustNew(t, sourceOf(t, "google-play"))
	_, event = composed(t, google, Sample{ID: "1", Type: "2"})
	require.Equal(t, "2", event.Type)
	require.NotContains(t, string(event.Data), "notificationType")
}

// Attributes stay as they are, and what XML cannot say is refused.
func TestPlacesOfXML(t *testing.T) {
	t.Parallel()
	s := mustNew(t, sourceOf(t, "braintree"))
	_, event := composed(t, s, Sample{ID: "1", Set: []string{"bt_payload.notification.subject.dispute.id=<d&1>"}})
	require.Equal(t, "<d&1>", seen(t, s, event, "bt_payload.notification.subject.dispute.id"))
	require.Equal(t, "datetime", seen(t, s, event, "bt_payload.notification.timestamp@type"))
	for _, bad := range []string{
		"note=1", "bt_payload.other=1", "bt_payload.notification.a b=1", "bt_payload.notification.a>b=1", "bt_payload.notification.7=1",
		"bt_payload.notification.kind@=1", "bt_payload.notification.none@a=1", "bt_payload.notification.note=\x01",
	} {
		_, _, err := s.Compose(Sample{ID: "1", Set: []string{bad}})
		require.Error(t, err, bad)
	}
}

// Only a part that an id cannot do without is made up where the caller has none.
func TestSignAddsTheIDAndNoMore(t *testing.T) {
	t.Parallel()
	s := mustNew(t, sourceOf(t, "shopify"))
	req := mustSign(t, s, string(s.Sample("evt_1")), "evt_1")
	require.Equal(t, "evt_1", req.Header.Get("X-Shopify-Event-Id"))
	require.Empty(t, req.Header.Get("X-Shopify-Topic"))

	adyen := mustNew(t, sourceOf(t, "adyen"))
	body, _, err := adyen.Compose(Sample{ID: "P1", Amount: "12.34"})
	require.NoError(t, err)
	_, err = adyen.Sign(body, "P1", now)
	require.ErrorContains(t, err, "field amount.value is neither text nor a whole number", "Adyen counts in minor units")
}

// What a provider's sealed body already is, stays as it is.
func TestSealedBodiesAreLeftAlone(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"apple":        `{ "signedPayload":"a.b.c" }`,
		"google-play":  `{ "message":{"data":"eyJhIjoxfQ=="} }`,
		"wechatpay-v3": `{ "resource":{"nonce":"n","ciphertext":"AAAA"} }`,
	} {
		req, err := mustNew(t, sourceOf(t, name)).Sign([]byte(body), "1", now)
		require.NoError(t, err)
		require.Equal(t, body, string(req.Body), name)
	}
}

// The places that only the configuration names are filled in.
func TestASampleFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	src := genericConfig()
	src.ID, src.Type = text("body:meta.id"), text("header:X-Kind")
	src.Time, src.LiveMode, src.Mode = text("body:at"), text("body:live"), test
	s := mustNew(t, src)
	require.True(t, s.TypeInHeader())
	_, event := composed(t, s, Sample{ID: "e1", At: now})
	require.Equal(t, "e1", event.ID)
	require.Equal(t, usualType, event.Type)
	require.Equal(t, test, event.Mode)
	require.Equal(t, now.Unix(), event.Time.Unix())
	require.JSONEq(t, `{"amount":19.99,"currency":"EUR","asset":"EUR","user":"user_test","customer":"cus_test","payment_id":"pay_e1","order_id":"ord_e1",`+
		`"meta":{"id":"e1"},"at":"`+now.UTC().Format(time.RFC3339)+`","live":false}`, string(event.Data))

	src.ID = text("header:X-Event")
	s = mustNew(t, src)
	req, event := composed(t, s, Sample{ID: "e2", Type: "refund", Amount: "1e3"})
	require.Equal(t, "e2", event.ID)
	require.Equal(t, "refund", req.Header.Get("X-Kind"))
	require.Contains(t, string(req.Body), `"amount":1e3,`)

	standard := configured("standard-webhooks", "whsec_"+"b2xkIHNlY3JldA==")
	standard.Type = text("body:event_type")
	_, event = composed(t, mustNew(t, standard), Sample{ID: "e1", Type: "invoice.paid"})
	require.Equal(t, "invoice.paid", event.Type)
}

// Who only knows public keys is told which private one is missing.
func TestWhatCannotSignSaysWhy(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"wise": "put a private key of your own", "sendgrid": "put a private key of your own", "paypal": "put a private key of your own",
		"alipay": "put a private key of your own", "wechatpay-v3": "put a private key of your own", "google-play": "put a private key of your own",
		"apple": "put a root certificate of your own",
	} {
		src := sourceOf(t, name)
		src.Secrets = slices.DeleteFunc(src.Secrets, func(s config.Secret) bool { return strings.HasPrefix(s.Reveal(), "-----") })
		s := mustNew(t, src)
		_, err := s.Sign(s.Sample("1"), "1", now)
		require.ErrorContains(t, err, says, name)
		require.ErrorContains(t, err, "under secrets", name)
	}
	src := configured("standard-webhooks", "whpk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	_, err := mustNew(t, src).Sign([]byte(`{}`), "1", now)
	require.ErrorContains(t, err, "whsk_")
}

// What is said of a scheme is what it is.
func TestSchemesAreDescribedAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		p := presets[name]
		require.NotEmpty(t, p.signed, name)
		require.NotEmpty(t, p.secret, name)
		s := mustNew(t, sourceOf(t, name))
		var header string
		var content template
		switch scheme := s.scheme.(type) {
		case *mac:
			if p == &generic {
				continue
			}
			header, content = scheme.header, scheme.content
			require.Equal(t, scheme.encoding == base64Text, strings.Contains(p.signed, ", base64,"), name)
			require.Equal(t, !scheme.plain, strings.HasPrefix(p.signed, "HMAC-"), name)
			size := map[int]string{20: "SHA1", 32: "SHA256", 64: "SHA512"}[scheme.hash().Size()]
			if scheme.plain {
				size = strings.Replace(size, "SHA", "SHA-", 1)
			}
			require.Contains(t, p.signed, size, name)
			require.Contains(t, p.signed, scheme.prefix, name)
		case *public:
			header, content = scheme.header, scheme.content
		case *token:
			header = scheme.header
			require.True(t, strings.HasSuffix(p.signed, ", over nothing"), name)
		default:
			continue
		}
		require.Contains(t, strings.ToLower(p.signed), strings.ToLower(header), name)
		for part, word := range map[string]string{
			stampPart: "time", urlPart: "url", methodPart: "method", secretPart: "secret", digestPart: "SHA-256 of the body", bodyPart: "body",
		} {
			_, over, _ := strings.Cut(p.signed, ", over ")
			if part != bodyPart || !content.has(digestPart) {
				require.Equal(t, content.has(part), strings.Contains(over, word), "%s: %s", name, word)
			}
		}
	}
}

func TestSamplesAreSmallAndSound(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		s := mustNew(t, sourceOf(t, name))
		_, header, err := s.Compose(Sample{ID: "evt_1"})
		require.NoError(t, err)
		for key, values := range header {
			require.Equal(t, http.CanonicalHeaderKey(key), key, name)
			require.Len(t, values, 1)
		}
		if json.Valid(s.Sample("evt_1")) {
			_, err := jsondoc.Scan(s.Sample("evt_1"), everything)
			require.NoError(t, err, name)
		}
		require.Less(t, len(s.Sample("evt_1")), 1024, name)
		require.NotRegexp(t, `\{(id|number|audience)\}`, string(s.Sample("evt_1")), name)
	}
}
