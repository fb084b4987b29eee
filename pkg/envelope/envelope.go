package envelope

import "time"

// Event is one webhook delivery on its way through JetStream.
type Event struct {
	// Source is the configured name of the webhook source, for example "stripe".
	Source string
	// ID is the event id: with Source the key under which the event is applied once.
	ID string
	// Type is the provider's event type, for example "charge.succeeded"; may be empty.
	Type string
	// Time is when the event occurred, as far as the provider says, else when it was received.
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
