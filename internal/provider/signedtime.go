package provider

import "time"

// Providers that sign a time beside the body, so that an old request is refused
// even if its event was never seen.

// paddle allows five seconds, as its libraries do: each delivery is signed
// anew. A replay has another notification_id and the same event_id. Read:
// developer.paddle.com/webhooks and its SDKs.
var paddle = preset{
	name:   "paddle",
	signed: "HMAC-SHA256, hex, header Paddle-Signature (h1=), over time:body",
	secret: "the secret key of the notification destination",
	scheme: mac{
		header: "Paddle-Signature", separator: ";", timePart: "ts=", prefix: "h1=",
		content: mustTemplate("{timestamp}:{body}"), clock: clock{tolerance: 5 * time.Second},
	}.scheme,
	id:       []string{"body:event_id"},
	typ:      []string{"body:event_type"},
	occurred: "body:occurred_at",
	fingerprint: []string{
		"event_type", "data.id", "data.status", "data.transaction_id", "data.action", "data.currency_code",
		"data.details.totals", "data.totals", "data.customer_id",
	},
	sample: `{"event_id":"{id}","event_type":"transaction.completed","occurred_at":"2024-01-01T00:00:00.000000Z","notification_id":"ntf_{id}",` +
		`"data":{"id":"txn_{id}","status":"completed","currency_code":"USD","details":{"totals":{"total":"1000","currency_code":"USD"}}}}`,
	amount:   []string{"data.details.totals.total"},
	currency: []string{"data.currency_code", "data.details.totals.currency_code"},
}

// slack has one app in many workspaces. Slash commands are forms without an
// event id and are parked. Read: docs.slack.dev, python-slack-sdk.
var slack = preset{
	name:   "slack",
	signed: "HMAC-SHA256, hex, header X-Slack-Signature (v0=), over v0:time:body",
	secret: "the app's signing secret",
	scheme: mac{
		header: "X-Slack-Signature", prefix: "v0=", timeHeader: "X-Slack-Request-Timestamp",
		content: mustTemplate("v0:{timestamp}:{body}"), clock: clock{tolerance: tolerance},
	}.scheme,
	id:        []string{"body:event_id"},
	typ:       []string{"body:event.type"},
	account:   "body:team_id",
	occurred:  "body:event_time",
	handshake: slackHandshake,
	sample:    `{"type":"event_callback","team_id":"T1","api_app_id":"A1","event_id":"{id}","event_time":1700000000,"event":{"type":"app_mention"}}`,
}

// zoom has no event id: an event is known by its name, its time in milliseconds
// and its bytes. Read: zoom/webhook-sample; the tolerance is ours.
var zoom = preset{
	name:   "zoom",
	signed: "HMAC-SHA256, hex, header X-Zm-Signature (v0=), over v0:time:body",
	secret: "the app's secret token",
	scheme: mac{
		header: "X-Zm-Signature", prefix: "v0=", timeHeader: "X-Zm-Request-Timestamp",
		content: mustTemplate("v0:{timestamp}:{body}"), clock: clock{tolerance: tolerance},
	}.scheme,
	id:        []string{"body:event", "body:event_ts", "hash"},
	typ:       []string{"body:event"},
	account:   "body:payload.account_id",
	occurred:  "body:event_ts",
	handshake: zoomHandshake,
	sample:    `{"event":"meeting.started","event_ts":1700000000000,"payload":{"account_id":"a1","object":{"uuid":"{id}"}}}`,
}

// recurly signs JSON webhooks, not its older XML ones. Its page speaks of
// milliseconds and shows seconds; both are taken. After a change of the secret
// both keys sign for a day. Read: docs.recurly.com signature-verification. What
// identifies an event is not stated there: object, change and time are the id.
var recurly = preset{
	name:   "recurly",
	signed: "HMAC-SHA256, hex, header Recurly-Signature, over time.body",
	secret: "the webhook endpoint's secret key",
	scheme: mac{
		header: "Recurly-Signature", separator: ",", timeFirst: true,
		content: mustTemplate("{timestamp}.{body}"), clock: clock{tolerance: tolerance, millis: true},
	}.scheme,
	id:          []string{"body:object_type", "body:event_type", "body:uuid,id", "body:event_time?"},
	typ:         []string{"body:object_type", "body:event_type"},
	account:     "body:site_id",
	occurred:    "body:event_time",
	fingerprint: []string{"object_type", "event_type", "id", "uuid", "event_time"},
	sample:      `{"id":"{id}","object_type":"charge_invoice","site_id":"s1","event_type":"paid","event_time":"2024-01-01T00:00:00Z"}`,
}

// paymongo signs live events under li and test events under te, each with the
// secret of an endpoint of its own. Read: developers.paymongo.com
// securing-webhook; it sets no tolerance, the usual one is ours.
var paymongo = preset{
	name:   "paymongo",
	signed: "HMAC-SHA256, hex, header Paymongo-Signature (li=, te=), over time.body",
	secret: "the webhook's secret key, of which live and test have one each",
	scheme: mac{
		header: "Paymongo-Signature", separator: ",", timePart: "t=", prefix: "li=", also: "te=",
		content: mustTemplate("{timestamp}.{body}"), clock: clock{tolerance: tolerance},
	}.scheme,
	id:       []string{"body:data.id"},
	typ:      []string{"body:data.attributes.type"},
	live:     "body:data.attributes.livemode",
	occurred: "body:data.attributes.created_at",
	fingerprint: []string{
		"data.attributes.type", "data.attributes.livemode", "data.attributes.data.id", "data.attributes.data.attributes.amount",
		"data.attributes.data.attributes.currency", "data.attributes.data.attributes.status",
	},
	sample: `{"data":{"id":"{id}","type":"event","attributes":{"type":"payment.paid","livemode":true,"created_at":1700000000,` +
		`"data":{"id":"pay_{id}","type":"payment","attributes":{"amount":10000,"currency":"PHP","status":"paid"}}}}}`,
	amount:   []string{"data.attributes.data.attributes.amount"},
	currency: []string{"data.attributes.data.attributes.currency"},
}
