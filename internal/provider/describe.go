package provider

import (
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/config"
)

// Description is what there is to know of a provider before it is configured.
type Description struct {
	Name string
	// Scheme says in one line how its requests are signed.
	Scheme string
	// Settings are the keys that make a source of it one's own, secrets first.
	Settings []Setting
	// Batch is where the events of one request are; empty: it is one event.
	Batch string
	// ID lists the places that make up the event id; none: the source has to say,
	// or there is none (Hint).
	ID []string
	// Type lists the places that make up the event type, with dots between them.
	Type []string
	// Account, Mode and Occurred are where those stand; empty: the provider does not say.
	Account, Mode, Occurred string
	// Keep are the request headers that rules may read.
	Keep []string
	// Tolerance is how far a signed time may be from the clock; 0: none is held to it.
	Tolerance time.Duration
	// Ack, Reject and Again are the answers to what is stored, to a bad signature,
	// and to what cannot be taken now.
	Ack, Reject, Again Ack
	// Hint: what a request says has to be looked up. Thin: some events have to be.
	Hint, Thin bool
	// Handshake: requests that set up an endpoint are answered.
	Handshake bool
}

// Setting is a key of a source, what it is about, and whether a source without
// it has a fault.
type Setting struct {
	Key, About string
	Required   bool
}

// Describe returns what is known of a provider, and whether there is one of
// this name.
func Describe(name string) (Description, bool) {
	p, ok := presets[name]
	if !ok {
		return Description{}, false
	}
	d := Description{
		Name: p.name, Scheme: p.signed, Settings: p.settings(), Batch: p.batch, ID: p.id, Type: p.typ,
		Account: p.account, Mode: p.live, Occurred: p.occurred, Ack: p.ack, Reject: p.reject, Again: p.again,
		Hint: p.hint, Thin: p.thin != nil, Handshake: p.handshake != nil,
	}
	places := Source{preset: p}
	places.locate(&faults{})
	d.Keep = places.keep
	// Without secrets a scheme accepts nothing, and still has its clock.
	block := config.HMAC{Header: "X", TimestampHeader: "X", Content: config.Text{Value: bodyPart + stampPart}}
	src := config.Source{}
	if p == &generic {
		src.HMAC = &block
	}
	d.Tolerance = p.scheme(src, &faults{src: src}).limit()
	return d, true
}

// settings lists what a source has to say, or may: what is missing of one that
// says nothing is required.
func (p *preset) settings() []Setting {
	missing := map[string]bool{}
	bare := config.Source{Provider: config.Text{Value: p.name}}
	probes := []config.Source{bare}
	if p == &generic { // without its block nothing else of it is looked at
		bare.HMAC = &config.HMAC{Header: "X"}
		probes = append(probes, bare)
	}
	for _, probe := range probes {
		_, faults := New(probe)
		for _, f := range faults {
			missing[strings.TrimPrefix(f.Path, "sources..")] = true
		}
	}
	list := []Setting{{"secrets", p.secret, missing["secrets"]}}
	for _, s := range settings {
		if p.uses&s.uses != 0 {
			list = append(list, Setting{s.key, s.about, missing[s.key]})
		}
	}
	if missing["id"] {
		list = append(list, Setting{"id", "where an event keeps the id that its repeats share", true})
	}
	return list
}
