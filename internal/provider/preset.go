package provider

import (
	"net/http"

	"github.com/onceledger/onceledger/internal/config"
)

// preset is what onceledger knows of one provider. Locators are written as in
// the configuration: "header:X-Name" or "body:path.to.member".
type preset struct {
	name string
	// scheme builds the signature scheme of a source, and reports its faults.
	scheme func(src config.Source, f *faults) scheme
	// customHMAC allows an hmac: block.
	customHMAC bool

	// id is where the event id stands; empty: the source has to say.
	id string
	// typ lists the parts of the event type, joined by dots; absent ones are left out.
	typ []string
	// account, live and occurred may be empty: the provider does not say.
	account, live, occurred string
	// keep names the request headers that rules may read.
	keep []string

	// fingerprint lists the body paths that carry an event's meaning.
	fingerprint   []string
	lowerCurrency bool

	ack    Ack
	reject int
}

// presets lists every provider there is; each stands in the file of its family.
var presets = table(&stripe, &github, &standardWebhooks, &generic)

// table indexes presets by name and fills in the usual answers.
func table(list ...*preset) map[string]*preset {
	byName := make(map[string]*preset, len(list))
	for _, p := range list {
		if p.ack.Status == 0 {
			p.ack.Status = http.StatusOK
		}
		if p.reject == 0 {
			p.reject = http.StatusUnauthorized
		}
		byName[p.name] = p
	}
	return byName
}
