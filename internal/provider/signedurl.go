package provider

import "strings"

// Providers that sign the address they call, which only the configuration
// knows: a proxy in front of the receiver hides it.

// square signs the URL as it is registered. Read: developer.squareup.com
// webhooks, square-nodejs-sdk.
var square = preset{
	name:   "square",
	signed: "HMAC-SHA256, base64, header X-Square-Hmacsha256-Signature, over url+body",
	secret: "the subscription's signature key",
	scheme: mac{
		header: "X-Square-Hmacsha256-Signature", encoding: base64Text,
		content: mustTemplate("{url}{body}"), target: target{exact: true},
	}.scheme,
	uses:     usesURL,
	id:       []string{"body:event_id"},
	typ:      []string{"body:type"},
	account:  "body:merchant_id",
	occurred: "body:created_at",
	fingerprint: []string{
		"type", "merchant_id", "data.id", "data.type",
		"data.object.payment.id", "data.object.payment.amount_money", "data.object.payment.total_money", "data.object.payment.status",
		"data.object.payment.refunded_money", "data.object.refund.id", "data.object.refund.amount_money", "data.object.refund.status",
		"data.object.dispute.id", "data.object.dispute.amount_money", "data.object.dispute.state",
	},
	sample: `{"merchant_id":"M1","type":"payment.updated","event_id":"{id}","created_at":"2024-01-01T00:00:00.000Z","data":{"type":"payment",` +
		`"id":"p_{id}","object":{"payment":{"id":"p_{id}","amount_money":{"amount":1000,"currency":"USD"},"status":"COMPLETED"}}}}`,
	amount:   []string{"data.object.payment.amount_money.amount"},
	currency: []string{"data.object.payment.amount_money.currency"},
}

// hubspot is version 3 of its signature. The older ones come beside it, and do
// not cover the time: who must accept them names hubspot-v2 or hubspot-v1, so
// that taking v3 away from a request gains nothing. Read: developers.hubspot.com
// request-validation. Event ids are not unique by themselves.
var hubspot = preset{
	name:   "hubspot",
	signed: "HMAC-SHA256, base64, header X-HubSpot-Signature-V3, over method+url+body+time",
	secret: "the app's client secret",
	scheme: mac{
		header: "X-HubSpot-Signature-V3", encoding: base64Text, timeHeader: "X-HubSpot-Request-Timestamp",
		content: mustTemplate("{method}{url}{body}{timestamp}"), target: target{unescape: hubspotEscapes},
		clock: clock{tolerance: tolerance, millis: true},
	}.scheme,
	uses:     usesURL,
	batch:    ".",
	id:       hubspotID,
	typ:      []string{"body:subscriptionType"},
	account:  "body:portalId",
	occurred: "body:occurredAt",
	sample:   hubspotSample,
}

// hubspotV2 covers method and URL, not the time.
var hubspotV2 = preset{
	name:   "hubspot-v2",
	signed: "SHA-256, hex, header X-HubSpot-Signature, over secret+method+url+body",
	secret: "the app's client secret",
	scheme: mac{
		header: "X-HubSpot-Signature", plain: true, content: mustTemplate("{secret}{method}{url}{body}"),
	}.scheme,
	uses:     usesURL,
	batch:    ".",
	id:       hubspotID,
	typ:      []string{"body:subscriptionType"},
	account:  "body:portalId",
	occurred: "body:occurredAt",
	sample:   hubspotSample,
}

// hubspotV1 covers the body alone.
var hubspotV1 = preset{
	name:     "hubspot-v1",
	signed:   "SHA-256, hex, header X-HubSpot-Signature, over secret+body",
	secret:   "the app's client secret",
	scheme:   mac{header: "X-HubSpot-Signature", plain: true, content: mustTemplate("{secret}{body}")}.scheme,
	batch:    ".",
	id:       hubspotID,
	typ:      []string{"body:subscriptionType"},
	account:  "body:portalId",
	occurred: "body:occurredAt",
	sample:   hubspotSample,
}

var hubspotID = []string{"body:eventId", "body:subscriptionId", "body:occurredAt"}

const hubspotSample = `[{"eventId":{number},"subscriptionId":12345,"portalId":62515,"occurredAt":1700000000000,` +
	`"subscriptionType":"deal.creation","attemptNumber":0,"objectId":{number},"changeSource":"CRM_UI"}]`

// hubspotEscapes are those that HubSpot decodes before it signs.
var hubspotEscapes = strings.NewReplacer(
	"%3A", ":", "%3a", ":", "%2F", "/", "%2f", "/", "%3F", "?", "%3f", "?", "%40", "@", "%21", "!", "%24", "$",
	"%27", "'", "%28", "(", "%29", ")", "%2A", "*", "%2a", "*", "%2C", ",", "%2c", ",", "%3B", ";", "%3b", ";",
)
