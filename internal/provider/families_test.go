package provider

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

// What makes an event of a provider one of a kind: its key, and what is known
// of it before any rule is read.
func TestEventsOfEachFamily(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0).UTC()
	type want struct {
		id, typ, account, mode string
		at                     time.Time
	}
	for name, row := range map[string]struct {
		provider string
		header   http.Header
		body     string
		want     want
	}{
		"razorpay, case 15": {"razorpay", http.Header{"X-Razorpay-Event-Id": {"E1"}},
			`{"account_id":"acc_1","event":"payment.captured","created_at":1700000000}`, want{"acc_1/E1", "payment.captured", "acc_1", "", at}},
		"shopify, by topic": {"shopify", http.Header{"X-Shopify-Event-Id": {"e"}, "X-Shopify-Topic": {"orders/paid"}, "X-Shopify-Shop-Domain": {"a.myshopify.com"}, "X-Shopify-Triggered-At": {"2023-11-14T22:13:20Z"}},
			`{}`, want{"e:orders/paid", "orders/paid", "", "", at}},
		"shopify events": {"shopify-events", http.Header{"Shopify-Webhook-Id": {"w"}, "Shopify-Topic": {"Order"}, "Shopify-Action": {"update"}, "Shopify-Shop-Domain": {"a.myshopify.com"}, "Shopify-Triggered-At": {"2023-11-14T22:13:20Z"}},
			`{}`, want{"w", "Order.update", "", "", at}},
		"github, as a form": {"github", http.Header{"X-Github-Delivery": {"d"}, "X-Github-Event": {"sponsorship"}, "Content-Type": {"application/x-www-form-urlencoded"}},
			"payload=%7B%22action%22%3A%22created%22%7D", want{"d", "sponsorship.created", "", "", now.UTC()}},
		"github, a form without a payload": {"github", http.Header{"X-Github-Delivery": {"d"}, "X-Github-Event": {"push"}}, "action=created", want{"!bad_json", "push", "", "", now.UTC()}},
		"github, a form with two":          {"github", http.Header{"X-Github-Delivery": {"d"}}, "payload={}&payload={}", want{"!ambiguous_json", "", "", "", now.UTC()}},
		"github, a payload that is none":   {"github", http.Header{"X-Github-Delivery": {"d"}}, "payload=%7B", want{"!bad_json", "", "", "", now.UTC()}},
		"github, with a name twice":        {"github", http.Header{"X-Github-Delivery": {"d"}}, `payload={"a":1,"a":2}`, want{"!ambiguous_json", "", "", "", now.UTC()}},
		"shopify, older":                   {"shopify", http.Header{"X-Shopify-Webhook-Id": {"w"}}, `{}`, want{"w:", "", "", "", now.UTC()}},
		"adyen": {"adyen", nil, `{"live":"false","notificationItems":[{"NotificationRequestItem":{"eventCode":"AUTHORISATION","pspReference":"P1",` +
			`"success":"true","merchantAccountCode":"Shop","eventDate":"2023-11-14T23:13:20+01:00"}}]}`,
			want{"test/Shop/AUTHORISATION:P1:true", "AUTHORISATION", "Shop", "test", at}},
		"adyen platform": {"adyen-platform", nil, `{"environment":"test","type":"t","timestamp":"2023-11-14T22:13:20Z","data":{"id":"d","status":"booked","balancePlatform":"B"}}`,
			want{"test/B/t:d::booked:2023-11-14T22%3A13%3A20Z", "t", "B", "test", at}},
		"xsolla, case 22": {"xsolla", nil, `{"notification_type":"payment","transaction":{"id":555,"payment_date":"2023-11-14T22:13:20+00:00"}}`,
			want{"payment:555", "payment", "", "live", at}},
		"xsolla order_paid": {"xsolla", nil, `{"notification_type":"order_paid","billing":{"transaction":{"id":555}}}`, want{"order_paid:555", "order_paid", "", "live", now.UTC()}},
		"xsolla dry run":    {"xsolla", nil, `{"notification_type":"payment","transaction":{"id":555,"dry_run":1}}`, want{"test/payment:555", "payment", "", "test", now.UTC()}},
		"lemon squeezy invoice, case 83": {"lemon-squeezy", nil, `{"meta":{"event_name":"subscription_payment_failed","test_mode":false},"data":{"type":"subscription-invoices","id":"10"}}`,
			want{"subscription_payment_failed:subscription-invoices:10:", "subscription_payment_failed", "", "live", now.UTC()}},
		"lemon squeezy subscription, case 83": {"lemon-squeezy", nil, `{"meta":{"event_name":"subscription_updated","test_mode":true},"data":{"type":"subscriptions","id":"10"}}`,
			want{"test/subscription_updated:subscriptions:10:", "subscription_updated", "", "test", now.UTC()}},
		"paystack": {"paystack", nil, `{"event":"charge.success","data":{"id":1,"domain":"test","status":"success"}}`, want{"test/charge.success:1:success", "charge.success", "", "test", now.UTC()}},
		"paymongo": {"paymongo", nil, `{"data":{"id":"evt","attributes":{"type":"payment.paid","livemode":false,"created_at":1700000000}}}`, want{"test/evt", "payment.paid", "", "test", at}},
		"slack":    {"slack", nil, `{"team_id":"T","event_id":"Ev","event_time":1700000000,"event":{"type":"x"}}`, want{"T/Ev", "x", "T", "", at}},
		"square":   {"square", nil, `{"merchant_id":"M","event_id":"e","type":"payment.updated","created_at":"2023-11-14T22:13:20Z"}`, want{"M/e", "payment.updated", "M", "", at}},
		"hubspot without brackets": {"hubspot", nil, `{"eventId":1,"subscriptionId":2,"occurredAt":1700000000000,"subscriptionType":"deal.creation","portalId":3}`,
			want{"3/1:2:1700000000000", "deal.creation", "3", "", at}},
		"twilio": {"twilio", nil, "MessageSid=SM1&MessageStatus=sent&AccountSid=AC", want{"AC/SM1:sent:", "sent", "AC", "", now.UTC()}},
		"alipay": {"alipay", nil, "notify_id=n&trade_status=TRADE_SUCCESS&app_id=a&gmt_payment=2023-11-15+06%3A13%3A20", want{"a/n", "TRADE_SUCCESS", "a", "", at}},
		"wechat v2": {"wechatpay-v2", nil, "<xml><transaction_id>t</transaction_id><result_code>SUCCESS</result_code><mch_id>m</mch_id><time_end>20231115061320</time_end></xml>",
			want{"m/t:SUCCESS", "SUCCESS", "m", "", at}},
		"recurly": {"recurly", nil, `{"id":"i","object_type":"charge_invoice","site_id":"s","event_type":"paid","event_time":"2023-11-14T22:13:20Z"}`,
			want{"s/charge_invoice:paid:i:2023-11-14T22%3A13%3A20Z", "charge_invoice.paid", "s", "", at}},
		"wise": {"wise", nil, `{"subscription_id":"s","event_type":"e","data":{"resource":{"id":5,"profile_id":7},"current_state":"processing","occurred_at":"2023-11-14T22:13:20Z"}}`,
			want{"7/s:e:5:processing:2023-11-14T22%3A13%3A20Z", "e", "7", "", at}},
		"stripe v2 without an amount is thin": {"stripe", nil, `{"id":"evt_1","object":"v2.core.event","created":"2023-11-14T22:13:20Z","livemode":true}`, want{"!needs_fetch", "", "", "live", at}},
		"mollie, simple":                      {"mollie", nil, `{"id":"event_1","type":"payment.paid","entityId":"tr_1","createdAt":"2023-11-14T22:13:20Z"}`, want{"!needs_fetch", "payment.paid", "", "", at}},
		"mollie, full":                        {"mollie", nil, `{"id":"event_1","type":"payment.paid","_embedded":{"entity":{"id":"tr_1"}}}`, want{"event_1", "payment.paid", "", "", now.UTC()}},
		"mollie classic, case 33":             {"mollie-classic", nil, "id=tr_C9", want{"!needs_fetch", "", "", "", now.UTC()}},
		"flutterwave, case 82":                {"flutterwave", nil, `{"event":"charge.completed","data":{"id":1,"amount":100}}`, want{"!needs_fetch", "charge.completed", "", "", now.UTC()}},
		"mercado pago, case 49":               {"mercado-pago", nil, `{"id":1,"live_mode":true,"type":"payment","data":{"id":"1"}}`, want{"!needs_fetch", "payment", "", "live", now.UTC()}},
		"paypal ipn":                          {"paypal-ipn", nil, "txn_type=cart&payment_status=Refunded&test_ipn=1&payment_date=14%3A13%3A20+Nov+14%2C+2023+PST", want{"!needs_fetch", "cart.Refunded", "", "test", at}},
		"google play, case 84": {"google-play", nil, `{"message":{"messageId":"1","data":"eyJwYWNrYWdlTmFtZSI6ImMuZSIsImV2ZW50VGltZU1pbGxpcyI6IjE3MDAwMDAwMDAwMDAiLCJzdWJzY3JpcHRpb25Ob3RpZmljYXRpb24iOnsibm90aWZpY2F0aW9uVHlwZSI6NH19"}}`,
			want{"!needs_fetch", "4", "c.e", "", at}},
		"no id of a composite": {"xsolla", nil, `{"notification_type":"payment"}`, want{"!no_event_id", "payment", "", "live", now.UTC()}},
		"form that is none":    {"alipay", nil, "notify_id=%zz", want{"!bad_json", "", "", "", now.UTC()}},
		"empty batch":          {"gocardless", nil, `{"events":[]}`, want{"!no_event_id", "", "", "", now.UTC()}},
		"batch that is none":   {"gocardless", nil, `{"events":{}}`, want{"!bad_json", "", "", "", now.UTC()}},
		"ambiguous batch":      {"gocardless", nil, `{"events":[],"events":[]}`, want{"!ambiguous_json", "", "", "", now.UTC()}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustNew(t, sourceOf(t, row.provider))
			event := eventOf(s, row.header, []byte(row.body), now)
			if fault, ok := strings.CutPrefix(row.want.id, "!"); ok {
				require.Equal(t, fault, event.Fault)
				require.True(t, strings.HasPrefix(event.ID, "generated/"))
			} else {
				require.Empty(t, event.Fault)
				require.Equal(t, row.want.id, event.ID)
			}
			require.Equal(t, row.want.typ, event.Type)
			require.Equal(t, row.want.account, event.Account)
			require.Equal(t, row.want.mode, event.Mode)
			require.Equal(t, row.want.at.Unix(), event.Time.Unix())
		})
	}
}

// Case 19, and 28 at this level.
func TestAdyenEventsDifferByAccountAndOutcome(t *testing.T) {
	t.Parallel()
	s := mustNew(t, sourceOf(t, "adyen"))
	item := func(account, success string) string {
		return `{"NotificationRequestItem":{"eventCode":"AUTHORISATION","pspReference":"REF00000001","success":"` + success +
			`","merchantAccountCode":"` + account + `"}}`
	}
	body := `{"live":"true","notificationItems":[` + item("ShopA", "true") + " ,\n" + item("ShopB", "true") + "," + item("ShopA", "false") + `]}`
	ids := map[string]bool{}
	for i, event := range s.Events(Post(nil, []byte(body)), now) {
		require.Empty(t, event.Fault)
		ids[event.ID] = true
		require.Equal(t, [...]string{item("ShopA", "true"), item("ShopB", "true"), item("ShopA", "false")}[i], string(event.Data))
		require.Equal(t, "live", event.Mode)
	}
	require.Len(t, ids, 3)
}

// Case 73.
func TestEachEventOfABatchIsOneOfItsOwn(t *testing.T) {
	t.Parallel()
	s := mustNew(t, sourceOf(t, "gocardless"))
	items := make([]string, 250)
	for i := range items {
		items[i] = `{"id":"EV` + string(rune('A'+i/26)) + string(rune('a'+i%26)) + `","resource_type":"payments","action":"confirmed"}`
	}
	items[100] = `{"resource_type":"payments","action":"confirmed"}`
	items[150] = `{"id":"EV1","id":"EV2"}`
	items[160] = `"EV3"`
	items[200] = items[1]
	body := []byte(`{"events":[` + strings.Join(items, ",") + `],"meta":{"webhook_id":"WB1"}}`)
	events := s.Events(Post(nil, body), now)
	require.Len(t, events, 250)
	faults := map[int]string{100: "no_event_id", 150: "ambiguous_json", 160: "bad_json"}
	ids := map[string]int{}
	for i, event := range events {
		require.Equal(t, faults[i], event.Fault, i)
		require.Equal(t, items[i], string(event.Data))
		_, err := event.Msg()
		require.NoError(t, err)
		ids[event.ID]++
	}
	require.Len(t, ids, 249)
	require.Equal(t, 2, ids["EVAb"])

	// A fault of one item leaves what stands beside the items readable.
	pushes := mustNew(t, sourceOf(t, "pusher")).Events(Post(nil, []byte(`{"time_ms":1700000000000,"events":[{"name":"a","name":"b"},{"name":"c"}]}`)), now)
	require.Equal(t, "ambiguous_json", pushes[0].Fault)
	require.Empty(t, pushes[1].Fault)
	require.Equal(t, int64(1_700_000_000), pushes[1].Time.Unix())

	many := `{"events":[` + strings.Repeat(`{},`, 6000) + `{}]}`
	require.Equal(t, "bad_json", eventOf(s, nil, []byte(many), now).Fault)
}

// Case 57: what is the same and what is not is told by fingerprints; a field
// that many places could have is found in the first that has it.
func TestRulesSeeWhatIsInside(t *testing.T) {
	t.Parallel()
	for provider, row := range map[string]struct {
		body string
		path []string
		want any
	}{
		"alipay":       {"subject=%C3%A9+%2B&total_amount=0.01", []string{"subject"}, "é +"},
		"wechatpay-v2": {"<xml><total_fee>1</total_fee></xml>", []string{"xml", "total_fee"}, "1"},
		"google-play":  {`{"message":{"data":"eyJhIjoxfQ=="}}`, []string{"message", "data", "a"}, int64(1)},
		"braintree":    {"bt_payload=" + "PGE%2BMTwvYT4%3D", []string{"bt_payload", "a"}, "1"},
		"twilio":       {`{"a":1}`, []string{"a"}, int64(1)},
		"github":       {"payload=%7B%22a%22%3A1%7D", []string{"a"}, int64(1)},
		"stripe":       {`{"a":1.5}`, []string{"a"}, jsondoc.Number("1.5")},
	} {
		s := mustNew(t, sourceOf(t, provider))
		doc, err := s.View("", []byte(row.body), jsondoc.NewPaths(row.path))
		require.NoError(t, err, provider)
		got, _ := jsondoc.Lookup(doc, row.path...)
		require.Equal(t, row.want, got, provider)
	}
}
