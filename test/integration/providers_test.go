package integration

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// TestProviders sends what providers send about money, to one system.
func TestProviders(t *testing.T) {
	t.Parallel()
	mollie := newMollieStub(t)
	s := newSystem(t, strings.NewReplacer("PAYPAL_KEY", paypalKey(t), "MOLLIE_URL", mollie.URL).Replace(families))
	receiver := s.receiver()
	s.worker()
	want, parked := newBook(), map[string]int{}
	settle := func(t *testing.T) {
		t.Helper()
		s.verify(want)
		require.Equal(t, parked, s.reasons())
	}

	s.step("payment.captured and order.paid are one payment", func(t *testing.T) { // case 15
		const payment = `"payload":{"payment":{"entity":{"id":"pay_B5","amount":49900,"currency":"INR","status":"captured","order_id":"order_B5"}}`
		s.deliver(receiver, "razorpay", "E1", `{"account_id":"acc_1","event":"payment.captured",`+payment+`},"created_at":1700000000}`, "acc_1/E1")
		s.settled()
		s.deliver(receiver, "razorpay", "E2", `{"account_id":"acc_1","event":"order.paid",`+payment+`,"order":{"entity":{"id":"order_B5"}}},"created_at":1700000001}`, "acc_1/E2")
		want.post("razorpay", "sales", 49900)
		settle(t)
		require.Equal(t, "applied", s.outcome("razorpay", "acc_1/E1"))
		require.Equal(t, "duplicate_operation", s.outcome("razorpay", "acc_1/E2"))
	})

	s.step("one event at two endpoints with two secrets is one event", func(t *testing.T) { // case 18
		body := stripeBody("evt_B8", "charge.succeeded", `"livemode":true,`, "b8", 800)
		s.deliver(receiver, "stripe", "", body, "evt_B8")
		s.settled()
		s.deliverAs(receiver, "accounts", "stripe", "", body+" ", "evt_B8")
		want.post("stripe", "sales", 800)
		settle(t)
	})

	s.step("one reference of two merchant accounts is two payments", func(t *testing.T) { // case 19
		s.deliver(receiver, "adyen", "", adyenNotice(
			adyenItem("ShopA", "AUTHORISATION", "REF00000001", "", "true", 50000, ""), adyenItem("ShopB", "AUTHORISATION", "REF00000001", "", "true", 50000, "")),
			"ShopA/AUTHORISATION:REF00000001:true", "ShopB/AUTHORISATION:REF00000001:true")
		want.post("adyen", "sales:ShopA", 50000)
		want.post("adyen", "sales:ShopB", 50000)
		settle(t)
	})

	s.step("payment and order_paid of a game store are one purchase", func(t *testing.T) { // case 22
		const total = `"purchase":{"total":{"currency":"USD","amount":4.99}}`
		payment := `{"notification_type":"payment",` + total + `,"transaction":{"id":555}}`
		s.deliver(receiver, "xsolla", "", payment, "payment:555")
		s.settled()
		s.deliver(receiver, "xsolla", "", `{"notification_type":"order_paid","billing":{`+total+`,"transaction":{"id":555}}}`, "order_paid:555")
		s.deliver(receiver, "xsolla", "", payment, "payment:555")
		s.deliver(receiver, "xsolla", "", payment+" ", "payment:555")
		s.deliver(receiver, "xsolla", "", `{"notification_type":"payment",`+total+`,"transaction":{"id":556,"dry_run":1}}`, "test/payment:556")
		s.deliver(receiver, "xsolla", "", `{"notification_type":"order_paid","billing":{`+total+`,"transaction":{"id":556,"dry_run":1}}}`, "test/order_paid:556")
		want.post("xsolla", "sales", 499)
		settle(t)
		require.Equal(t, "duplicate_operation", s.outcome("xsolla", "order_paid:555"))
		require.Equal(t, row{Source: "xsolla", ID: "test/payment:556", State: "completed", Outcome: "ignored", Reason: "mode_mismatch"}, s.row("xsolla", "test/payment:556"))
	})

	s.step("what was booked on the spot is not booked again, nor the reverse", func(t *testing.T) { // case 23
		booked := func(kind, psp string, amount int64) {
			s.deliver(receiver, "back-office", "", fmt.Sprintf(`{"id":"bo-%s","kind":%q,"psp":%q,"merchant":"ShopA","live":true,"amount":%d,"currency":"EUR"}`, psp, kind, psp, amount), "ShopA/bo-"+psp)
			s.settled()
		}
		told := func(code, psp, original string, value int64) {
			s.deliver(receiver, "adyen", "", adyenNotice(adyenItem("ShopA", code, psp, original, "true", value, "")), "ShopA/"+code+":"+psp+":true")
			s.settled()
		}
		booked("payment", "P13", 1300)
		booked("refund", "re_13", 300)
		told("AUTHORISATION", "P13", "", 1300)
		told("REFUND", "re_13", "P13", 300)

		told("AUTHORISATION", "P14", "", 1400)
		told("REFUND", "re_14", "P14", 400)
		booked("refund", "re_14", 400)
		booked("payment", "P14", 1400)
		for _, amounts := range [][2]int64{{1300, 300}, {1400, 400}} {
			want.post("adyen", "sales:ShopA", amounts[0])
			want.post("sales:ShopA", "adyen", amounts[1])
		}
		settle(t)
		require.Equal(t, "duplicate_operation", s.outcome("adyen", "ShopA/REFUND:re_13:true"))
		require.Equal(t, "duplicate_operation", s.outcome("back-office", "ShopA/bo-P14"))
	})

	s.step("a hint is asked for, and each state is posted once", func(t *testing.T) { // case 33
		notify := func() {
			s.deliver(receiver, "mollie", "", "id=tr_C9")
			s.settled()
		}
		notify()
		require.Equal(t, "applied", s.outcome("mollie", "tr_C9:paid"))
		mollie.refunded.Store(true)
		notify()
		notify()
		want.post("mollie", "sales", 1000)
		want.post("sales", "mollie", 400)
		settle(t)
	})

	s.step("amounts without decimals, and with", func(t *testing.T) { // case 65
		for i, amount := range [][2]string{{"1000", "JPY"}, {"1000.00", "JPY"}, {"1000.50", "JPY"}, {"1000", "HUF"}, {"10.5", "USD"}, {"1000", "TWD"}} {
			id := fmt.Sprintf("WH-%d", i)
			s.deliver(receiver, "paypal", id, fmt.Sprintf(`{"id":%q,"event_type":"PAYMENT.CAPTURE.COMPLETED","create_time":"2024-01-01T00:00:00Z",`+
				`"resource":{"id":"cap-%d","amount":{"value":%q,"currency_code":%q}}}`, id, i, amount[0], amount[1]), id)
		}
		want.post("paypal", "sales", 1000)
		want.post("paypal", "sales", 1000)
		want.post("paypal", "sales", 100000) // 1000 Ft: ISO 4217 gives the forint two decimals
		want.post("paypal", "sales", 1050)
		want.post("paypal", "sales", 100000)
		parked["amount_precision"]++
		settle(t)
		require.Equal(t, "amount_precision", s.outcome("paypal", "WH-2"))
	})

	charge := func(id, kind, members string) {
		s.deliver(receiver, "stripe", "", fmt.Sprintf(`{"id":%q,"livemode":true,"created":1700000000,"type":%q,"data":{"object":{"id":"o_%s"%s}}}`, id, kind, id, members), id)
	}
	s.step("without an amount or a currency nothing is posted", func(t *testing.T) { // case 68
		for i, members := range []string{`,"currency":"usd"`, `,"amount":null,"currency":"usd"`} {
			charge(fmt.Sprintf("evt_68a%d", i), "charge.succeeded", members)
			parked["amount_missing"]++
		}
		for i, currency := range []string{"", `,"currency":null`, `,"currency":"XXX"`, `,"currency":"usd "`, `,"currency":"US$"`} {
			charge(fmt.Sprintf("evt_68c%d", i), "charge.succeeded", `,"amount":14000`+currency)
			parked["currency_unknown"]++
		}
		charge("evt_68", "charge.succeeded", `,"amount":14000,"currency":"usd"`) // as Stripe writes it
		want.post("stripe", "sales", 14000)
		settle(t)
	})

	s.step("one credit for one customer, however often that is told", func(t *testing.T) { // case 24
		created := func(id, space string) {
			s.deliver(receiver, "stripe", "", fmt.Sprintf(`{"id":%q,"livemode":true,"created":1700000000,"type":"customer.created",`+
				`"data":{"object":{"id":"cus_B14","object":"customer"}}}%s`, id, space), id)
			s.settled()
		}
		for _, space := range []string{"", "", " "} {
			created("evt_B14", space)
		}
		created("evt_B14b", "")
		want.post("welcome", "wallet:cus_B14", 100)
		settle(t)
		require.Equal(t, "duplicate_operation", s.outcome("stripe", "evt_B14b"))
	})

	s.step("what is updated is the refund and not its charge", func(t *testing.T) { // case 35
		charge("evt_D2", "charge.succeeded", `,"amount":3000,"currency":"usd"`)
		want.post("stripe", "sales", 3000)
		tell := func(event, status string) {
			s.deliver(receiver, "stripe", "", fmt.Sprintf(`{"id":%q,"livemode":true,"created":1700000000,"type":"charge.refund.updated","data":{"object":`+
				`{"id":"re_D2","object":"refund","status":%q,"amount":700,"currency":"usd","charge":"o_evt_D2"}}}`, event, status), event)
			s.settled()
		}
		tell("evt_D2a", "pending")
		settle(t)
		require.Equal(t, "ignored", s.outcome("stripe", "evt_D2a"))
		tell("evt_D2b", "succeeded")
		want.post("sales", "stripe", 700)
		settle(t)
		tell("evt_D2c", "failed")
		want.post("stripe", "sales", 700) // beside the refund, which stays
		settle(t)
	})

	s.step("major units of one provider, minor ones of another", func(t *testing.T) { // case 66
		s.deliver(receiver, "hitpay", "", `{"id":"hit_66","type":"payment","amount":"12.50","currency":"USD"}`, "hit_66")
		charge("evt_66", "charge.succeeded", `,"amount":1250,"currency":"usd"`)
		want.post("hitpay", "sales:hitpay", 1250)
		want.post("stripe", "sales", 1250)
		settle(t)
		require.Equal(t, []string{"12.50 USD"}, s.inMajorUnits("sales:hitpay"), "the provider's statement says so")
	})

	s.step("decimals are those of the amount's own currency", func(t *testing.T) { // case 86
		for _, currency := range []string{"KWD", "BHD", "JPY", "EUR"} {
			item := adyenItem("Shop86", "AUTHORISATION", "P86"+currency, "", "true", 12345, "")
			s.deliver(receiver, "adyen", "", adyenNotice(strings.Replace(item, `"currency":"EUR"`, `"currency":"`+currency+`"`, 1)), "Shop86/AUTHORISATION:P86"+currency+":true")
			want.post("adyen", "sales:Shop86", 12345)
		}
		settle(t)
		require.Equal(t, []string{"12.345 BHD", "123.45 EUR", "12345 JPY", "12.345 KWD"}, s.inMajorUnits("sales:Shop86"))
	})

	s.step("zero is nothing, and below zero is refused", func(t *testing.T) { // case 70
		charge("evt_70", "invoice.paid", `,"amount_paid":0,"currency":"usd"`)
		s.deliver(receiver, "adyen", "", adyenNotice(adyenItem("ShopA", "AUTHORISATION", "P70", "", "true", 0, "")), "ShopA/AUTHORISATION:P70:true")
		charge("evt_70p", "charge.succeeded", `,"amount":-500,"currency":"usd"`)
		charge("evt_70r", "charge.refunded", `,"amount":-500,"currency":"usd"`)
		charge("evt_70s", "charge.refund.signed", `,"amount":-500,"currency":"usd"`)
		parked["amount_format"] += 2
		want.post("sales", "stripe", 500)
		settle(t)
		require.Equal(t, "ignored", s.outcome("stripe", "evt_70"))
		require.Equal(t, "ignored", s.outcome("adyen", "ShopA/AUTHORISATION:P70:true"))
	})

	s.step("bytes are signed, and read as what they mean", func(t *testing.T) { // cases 39 to 42
		event := func(id string) string { return stripeBody(id, "charge.succeeded", `"livemode":true,`, "x", 40) }
		for id, body := range map[string]string{
			"evt_41": "\xEF\xBB\xBF" + event("evt_41") + "\r\n",
			"evt_39": strings.Replace(event("evt_39"), "{", "{\"note\":\"café 🎉 \u2028 \\u00e9 \\/\",", 1),
		} {
			signed, err := s.cat.Sources["stripe"].Sign([]byte(body), "", time.Now())
			require.NoError(t, err)
			signed.Header.Set("Content-Type", "application/json; charset=iso-8859-1") // it lies
			require.Equal(t, http.StatusOK, s.post(receiver, "stripe", signed))
			s.note(delivery{source: "stripe", id: id})
			want.post("stripe", "sales", 40)
		}
		signed, err := s.cat.Sources["stripe"].Sign([]byte(event("evt_42")), "", time.Now())
		require.NoError(t, err)
		var compressed bytes.Buffer
		w := gzip.NewWriter(&compressed)
		_, err = w.Write(signed.Body)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		signed.Body = compressed.Bytes()
		signed.Header.Set("Content-Encoding", "gzip")
		require.Equal(t, http.StatusOK, s.post(receiver, "stripe", signed))
		s.note(delivery{source: "stripe", id: "evt_42"})
		want.post("stripe", "sales", 40)
		settle(t)
	})

	s.step("a form that holds JSON is that JSON", func(t *testing.T) { // case 81
		const sponsorship = `{"action":"created","sponsorship":{"node_id":"S_1","tier":{"monthly_price_in_cents":700}}}`
		for id, body := range map[string]string{"d-json": sponsorship, "d-form": "payload=" + url.QueryEscape(sponsorship)} {
			signed, err := s.cat.Sources["github"].Sign([]byte(body), id, time.Now())
			require.NoError(t, err)
			signed.Header.Set("X-GitHub-Event", "sponsorship")
			signed.Header.Set("Content-Type", "application/x-www-form-urlencoded") // whatever it is
			require.Equal(t, http.StatusOK, s.post(receiver, "github", signed))
			s.note(delivery{source: "github", id: id})
		}
		want.post("github", "sales", 700)
		settle(t)
	})

	s.step("what is not signed adds no money", func(t *testing.T) { // cases 49, 72 and 82
		s.deliver(receiver, "adyen", "", adyenNotice(
			adyenItem("ShopA", "AUTHORISATION", "P72", "", "true", 7200, `,"additionalData":{"refusalReasonRaw":"51 : Not sufficient funds"}`),
			adyenItem("ShopA", "AUTHORISATION", "P73", "", "false", 7300, `,"additionalData":{"authCode":"1234"}`)),
			"ShopA/AUTHORISATION:P72:true", "ShopA/AUTHORISATION:P73:false")
		want.post("adyen", "sales:ShopA", 7200)

		for _, amount := range []int{100, 1_000_000} {
			s.deliver(receiver, "flutterwave", "", fmt.Sprintf(`{"event":"charge.completed","data":{"id":82,"amount":%d,"currency":"NGN","status":"successful"}}`, amount))
			s.deliver(receiver, "mercado-pago", "82", fmt.Sprintf(`{"id":1,"live_mode":true,"type":"payment","data":{"id":"82"},"amount":%d}`, amount))
			parked["needs_fetch"] += 2
		}
		settle(t)
	})

	s.step("one id of two kinds of objects is two objects", func(t *testing.T) { // case 83
		s.deliver(receiver, "lemon-squeezy", "", `{"meta":{"event_name":"subscription_payment_failed","test_mode":false},`+
			`"data":{"type":"subscription-invoices","id":"10","attributes":{"subscription_id":10,"total":900,"currency":"USD"}}}`, "subscription_payment_failed:subscription-invoices:10:")
		s.deliver(receiver, "lemon-squeezy", "", `{"meta":{"event_name":"subscription_updated","test_mode":false},"data":{"type":"subscriptions","id":"10","attributes":{}}}`,
			"subscription_updated:subscriptions:10:")
		settle(t)
		require.Equal(t, "ignored", s.outcome("lemon-squeezy", "subscription_payment_failed:subscription-invoices:10:"))
		require.Equal(t, "ignored", s.outcome("lemon-squeezy", "subscription_updated:subscriptions:10:"))
	})
}

// inMajorUnits is an account's balance as a person reads it, by asset.
func (s *system) inMajorUnits(name string) []string {
	s.t.Helper()
	accounts, err := ledger.Balances(s.t.Context(), s.pool, name)
	require.NoError(s.t, err)
	var list []string
	for _, a := range accounts {
		list = append(list, ledger.FormatMinor(a.Balance(), a.Exponent)+" "+a.Code)
	}
	return list
}
