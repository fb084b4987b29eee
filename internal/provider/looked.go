package provider

import (
	"cmp"

	"github.com/onceledger/onceledger/pkg/envelope"
)

// LookedUp returns the event of something that hint made somebody look up in the
// provider's API: a body in JSON, under an id that names it within its account
// and mode. What the API does not say of these, e leaves empty.
func (s *Source) LookedUp(hint *envelope.Event, e envelope.Event) *envelope.Event {
	e.Source, e.Hint, e.TraceParent, e.ContentType = s.name, hint.ID, hint.TraceParent, "application/json"
	e.Account, e.Mode = cmp.Or(e.Account, hint.Account), cmp.Or(e.Mode, hint.Mode)
	if e.Time.IsZero() {
		e.Time = hint.Time
	}
	e.ID = s.key(&e, e.ID)
	return &e
}
