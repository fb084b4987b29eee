package rules_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func BenchmarkDecide(b *testing.B) {
	const head = `{"id":"evt_3Nv0aB2eZvKYlo2C1b2c3d4e","object":"event","api_version":"2024-06-20","created":1719830400,"data":{"object":{"id":"ch_3Nv0aB2eZvKYlo2C0aBcDeFg","object":"charge","amount":4999,"amount_captured":4999,"amount_refunded":0,"application":null,"balance_transaction":"txn_3Nv0aB2eZvKYlo2C0","billing_details":{"address":{"city":null,"country":"DE","line1":null,"postal_code":"10115"},"email":"a@example.com","name":"Ann Example","phone":null},"captured":true,"created":1719830399,"currency":"eur","customer":"cus_Q1w2E3r4T5","description":"Order 10293","disputed":false,"livemode":true,"metadata":{"order":"10293","user":"u_84213"},"paid":true,"payment_intent":"pi_3Nv0aB2eZvKYlo2C0ZzYyXx","payment_method_details":{"card":{"brand":"visa","exp_month":4,"exp_year":2027,"last4":"4242"},"type":"card"},"receipt_url":"https://pay.example.com/`
	const tail = `","refunded":false,"status":"succeeded"}},"livemode":true,"pending_webhooks":2,"type":"charge.succeeded"}`
	ev := stripeEvent(head + strings.Repeat("r", 1024-len(head)-len(tail)) + tail)
	set := compile(b, stripeSource(chargeRule()), stripe)
	require.NoError(b, set.Decide(ev).Err)
	b.ReportAllocs()
	for b.Loop() {
		set.Decide(ev)
	}
}
