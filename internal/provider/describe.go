package provider

import (
	"time"

	"github.com/onceledger/onceledger/internal/config"
)

// Description is what there is to know of a provider before it is configured.
type Description struct {
	Name string
	// Settings are the keys of a source that it uses beside secrets.
	Settings []string
	// Batch is where the events of one request are; empty: it is one event.
	Batch string
	// ID lists the places that make up the event id; none: the source has to say,
	// or there is none (Hint).
	ID []string
	// Tolerance is how far a signed time may be from the clock; 0: none is held to it.
	Tolerance time.Duration
	// Ack and Reject are the answers to what is stored and to a bad signature.
	Ack, Reject Ack
	// Hint: what a request says has to be looked up.
	Hint bool
	// Handshake: requests that set up an endpoint are answered.
	Handshake bool
}

// Describe returns what is known of a provider, and whether there is one of
// this name.
func Describe(name string) (Description, bool) {
	p, ok := presets[name]
	if !ok {
		return Description{}, false
	}
	d := Description{
		Name: p.name, Batch: p.batch, ID: p.id, Ack: p.ack, Reject: p.reject,
		Hint: p.hint, Handshake: p.handshake != nil,
	}
	for _, s := range settings {
		if p.uses&s.uses != 0 {
			d.Settings = append(d.Settings, s.key)
		}
	}
	// Without secrets a scheme accepts nothing, and still has its clock.
	block := config.HMAC{Header: "X", TimestampHeader: "X", Content: config.Text{Value: bodyPart + stampPart}}
	src := config.Source{}
	if p == &generic {
		src.HMAC = &block
	}
	d.Tolerance = p.scheme(src, &faults{src: src}).limit()
	return d, true
}
