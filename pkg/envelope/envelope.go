// Package envelope carries one webhook delivery through NATS JetStream as a
// CloudEvent in binary mode: the provider's bytes are the message's data,
// untouched, and everything known about them stands in headers.
//
// It guarantees that Decode gives back exactly what Msg was given, whatever an
// id or a type contains, and that no value can add a header, leave its subject
// or reach a header the broker gives a meaning to.
//
//	event := &envelope.Event{Source: "stripe", ID: "evt_1", Type: "charge.succeeded", Data: body}
//	msg, err := event.Msg()                        // subject events.stripe.charge.succeeded
//	…
//	ack, err := js.PublishMsg(ctx, msg)            // stored
//	event, err = envelope.Decode(msg.Header, data) // the same event again
package envelope

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/textproto"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrInvalid marks an event that cannot be a message, and a message that is
// not an event. The text beside it says which part is at fault.
var ErrInvalid = errors.New("invalid event")

// The bounds of an event, in bytes of UTF-8 unless said otherwise. What comes
// from outside is held to them before it becomes an event.
const (
	MaxSource      = 64
	MaxID          = 512
	MaxType        = 256
	MaxAccount     = 128
	MaxMode        = 16
	MaxFault       = 64
	MaxContentType = 256
	MaxTraceParent = 64

	MaxHeaders     = 16 // kept request headers
	MaxHeaderName  = 64
	MaxHeaderValue = 1024
)

// Event is one webhook delivery on its way through JetStream.
type Event struct {
	// Source is the configured name of the webhook source, for example "stripe".
	Source string
	// ID is the event id: with Source the key under which the event is applied once.
	ID string
	// Type is the provider's event type, for example "charge.succeeded"; may be empty.
	Type string
	// Time is when the event occurred, as far as the provider says, else when
	// it was received. It travels in UTC; the zero time does not travel.
	Time time.Time
	// ContentType is the request's media type as it was sent.
	ContentType string
	// Account is the merchant account within the source; empty where there is just one.
	Account string
	// Mode is "live", "test", or empty where the provider does not say.
	Mode string
	// Fault is the reason (a dlq.Reason) for which the receiver could not read
	// the delivery; ID is then a generated one. Empty for a readable event.
	Fault string
	// Hint is the id of the delivery that made somebody look this event up: Data is
	// then what the provider's API answered, as JSON. Empty for a delivery.
	Hint string
	// Redrive counts how often an operator sent this event again; 0 for a delivery.
	Redrive int
	// TraceParent is the W3C trace context of the request, if any.
	TraceParent string
	// Header holds the request headers that the provider's preset keeps, by
	// canonical name. They travel as Onceledger-H-<name>.
	Header map[string]string
	// Data is the body exactly as it was received.
	Data []byte
}

// GeneratedID returns a fresh id for a delivery that has none of its own. It
// begins with "generated/" and is never the same twice.
func GeneratedID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails since Go 1.24
	return "generated/" + hex.EncodeToString(random[:])
}

// Storable reports whether s may be part of an event: valid UTF-8 without NUL,
// at most limit bytes long.
func Storable(s string, limit int) bool {
	return len(s) <= limit && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// validate reports the first part of e that cannot travel.
func (e *Event) validate() error {
	if e.ID == "" || e.Source == "" {
		return fmt.Errorf("%w: id and source must not be empty", ErrInvalid)
	}
	for _, part := range [...]struct {
		name, value string
		limit       int
	}{
		{"source", e.Source, MaxSource},
		{"id", e.ID, MaxID},
		{"type", e.Type, MaxType},
		{"account", e.Account, MaxAccount},
		{"mode", e.Mode, MaxMode},
		{"fault", e.Fault, MaxFault},
		{"hint", e.Hint, MaxID},
		{"content type", e.ContentType, MaxContentType},
		{"trace parent", e.TraceParent, MaxTraceParent},
	} {
		if !Storable(part.value, part.limit) {
			return fmt.Errorf("%w: %s is longer than %d bytes, or not UTF-8 without NUL", ErrInvalid, part.name, part.limit)
		}
	}
	if year := e.Time.UTC().Year(); year < 1 || year > 9999 {
		return fmt.Errorf("%w: time is outside the years 1 to 9999", ErrInvalid)
	}
	if e.Redrive < 0 {
		return fmt.Errorf("%w: redrive is negative", ErrInvalid)
	}
	return e.validateHeader()
}

func (e *Event) validateHeader() error {
	if len(e.Header) > MaxHeaders {
		return fmt.Errorf("%w: more than %d kept headers", ErrInvalid, MaxHeaders)
	}
	for name, value := range e.Header {
		if !headerName(name) {
			return fmt.Errorf("%w: kept header has no canonical name", ErrInvalid)
		}
		if !Storable(value, MaxHeaderValue) {
			return fmt.Errorf("%w: kept header %s is longer than %d bytes, or not UTF-8 without NUL",
				ErrInvalid, name, MaxHeaderValue)
		}
	}
	return nil
}

// headerName reports whether name is a canonical header name made of letters,
// digits and hyphens only, so that it survives in a NATS header as it is.
func headerName(name string) bool {
	if name == "" || len(name) > MaxHeaderName || name != textproto.CanonicalMIMEHeaderKey(name) {
		return false
	}
	for i := range len(name) {
		if !wordByte(name[i]) {
			return false
		}
	}
	return true
}
