package fetch

import (
	"strconv"
	"time"

	"github.com/onceledger/onceledger/pkg/envelope"
)

// chargebee is Chargebee: its notices are whole events that nobody has signed, so
// that the event is asked for by its id. The body is what the API answers, with
// the event under event. Read: apidocs.chargebee.com, retrieve an event.
type chargebee struct{}

// Ask implements Fetcher.
func (chargebee) Ask(hint *envelope.Event) (Ask, error) {
	notice, err := read(hint.Data)
	if err != nil {
		return Ask{}, err
	}
	id, err := word("the id of the event", notice.text("id"))
	if err != nil {
		return Ask{}, err
	}
	return Ask{ID: id, Path: "/api/v2/events/" + escape(id), object: id}, nil
}

// Facts implements Fetcher.
func (chargebee) Facts(_ *envelope.Event, ask Ask, answer []byte) ([]Fact, error) {
	got, err := read(answer)
	if err != nil {
		return nil, err
	}
	if err := same(got.text("event", "id"), ask.object); err != nil {
		return nil, err
	}
	fact := Fact{ID: ask.ID, Type: got.text("event", "event_type"), Body: got.raw}
	if seconds, err := strconv.ParseInt(got.text("event", "occurred_at"), 10, 64); err == nil && seconds > 0 {
		fact.Time = time.Unix(seconds, 0).UTC()
	}
	return []Fact{fact}, nil
}
