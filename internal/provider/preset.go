package provider

import (
	"cmp"
	"net/http"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/config"
)

// preset is what onceledger knows of one provider. Locators are written as in
// the configuration, "header:X-Name" or "body:path.to.member", with commas
// between places of which the first that has a value counts, and three more:
// "query:name", "batch:name" (beside the items of a batch) and "hash" (of the
// event's bytes).
type preset struct {
	name string
	// signed says in words how a request is signed: algorithm, encoding, where the
	// signature stands, over what. secret says what stands under secrets.
	signed, secret string
	// scheme builds the signature scheme of a source, and reports its faults.
	scheme func(src config.Source, f *faults) scheme
	// uses says which optional settings the provider has.
	uses setting

	// batch is the member that holds the events of a request, "." for an array
	// that is the whole body; empty: a request is one event.
	batch string
	// kind says how an event's bytes are read, and inner what is sealed in them.
	kind  body.Kind
	inner func(src config.Source) []body.Inner
	// orJSON: bodies that look like JSON are, whatever kind says.
	orJSON bool
	// hint: the body is not signed, or says nothing of money. Such a request says
	// only what to look up, so its events are parked until somebody does.
	hint bool
	// thin reports whether this one event of a signed body has to be looked up;
	// it reads thinPaths.
	thin      func(r *reading) bool
	thinPaths []string

	// id lists where the parts of the event id stand, those that end in "?" being
	// optional; none: the source has to say. Where a provider repeats one id for
	// several states, the state is a part.
	id []string
	// typ lists the parts of the event type, joined by dots; absent ones are left out.
	typ []string
	// account, live and occurred may be empty: the provider does not say.
	account, live, occurred string
	// modes are the words of live, "" being its absence; nil: true and false,
	// live and test.
	modes []word
	// zone is of times that have none.
	zone string
	// keep names the request headers that rules may read.
	keep []string

	// fingerprint lists the body paths that carry an event's meaning.
	fingerprint   []string
	lowerCurrency bool
	// decimals are those with which the provider's own table has a currency, where
	// ISO 4217 has others.
	decimals map[string]int

	// ack answers what is stored, reject a bad signature, again what cannot be
	// taken now. Zero values are a plain 200, 401 and 503.
	ack, reject, again Ack
	// handshake answers requests that set up an endpoint; nil: there are none.
	handshake func(s *Source, req Request, verified bool) (Ack, bool)

	// contentType is what the provider sends; empty: application/json.
	contentType string
	// sample is a body as rules see it: unsigned, and what is sealed in it open.
	// {id} stands for the event id, {number} for one made of it, and {audience}
	// for the source's.
	sample string
	// sampleHeader are the headers that come with it.
	sampleHeader map[string]string
	// amount and currency are where the sample keeps its own, each of them in as
	// many members as the provider repeats it.
	amount, currency []string
}

// word is what a provider calls a mode.
type word struct{ text, mode string }

// setting is a set of optional settings of a source.
type setting uint

const (
	usesHMAC setting = 1 << iota
	usesURL
	usesKeys
	usesToken
	usesAudience
	usesWebhookID
	usesServiceAccount
)

// settings are the optional settings, by the keys of the configuration.
var settings = [...]struct {
	uses       setting
	key, about string
	given      func(src config.Source) (pos config.Pos, given bool)
}{
	{usesHMAC, "hmac", "what the signature looks like", func(src config.Source) (config.Pos, bool) { return src.Pos, src.HMAC != nil }},
	{usesURL, "url", "the address as it is registered with the provider, to the letter", func(src config.Source) (config.Pos, bool) {
		return src.URL.Pos, src.URL.Value != ""
	}},
	{usesKeys, "public_keys", "what verifies: public keys or certificates, as PEM or base64", func(src config.Source) (config.Pos, bool) {
		return src.Pos, len(src.PublicKeys) > 0
	}},
	{usesToken, "verify_token", "what you type where the webhook is registered", func(src config.Source) (config.Pos, bool) {
		return src.Pos, !src.VerifyToken.IsZero()
	}},
	{usesAudience, "audience", "whom its tokens must be for", func(src config.Source) (config.Pos, bool) {
		return src.Audience.Pos, src.Audience.Value != ""
	}},
	{usesServiceAccount, "service_account", "the e-mail address of the account that pushes", func(src config.Source) (config.Pos, bool) {
		return src.ServiceAccount.Pos, src.ServiceAccount.Value != ""
	}},
	{usesWebhookID, "webhook_id", "the id that the provider shows for this endpoint", func(src config.Source) (config.Pos, bool) {
		return src.WebhookID.Pos, src.WebhookID.Value != ""
	}},
}

// checkSettings reports settings that the provider does not have: they would
// promise a check that nobody makes.
func (p *preset) checkSettings(src config.Source, f *faults) {
	for _, s := range settings {
		pos, given := s.given(src)
		switch {
		case !given || p.uses&s.uses != 0:
		case s.uses == usesHMAC:
			f.add(pos, s.key, "provider %s has a signature of its own; hmac: is for provider hmac", p.name)
		default:
			f.add(pos, s.key, "provider %s does not use it; leave it out", p.name)
		}
	}
}

// table indexes presets by name and fills in the usual answers.
func table(list ...*preset) map[string]*preset {
	byName := make(map[string]*preset, len(list))
	for _, p := range list {
		p.ack.Status = cmp.Or(p.ack.Status, http.StatusOK)
		p.reject.Status = cmp.Or(p.reject.Status, http.StatusUnauthorized)
		p.again.Status = cmp.Or(p.again.Status, http.StatusServiceUnavailable)
		p.contentType = cmp.Or(p.contentType, "application/json")
		byName[p.name] = p
	}
	return byName
}
