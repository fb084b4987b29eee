package integration

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/provider"
)

// families are sources of several providers, whose rules are as their pages in
// docs/providers show them.
const families = `
nats: {events_max_bytes: 256MiB, dlq_max_bytes: 64MiB}
retry: {attempts: 3, age: 1h, base: 50ms, cap: 100ms}
sources:
  razorpay:
    provider: razorpay
    secrets: [secret-of-razorpay]
    rules:
      - when: event.type in ["payment.captured", "order.paid"]
        transfers:
          - debit: '"razorpay"'
            credit: '"sales"'
            amount: minor(body.payload.payment.entity.amount)
            asset: body.payload.payment.entity.currency
            operation: op("payment", body.payload.payment.entity.id)
  xsolla:
    provider: xsolla
    secrets: [key-of-the-project]
    rules:
      - when: event.type == "payment"
        transfers:
          - debit: '"xsolla"'
            credit: '"sales"'
            amount: major(body.purchase.total.amount, body.purchase.total.currency)
            asset: body.purchase.total.currency
            operation: op("transaction", body.transaction.id)
      - when: event.type == "order_paid"
        transfers:
          - debit: '"xsolla"'
            credit: '"sales"'
            amount: major(body.billing.purchase.total.amount, body.billing.purchase.total.currency)
            asset: body.billing.purchase.total.currency
            operation: op("transaction", body.billing.transaction.id)
  adyen:
    provider: adyen
    secrets: [0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a]
    operation_scope: payments
    rules:
      - when: event.type == "AUTHORISATION" && body.NotificationRequestItem.success == "true"
        transfers:
          - debit: '"adyen"'
            credit: '"sales:" + event.account'
            amount: minor(body.NotificationRequestItem.amount.value)
            asset: body.NotificationRequestItem.amount.currency
            operation: op("payment", body.NotificationRequestItem.pspReference)
      - when: event.type == "REFUND" && body.NotificationRequestItem.success == "true"
        transfers:
          - debit: '"sales:" + event.account'
            credit: '"adyen"'
            amount: minor(body.NotificationRequestItem.amount.value)
            asset: body.NotificationRequestItem.amount.currency
            operation: op("refund", body.NotificationRequestItem.pspReference)
            parent: op("payment", body.NotificationRequestItem.originalReference)
  back-office: # books on the spot what Adyen tells of later
    provider: hmac
    secrets: [secret-of-the-back-office]
    hmac: {header: X-Signature}
    operation_scope: payments
    id: body:id
    type: body:kind
    account: body:merchant
    live_mode: body:live
    rules:
      - when: event.type == "payment"
        transfers:
          - {debit: '"adyen"', credit: '"sales:" + event.account', amount: minor(body.amount), asset: body.currency, operation: 'op("payment", body.psp)'}
      - when: event.type == "refund"
        transfers:
          - {debit: '"sales:" + event.account', credit: '"adyen"', amount: minor(body.amount), asset: body.currency, operation: 'op("refund", body.psp)'}
  paypal:
    provider: paypal
    webhook_id: WH-ID
    secrets: [PAYPAL_KEY]
    rules:
      - when: event.type == "PAYMENT.CAPTURE.COMPLETED"
        transfers:
          - debit: '"paypal"'
            credit: '"sales"'
            amount: major(body.resource.amount.value, body.resource.amount.currency_code)
            asset: body.resource.amount.currency_code
            operation: op("capture", body.resource.id)
  stripe:
    provider: stripe
    secrets: [whsec_of_the_platform, whsec_of_the_accounts]
    rules:
      - when: event.type == "charge.succeeded"
        transfers: &charge
          - {debit: '"stripe"', credit: '"sales"', amount: minor(body.data.object.amount), asset: body.data.object.currency, operation: 'op("charge", body.data.object.id)'}
      - when: event.type == "charge.refunded"
        transfers: *charge
      - when: event.type == "charge.refund.signed" # where a provider writes what it gives back below zero
        transfers:
          - {debit: '"sales"', credit: '"stripe"', amount: -minor(body.data.object.amount), asset: body.data.object.currency, operation: 'op("refund", body.data.object.id)'}
      - when: event.type == "invoice.paid"
        transfers:
          - {debit: '"stripe"', credit: '"sales"', amount: minor(body.data.object.amount_paid), asset: body.data.object.currency, operation: 'op("invoice", body.data.object.id)'}
  accounts: # signs as Stripe does for connected accounts
    provider: stripe
    secrets: [whsec_of_the_accounts]
    rules: []
  mollie:
    provider: mollie-classic
    secrets: [text-in-the-url]
    fetch: {url: MOLLIE_URL, token: live_key}
    rules:
      - when: event.type == "payment.paid"
        transfers:
          - {debit: '"mollie"', credit: '"sales"', amount: 'major(body.amount.value, body.amount.currency)', asset: body.amount.currency, operation: 'op("payment", body.id)'}
      - when: event.type == "refund.refunded"
        transfers:
          - {debit: '"sales"', credit: '"mollie"', amount: 'major(body.amount.value, body.amount.currency)', asset: body.amount.currency, operation: 'op("refund", body.id)', parent: 'op("payment", body.paymentId)'}
  flutterwave:
    provider: flutterwave
    secrets: [the-secret-hash]
    rules:
      - when: event.type == "charge.completed"
        transfers:
          - {debit: '"flutterwave"', credit: '"sales"', amount: 'major(body.data.amount, body.data.currency)', asset: body.data.currency, operation: 'op("charge", body.data.id)'}
  lemon-squeezy:
    provider: lemon-squeezy
    secrets: [the-signing-secret]
    rules:
      - when: event.type == "subscription_payment_success"
        transfers:
          - {debit: '"lemon"', credit: '"sales"', amount: minor(body.data.attributes.total), asset: body.data.attributes.currency, operation: 'op(body.data.type, body.data.id)'}
`

// deliver sends what a provider signs, under an id in its headers, and wants its
// provider's good answer. keys are those of the events that it holds.
func (s *system) deliver(to *program, source, id, body string, keys ...string) {
	s.t.Helper()
	s.deliverAs(to, source, source, id, body, keys...)
}

// deliverAs is deliver with the signature of another source.
func (s *system) deliverAs(to *program, signer, source, id, body string, keys ...string) {
	s.t.Helper()
	signed, err := s.cat.Sources[signer].Sign([]byte(body), id, time.Now())
	require.NoError(s.t, err)
	require.Equal(s.t, s.cat.Sources[source].Ack().Status, s.post(to, source, signed), body)
	for _, key := range keys {
		s.note(delivery{source: source, id: key})
	}
}

func (s *system) post(to *program, source string, signed provider.Request) int {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, to.url+"/webhooks/"+source+"?"+signed.Query, bytes.NewReader(signed.Body))
	require.NoError(s.t, err)
	req.Header = signed.Header
	res, err := s.client.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(s.t, err)
	return res.StatusCode
}

// outcome is how the event of a key ended: its outcome, or the reason it is parked for.
func (s *system) outcome(source, key string) string {
	s.t.Helper()
	r := s.row(source, key)
	if r.State == "failed" {
		return r.Reason
	}
	return r.Outcome
}

// mollieStub answers as Mollie's API does of a payment that was refunded since.
type mollieStub struct {
	*httptest.Server
	refunded atomic.Bool
}

func newMollieStub(t *testing.T) *mollieStub {
	m := &mollieStub{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/payments/tr_C9" || r.Header.Get("Authorization") != "Bearer live_key" {
			http.NotFound(w, r)
			return
		}
		refunds := ""
		if m.refunded.Load() {
			refunds = `{"resource":"refund","id":"re_1","paymentId":"tr_C9","status":"refunded","amount":{"currency":"EUR","value":"4.00"}}`
		}
		fmt.Fprintf(w, `{"resource":"payment","id":"tr_C9","mode":"live","status":"paid","amount":{"currency":"EUR","value":"10.00"},"_embedded":{"refunds":[%s]}}`, refunds)
	}))
	t.Cleanup(m.Close)
	return m
}

// paypalKey is a private key of "PayPal's", as YAML.
func paypalKey(t *testing.T) string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return fmt.Sprintf("%q", strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))))
}

// adyenNotice is a request with these items.
func adyenNotice(items ...string) string {
	return `{"live":"true","notificationItems":[` + strings.Join(items, ",") + `]}`
}

// adyenItem is one item of a request; more are members beside the others.
func adyenItem(account, code, reference, original, success string, value int64, more string) string {
	return fmt.Sprintf(`{"NotificationRequestItem":{"eventCode":%q,"pspReference":%q,"originalReference":%q,"merchantAccountCode":%q,"merchantReference":"order",`+
		`"success":%q,"amount":{"currency":"EUR","value":%d},"eventDate":"2024-01-01T00:00:00+00:00"%s}}`, code, reference, original, account, success, value, more)
}

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

	s.step("what is not signed adds no money", func(t *testing.T) { // cases 72 and 82
		s.deliver(receiver, "adyen", "", adyenNotice(
			adyenItem("ShopA", "AUTHORISATION", "P72", "", "true", 7200, `,"additionalData":{"refusalReasonRaw":"51 : Not sufficient funds"}`),
			adyenItem("ShopA", "AUTHORISATION", "P73", "", "false", 7300, `,"additionalData":{"authCode":"1234"}`)),
			"ShopA/AUTHORISATION:P72:true", "ShopA/AUTHORISATION:P73:false")
		want.post("adyen", "sales:ShopA", 7200)

		for _, amount := range []int{100, 1_000_000} {
			s.deliver(receiver, "flutterwave", "", fmt.Sprintf(`{"event":"charge.completed","data":{"id":82,"amount":%d,"currency":"NGN","status":"successful"}}`, amount))
			parked["needs_fetch"]++
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
