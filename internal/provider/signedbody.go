package provider

import (
	"crypto/sha1"
	"net/http"
)

// Providers that sign the body alone, with a key both sides know. No time is
// signed: what keeps an old request from counting twice is its event id.

// razorpay repeats X-Razorpay-Event-Id with each delivery of an event. A payment
// is told by payment.captured and by order.paid, so rules key their operations
// by the payment. Read: razorpay/markdown-docs, vectors of its SDKs.
var razorpay = preset{
	name:     "razorpay",
	signed:   "HMAC-SHA256, hex, header X-Razorpay-Signature, over the body",
	secret:   "the secret that was typed for the webhook, which is not the API key's",
	scheme:   mac{header: "X-Razorpay-Signature"}.scheme,
	id:       []string{"header:X-Razorpay-Event-Id"},
	typ:      []string{"body:event"},
	account:  "body:account_id",
	occurred: "body:created_at",
	fingerprint: []string{
		"event", "account_id",
		"payload.payment.entity.id", "payload.payment.entity.amount", "payload.payment.entity.currency",
		"payload.payment.entity.status", "payload.payment.entity.order_id",
		"payload.refund.entity.id", "payload.refund.entity.amount", "payload.refund.entity.currency",
		"payload.refund.entity.payment_id", "payload.refund.entity.status",
		"payload.order.entity.id", "payload.order.entity.amount", "payload.order.entity.status",
		"payload.dispute.entity.id", "payload.dispute.entity.amount", "payload.dispute.entity.status",
	},
	sample: `{"entity":"event","account_id":"acc_1","event":"payment.captured","contains":["payment"],"payload":{"payment":{"entity":` +
		`{"id":"pay_{id}","entity":"payment","amount":49900,"currency":"INR","status":"captured","order_id":"order_{id}"}}},"created_at":1700000000}`,
	amount:   []string{"payload.payment.entity.amount"},
	currency: []string{"payload.payment.entity.currency"},
}

// shopify shares X-Shopify-Event-Id between the subscriptions that one event
// concerns, so the topic is part of the id. An endpoint receives many shops. Read:
// shopify.dev verify-deliveries and ignore-duplicates, which disagree about the
// id; deliveries from before Event-Id have X-Shopify-Webhook-Id alone. The header
// that names the shop is not signed, so it is no account: whoever has seen one
// request could post its money again under another name.
var shopify = preset{
	name:     "shopify",
	signed:   "HMAC-SHA256, base64, header X-Shopify-Hmac-SHA256, over the body",
	secret:   "the app's client secret; of webhooks made in the shop's admin, the key that is shown below them",
	scheme:   mac{header: "X-Shopify-Hmac-SHA256", encoding: base64Text}.scheme,
	id:       []string{"header:X-Shopify-Event-Id,X-Shopify-Webhook-Id", "header:X-Shopify-Topic?"},
	typ:      []string{"header:X-Shopify-Topic"},
	occurred: "header:X-Shopify-Triggered-At",
	keep:     []string{"X-Shopify-Topic", "X-Shopify-Shop-Domain", "X-Shopify-Webhook-Id", "X-Shopify-Test", "X-Shopify-Api-Version"},
	fingerprint: []string{
		"id", "order_id", "kind", "status", "amount", "currency", "parent_id", "test",
		"total_price", "financial_status", "transactions", "refund_line_items",
	},
	sample:       `{"id":{number},"order_id":{number},"kind":"sale","status":"success","amount":"19.99","currency":"USD","test":false}`,
	sampleHeader: map[string]string{"X-Shopify-Topic": "order_transactions/create", "X-Shopify-Shop-Domain": "example.myshopify.com", "X-Shopify-Triggered-At": "2024-01-01T00:00:00Z"},
	amount:       []string{"amount"},
	currency:     []string{"currency"},
}

// shopifyEvents is Shopify's newer Events, a developer preview whose headers have
// no X-. A delivery has one id, which its repeats share; what changed is what the
// subscription's query asks for. Read: shopify.dev events/delivery-structure and
// verify-deliveries; that Shopify-Event-Id is going away, in shopify-app-js.
var shopifyEvents = preset{
	name:     "shopify-events",
	signed:   "HMAC-SHA256, base64, header Shopify-Hmac-Sha256, over the body",
	secret:   "the app's client secret",
	scheme:   mac{header: "Shopify-Hmac-Sha256", encoding: base64Text}.scheme,
	id:       []string{"header:Shopify-Webhook-Id"},
	typ:      []string{"header:Shopify-Topic", "header:Shopify-Action"},
	occurred: "header:Shopify-Triggered-At",
	keep:     []string{"Shopify-Topic", "Shopify-Action", "Shopify-Handle", "Shopify-Shop-Domain", "Shopify-Api-Version"},
	fingerprint: []string{
		"topic", "action", "query_variables", "data",
	},
	sample: `{"topic":"Order","action":"update","handle":"paid-orders","query_variables":{"orderId":"gid://shopify/Order/{id}"},` +
		`"data":{"order":{"id":"gid://shopify/Order/{id}","displayFinancialStatus":"PAID","totalReceivedSet":{"shopMoney":{"amount":"19.99","currencyCode":"USD"}}}}}`,
	sampleHeader: map[string]string{
		"Shopify-Topic": "Order", "Shopify-Action": "update", "Shopify-Shop-Domain": "example.myshopify.com",
		"Shopify-Triggered-At": "2024-01-01T00:00:00Z",
	},
	amount:   []string{"data.order.totalReceivedSet.shopMoney.amount"},
	currency: []string{"data.order.totalReceivedSet.shopMoney.currencyCode"},
}

// coinbaseCommerce wraps its event. Read: docs.cdp.coinbase.com/commerce.
var coinbaseCommerce = preset{
	name:     "coinbase-commerce",
	signed:   "HMAC-SHA256, hex, header X-CC-Webhook-Signature, over the body",
	secret:   "the webhook's shared secret",
	scheme:   mac{header: "X-CC-Webhook-Signature"}.scheme,
	id:       []string{"body:event.id"},
	typ:      []string{"body:event.type"},
	occurred: "body:event.created_at",
	fingerprint: []string{
		"event.type", "event.data.id", "event.data.code", "event.data.pricing", "event.data.payments", "event.data.timeline",
	},
	sample: `{"attempt_number":1,"event":{"id":"{id}","type":"charge:confirmed","created_at":"2024-01-01T00:00:00Z",` +
		`"data":{"id":"ch_{id}","code":"AAAA","pricing":{"local":{"amount":"19.99","currency":"USD"}}}}}`,
	amount:   []string{"event.data.pricing.local.amount"},
	currency: []string{"event.data.pricing.local.currency"},
}

// gocardless sends up to 250 events a request; none holds an amount, only links.
// Read: developer.gocardless.com and its libraries.
var gocardless = preset{
	name:        "gocardless",
	signed:      "HMAC-SHA256, hex, header Webhook-Signature, over the body",
	secret:      "the webhook endpoint's secret",
	scheme:      mac{header: "Webhook-Signature"}.scheme,
	batch:       "events",
	id:          []string{"body:id"},
	typ:         []string{"body:resource_type", "body:action"},
	account:     "body:links.organisation",
	occurred:    "body:created_at",
	fingerprint: []string{"resource_type", "action", "links", "details.cause"},
	ack:         Ack{Status: http.StatusNoContent},
	reject:      plainAck(statusInvalidToken, "invalid token"),
	sample: `{"events":[{"id":"{id}","created_at":"2024-01-01T00:00:00.000Z","resource_type":"payments","action":"confirmed",` +
		`"links":{"payment":"PM_{id}"}}],"meta":{"webhook_id":"WB1"}}`,
}

// statusInvalidToken is what GoCardless wants to hear of a bad signature.
const statusInvalidToken = 498

// woocommerce signs in base64; the id is the delivery's. The shop's address is not
// signed, and no account (see shopify). The unsigned ping with which a shop saves a
// webhook is not answered as one. Read: woocommerce docs.
var woocommerce = preset{
	name:         "woocommerce",
	signed:       "HMAC-SHA256, base64, header X-WC-Webhook-Signature, over the body",
	secret:       "the secret that was typed for the webhook",
	scheme:       mac{header: "X-WC-Webhook-Signature", encoding: base64Text}.scheme,
	id:           []string{"header:X-WC-Webhook-Delivery-ID"},
	typ:          []string{"header:X-WC-Webhook-Topic"},
	occurred:     "body:date_modified_gmt",
	zone:         "UTC",
	keep:         []string{"X-WC-Webhook-Topic", "X-WC-Webhook-Resource", "X-WC-Webhook-Event", "X-WC-Webhook-Source"},
	fingerprint:  []string{"id", "status", "currency", "total", "refunds", "transaction_id"},
	sample:       `{"id":{number},"status":"processing","currency":"USD","total":"29.35","transaction_id":"{id}","date_modified_gmt":"2024-01-01T00:00:00"}`,
	sampleHeader: map[string]string{"X-WC-Webhook-Topic": "order.updated", "X-WC-Webhook-Source": "https://shop.example.com/"},
	amount:       []string{"total"},
	currency:     []string{"currency"},
}

// modernTreasury: the signature is read in its library; that X-Event-Id and
// X-Topic are there is not stated in what could be read.
var modernTreasury = preset{
	name:        "modern-treasury",
	signed:      "HMAC-SHA256, hex, header X-Signature, over the body",
	secret:      "the webhook's signing key",
	scheme:      mac{header: "X-Signature"}.scheme,
	id:          []string{"header:X-Event-Id"},
	typ:         []string{"header:X-Topic", "body:event"},
	occurred:    "body:data.updated_at",
	keep:        []string{"X-Topic", "X-Event-Id"},
	fingerprint: []string{"event", "data.id", "data.object", "data.status", "data.amount", "data.currency", "data.direction"},
	sample: `{"event":"completed","data":{"id":"po_{id}","object":"payment_order","status":"completed","amount":1000,` +
		`"currency":"USD","direction":"credit","updated_at":"2024-01-01T00:00:00Z"}}`,
	sampleHeader: map[string]string{"X-Topic": "payment_order"},
	amount:       []string{"data.amount"},
	currency:     []string{"data.currency"},
}

// pusher sends batches without ids: an event is known by its name, channel and
// time and by its bytes. X-Pusher-Key says which app sends; one source is one
// app. Read: docs.bird.com/pusher, pusher-http-go.
var pusher = preset{
	name:         "pusher",
	signed:       "HMAC-SHA256, hex, header X-Pusher-Signature, over the body",
	secret:       "the secret of the app whose key is in X-Pusher-Key",
	scheme:       mac{header: "X-Pusher-Signature"}.scheme,
	batch:        "events",
	id:           []string{"body:name", "body:channel?", "batch:time_ms", "hash"},
	typ:          []string{"body:name"},
	occurred:     "batch:time_ms",
	keep:         []string{"X-Pusher-Key"},
	sample:       `{"time_ms":1700000000000,"events":[{"name":"channel_occupied","channel":"{id}"}]}`,
	sampleHeader: map[string]string{"X-Pusher-Key": "key_test"},
}

// lemonSqueezy has no event id, and data.id is an invoice's for failed
// payments and a subscription's elsewhere, so that the object's type counts.
// Read: docs.lemonsqueezy.com; that the hash is SHA-256, in its examples.
var lemonSqueezy = preset{
	name:        "lemon-squeezy",
	signed:      "HMAC-SHA256, hex, header X-Signature, over the body",
	secret:      "the signing secret that was typed for the webhook",
	scheme:      mac{header: "X-Signature"}.scheme,
	id:          []string{"body:meta.event_name", "body:data.type", "body:data.id", "body:data.attributes.updated_at?"},
	typ:         []string{"body:meta.event_name"},
	live:        "body:meta.test_mode,data.attributes.test_mode",
	modes:       []word{{"false", live}, {"true", test}},
	occurred:    "body:data.attributes.updated_at",
	keep:        []string{"X-Event-Name"},
	fingerprint: []string{"meta.event_name", "data.type", "data.id", "data.attributes.status", "data.attributes.total", "data.attributes.currency", "data.attributes.refunded"},
	sample: `{"meta":{"event_name":"order_created","test_mode":false},"data":{"type":"orders","id":"{id}","attributes":` +
		`{"store_id":1,"status":"paid","currency":"USD","total":1999,"updated_at":"2024-01-01T00:00:00.000000Z"}}}`,
	amount:   []string{"data.attributes.total"},
	currency: []string{"data.attributes.currency"},
}

// mollie is the next-gen webhook. A simple payload says only which object
// changed, and has to be fetched. Read: docs.mollie.com/reference/best-practices
// and the validator of mollie-api-php.
var mollie = preset{
	name:        "mollie",
	signed:      "HMAC-SHA256, hex, header X-Mollie-Signature (sha256=), over the body",
	secret:      "the webhook's signing secret",
	scheme:      mac{header: "X-Mollie-Signature", prefix: "sha256="}.scheme,
	thin:        func(r *reading) bool { return r.find(mollieEntity) == nil },
	thinPaths:   []string{"_embedded.entity"},
	id:          []string{"body:id"},
	typ:         []string{"body:type"},
	occurred:    "body:createdAt",
	fingerprint: []string{"type", "entityId", "_embedded.entity.id", "_embedded.entity.status", "_embedded.entity.amount"},
	sample: `{"resource":"event","id":"{id}","type":"payment-link.paid","entityId":"pl_{id}","createdAt":"2024-01-01T00:00:00.0Z",` +
		`"_embedded":{"entity":{"id":"pl_{id}","amount":{"value":"10.00","currency":"EUR"}}}}`,
	amount:   []string{"_embedded.entity.amount.value"},
	currency: []string{"_embedded.entity.amount.currency"},
}

var mollieEntity = mustLocator("body:_embedded.entity")

// checkout is Checkout.com. Read: checkout.com/docs/workflows; its decimals in
// "format the amount value".
var checkout = preset{
	name:     "checkout",
	signed:   "HMAC-SHA256, hex, header Cko-Signature, over the body",
	secret:   "the signature key of the workflow's webhook",
	scheme:   mac{header: "Cko-Signature"}.scheme,
	id:       []string{"body:id"},
	typ:      []string{"body:type"},
	occurred: "body:created_on",
	fingerprint: []string{
		"type", "data.id", "data.action_id", "data.reference", "data.amount", "data.currency", "data.response_code",
	},
	sample: `{"id":"{id}","type":"payment_captured","version":"1.0.0","created_on":"2024-01-01T00:00:00Z",` +
		`"data":{"id":"pay_{id}","action_id":"act_{id}","reference":"ord_{id}","amount":1000,"currency":"EUR"}}`,
	decimals: map[string]int{"CLP": 2},
	amount:   []string{"data.amount"},
	currency: []string{"data.currency"},
}

// tebex signs the hash of the body, not the body. Read: docs.tebex.io webhooks.
var tebex = preset{
	name:        "tebex",
	signed:      "HMAC-SHA256, hex, header X-Signature, over the SHA-256 of the body in hex",
	secret:      "the webhook's secret",
	scheme:      mac{header: "X-Signature", content: mustTemplate("{sha256}")}.scheme,
	id:          []string{"body:id"},
	typ:         []string{"body:type"},
	occurred:    "body:date",
	fingerprint: []string{"type", "subject.transaction_id", "subject.status.id", "subject.price.amount", "subject.price.currency"},
	handshake:   tebexHandshake,
	sample: `{"id":"{id}","type":"payment.completed","date":"2024-01-01T00:00:00+00:00","subject":{"transaction_id":"tbx-{id}",` +
		`"price":{"amount":9.99,"currency":"USD"}}}`,
	amount:   []string{"subject.price.amount"},
	currency: []string{"subject.price.currency"},
}

// mailersend names each activity once. Read: its vector and API reference.
var mailersend = preset{
	name:     "mailersend",
	signed:   "HMAC-SHA256, hex, header Signature, over the body",
	secret:   "the webhook's signing secret",
	scheme:   mac{header: "Signature"}.scheme,
	id:       []string{"body:type", "body:data.id"},
	typ:      []string{"body:type"},
	account:  "body:domain_id",
	occurred: "body:created_at",
	sample:   `{"type":"activity.sent","domain_id":"d1","created_at":"2024-01-01T12:00:00.000000Z","data":{"object":"activity","id":"{id}"}}`,
}

// xsolla hashes the body and the key with plain SHA-1. It announces a purchase
// twice, as payment and as order_paid, and wants 204, 400 with a code for a bad
// signature, and 5xx to come again. Read: developers.xsolla.com/webhooks.
var xsolla = preset{
	name:   "xsolla",
	signed: "SHA-1, hex, header Authorization (Signature …), over body+secret",
	secret: "the project's secret key for webhooks",
	scheme: mac{header: "Authorization", prefix: "Signature ", hash: sha1.New, plain: true, content: mustTemplate("{body}{secret}")}.scheme,
	id: []string{
		"body:notification_type",
		"body:transaction.id,billing.transaction.id,order.id,purchase.subscription.subscription_id,subscription.subscription_id,user.id",
	},
	typ:      []string{"body:notification_type"},
	account:  "body:settings.project_id",
	live:     "body:transaction.dry_run,billing.transaction.dry_run",
	modes:    []word{{"", live}, {"0", live}, {"1", test}},
	occurred: "body:transaction.payment_date",
	fingerprint: []string{
		"notification_type", "transaction.id", "transaction.dry_run", "purchase.total", "purchase.checkout", "payment_details.payment",
		"billing.transaction.id", "billing.purchase.total", "order.id", "order.amount", "order.currency", "order.status", "user.id",
	},
	ack:    Ack{Status: http.StatusNoContent},
	reject: jsonAck(http.StatusBadRequest, `{"error":{"code":"INVALID_SIGNATURE","message":"Invalid signature"}}`),
	sample: `{"notification_type":"payment","settings":{"project_id":18404},"user":{"id":"u1"},"purchase":{"total":{"currency":"USD","amount":4.99}},` +
		`"transaction":{"id":{number},"payment_date":"2024-01-01T00:00:00+00:00"}}`,
	amount:   []string{"purchase.total.amount"},
	currency: []string{"purchase.total.currency"},
}
