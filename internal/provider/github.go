package provider

import (
	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/config"
)

// github signs the body with SHA-256 and keeps an event's id and type in
// headers. A redelivery has the id of the first delivery.
//
// The older X-Hub-Signature with SHA-1 is not looked at: who must accept it
// says so in an hmac: block, which then replaces the signature.
//
//	hmac: {header: X-Hub-Signature, prefix: "sha1=", algorithm: sha1}
//
// A webhook's content type may be set to a form, whose field payload then holds
// the JSON: rules read that, and see no difference. Read: docs.github.com webhooks.
var github = preset{
	name:   "github",
	signed: "HMAC-SHA256, hex, header X-Hub-Signature-256 (sha256=), over the body",
	secret: "the secret that was typed for the webhook",
	scheme: githubScheme,
	uses:   usesHMAC,
	orJSON: true,
	kind: body.Kind{Format: body.FormatForm, Inner: []body.Inner{{
		Path: []string{"payload"}, Whole: true, Required: true,
	}}},

	id:  []string{"header:X-GitHub-Delivery"},
	typ: []string{"header:X-GitHub-Event", "body:action"},
	keep: []string{
		"X-GitHub-Event", "X-GitHub-Delivery", "X-GitHub-Hook-ID",
		"X-GitHub-Hook-Installation-Target-Type", "X-GitHub-Hook-Installation-Target-ID",
	},
	sample:       `{"action":"created","sponsorship":{"node_id":"S_{id}","sponsor":{"login":"octocat"},"tier":{"monthly_price_in_cents":1999}}}`,
	sampleHeader: map[string]string{"X-GitHub-Event": "sponsorship"},
	amount:       []string{"sponsorship.tier.monthly_price_in_cents"},
}

func githubScheme(src config.Source, f *faults) scheme {
	if src.HMAC != nil {
		return genericScheme(src, f)
	}
	return mac{header: "X-Hub-Signature-256", prefix: "sha256="}.scheme(src, f)
}
