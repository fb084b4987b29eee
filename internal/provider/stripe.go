package provider

// stripe signs "t.body" with SHA-256 and repeats v1 for each live secret; v0
// values exist in test mode and count for nothing. Its own libraries look at
// old requests only; here a time ahead of the clock is refused as well. The
// secret is used as it is shown, whsec_ included.
var stripe = preset{
	name:   "stripe",
	signed: "HMAC-SHA256, hex, header Stripe-Signature (v1=), over time.body",
	secret: "the endpoint's signing secret, whsec_ included",
	scheme: mac{
		header:    "Stripe-Signature",
		separator: ",",
		timePart:  "t=",
		prefix:    "v1=",
		content:   mustTemplate("{timestamp}.{body}"),
		clock:     clock{tolerance: tolerance},
	}.scheme,

	id:       []string{"body:id"},
	typ:      []string{"body:type"},
	account:  "body:account", // the connected account; absent for one's own
	live:     "body:livemode",
	occurred: "body:created", // unix seconds; ISO 8601 in v2 events

	// A v2 event names its object, whose amounts have to be asked for.
	thin:      func(r *reading) bool { return r.find(stripeObject) == "v2.core.event" },
	thinPaths: []string{"object"},

	fingerprint: []string{
		"type", "account", "livemode", "created",
		"data.object.id", "data.object.object", "data.object.status",
		"data.object.amount", "data.object.amount_captured", "data.object.amount_received",
		"data.object.amount_refunded", "data.object.amount_paid", "data.object.amount_due",
		"data.object.amount_total", "data.object.amount_capturable", "data.object.total",
		"data.object.fee", "data.object.net", "data.object.currency",
		"data.object.customer", "data.object.charge", "data.object.payment_intent",
		"data.object.invoice", "data.object.subscription", "data.object.balance_transaction",
		"data.object.destination", "data.object.captured", "data.object.paid", "data.object.refunded",
		"related_object.id", "related_object.type", // v2 thin events
	},
	lowerCurrency: true,
	decimals:      map[string]int{"ISK": 2, "MGA": 0, "UGX": 2}, // docs.stripe.com/currencies
	sample: `{"id":"{id}","object":"event","livemode":true,"created":1700000000,"type":"charge.succeeded","data":{"object":{"id":"ch_{id}",` +
		`"object":"charge","status":"succeeded","captured":true,"amount":1999,"amount_captured":1999,"currency":"eur",` +
		`"payment_intent":"pi_{id}","customer":"cus_test","metadata":{"customer":"cus_test"}}}}`,
	amount:   []string{"data.object.amount", "data.object.amount_captured"},
	currency: []string{"data.object.currency"},
}

var stripeObject = mustLocator("body:object")
