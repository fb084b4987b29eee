package fetch

import (
	"net/http"
	"regexp"

	"github.com/onceledger/onceledger/pkg/envelope"
)

// stripeVersion is the version of the API that is asked: /v2 has no default.
const stripeVersion = "2025-09-30.clover"

// stripe is Stripe's thin events. They are signed, and say all but the object:
// its URL is asked for, and the body is the object. An event without an object is
// asked for itself. The event keeps its own id and type. Read:
// docs.stripe.com/event-destinations.
type stripe struct{}

var (
	// stripePath is a path of the API that names one object.
	stripePath = regexp.MustCompile(`^/v[12](/[A-Za-z0-9_-]+){2,8}$`)
	// stripeContext is an account, or the way to one within an organization.
	stripeContext = regexp.MustCompile(`^[A-Za-z0-9_/-]{1,128}$`)
)

// Ask implements Fetcher.
func (stripe) Ask(hint *envelope.Event) (Ask, error) {
	event, err := read(hint.Data)
	if err != nil {
		return Ask{}, err
	}
	id, err := word("the id of the event", event.text("id"))
	if err != nil {
		return Ask{}, err
	}
	ask := Ask{
		ID: id, Account: event.text("context"), Mode: modeOf(event.flag("livemode")),
		Path: "/v2/core/events/" + escape(id), object: id, Header: http.Header{"Stripe-Version": {stripeVersion}},
	}
	if path := event.text("related_object", "url"); path != "" {
		if !stripePath.MatchString(path) {
			return Ask{}, refuse("the URL of the related object is no path of the API")
		}
		ask.Path, ask.object = path, event.text("related_object", "id")
	}
	if ask.Account != "" {
		if !stripeContext.MatchString(ask.Account) {
			return Ask{}, refuse("the context of the event is no account")
		}
		ask.Header.Set("Stripe-Context", ask.Account)
	}
	return ask, nil
}

// Facts implements Fetcher.
func (stripe) Facts(hint *envelope.Event, ask Ask, answer []byte) ([]Fact, error) {
	object, err := read(answer)
	if err != nil {
		return nil, err
	}
	if err := same(object.text("id"), ask.object); err != nil {
		return nil, err
	}
	event, err := read(hint.Data)
	if err != nil {
		return nil, err
	}
	return []Fact{{
		ID: ask.ID, Type: event.text("type"), Mode: ask.Mode, Account: ask.Account,
		Time: event.instant("created"), Body: object.raw,
	}}, nil
}
