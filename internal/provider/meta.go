package provider

// meta is Facebook, Instagram and WhatsApp: one app, many pages and numbers. It
// signs the bytes as it sends them, unicode escaped. An entry has no id that
// would be its own, so its bytes are part of the key. Read: developers.facebook.com
// webhooks and whatsapp-api-js#290.
var meta = preset{
	name:      "meta",
	signed:    "HMAC-SHA256, hex, header X-Hub-Signature-256 (sha256=), over the body",
	secret:    "the app secret",
	scheme:    mac{header: "X-Hub-Signature-256", prefix: "sha256="}.scheme,
	uses:      usesToken,
	batch:     "entry",
	id:        []string{"batch:object", "body:id", "hash"},
	typ:       []string{"batch:object", "body:changes.0.field"},
	account:   "body:id",
	occurred:  "body:time",
	handshake: metaHandshake,
	sample:    `{"object":"whatsapp_business_account","entry":[{"id":"w1","time":1700000000,"changes":[{"field":"messages","value":{"id":"{id}"}}]}]}`,
}
