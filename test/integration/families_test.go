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
    secrets: ["0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"]
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
          - {debit: '"sales"', credit: '"stripe"', amount: '-minor(body.data.object.amount)', asset: body.data.object.currency, operation: 'op("refund", body.data.object.id)'}
      - when: event.type == "invoice.paid"
        transfers:
          - {debit: '"stripe"', credit: '"sales"', amount: minor(body.data.object.amount_paid), asset: body.data.object.currency, operation: 'op("invoice", body.data.object.id)'}
      - when: event.type == "charge.refund.updated" && body.data.object.status in ["succeeded", "failed"] # its object is a refund
        transfers:
          - {debit: '"sales"', credit: '"stripe"', amount: minor(body.data.object.amount), asset: body.data.object.currency, operation: 'op("refund", body.data.object.id)', refunds: 'op("charge", body.data.object.charge)'}
      - when: event.type == "charge.refund.updated" && body.data.object.status == "failed"
        transfers:
          - {debit: '"stripe"', credit: '"sales"', amount: minor(body.data.object.amount), asset: body.data.object.currency, operation: 'op("refund failed", body.data.object.id)', refunds: 'op("refund", body.data.object.id)'}
      - when: event.type == "customer.created"
        transfers:
          - {debit: '"welcome"', credit: '"wallet:" + body.data.object.id', amount: '100', asset: '"USD"', operation: 'op("welcome", body.data.object.id)'}
  hitpay: # writes major units, as text
    provider: hmac
    secrets: [secret-of-hitpay]
    hmac: {header: X-Signature}
    id: body:id
    type: body:type
    rules:
      - when: event.type == "payment"
        transfers:
          - {debit: '"hitpay"', credit: '"sales:hitpay"', amount: 'major(body.amount, body.currency)', asset: body.currency, operation: 'op("payment", body.id)'}
  accounts: # signs as Stripe does for connected accounts
    provider: stripe
    secrets: [whsec_of_the_accounts]
    rules: []
  mollie:
    provider: mollie-classic
    secrets: [text-in-the-url]
    fetch: {url: "MOLLIE_URL", token: live_key}
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
  mercado-pago:
    provider: mercado-pago
    secrets: [secret-of-mercado-pago]
    rules:
      - when: event.type == "payment"
        transfers:
          - {debit: '"mercado-pago"', credit: '"sales"', amount: minor(body.amount), asset: '"BRL"', operation: 'op("payment", body.data.id)'}
  github:
    provider: github
    secrets: [secret-of-github]
    rules:
      - when: event.type == "sponsorship.created"
        transfers:
          - {debit: '"github"', credit: '"sales"', amount: minor(body.sponsorship.tier.monthly_price_in_cents), asset: '"USD"', operation: 'op("sponsorship", body.sponsorship.node_id)'}
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
