package operator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/fetch"
	"github.com/onceledger/onceledger/internal/provider"
)

// Provider is what there is to know of a provider before it is configured. Its
// JSON names are part of the public interface.
type Provider struct {
	Name string `json:"name"`
	// Scheme says in one line how requests are signed.
	Scheme   string            `json:"scheme"`
	Settings []ProviderSetting `json:"settings"`
	// Batch is where the events of one request are; empty: it is one event.
	Batch string `json:"batch,omitempty"`
	// IDs and Types are the places whose values, joined, are the event's id and type.
	IDs      []string `json:"event_id"`
	Types    []string `json:"event_type"`
	Account  string   `json:"account,omitempty"`
	Mode     string   `json:"mode,omitempty"`
	Occurred string   `json:"occurred_at,omitempty"`
	Headers  []string `json:"headers"`
	// Trusted: what the body says is signed and may be posted. Thin: but for single
	// events, which have to be looked up. Fetch: a source can do that by itself.
	Trusted bool `json:"body_trusted"`
	Thin    bool `json:"thin_events"`
	Fetch   bool `json:"fetch"`
	// Handshake: requests that set up an endpoint are answered.
	Handshake bool `json:"handshake"`
	// Tolerance is how far a signed time may be off, in both directions; 0: none is
	// held to the clock.
	Tolerance int64  `json:"tolerance_seconds"`
	Stored    Answer `json:"stored"`
	Refused   Answer `json:"bad_signature"`
	Again     Answer `json:"unavailable"`
	// Config is the least that a configuration has to say.
	Config string `json:"config"`
}

// ProviderSetting is a key of a source.
type ProviderSetting struct {
	Key      string `json:"key"`
	About    string `json:"about"`
	Required bool   `json:"required"`
}

// Answer is an answer in the provider's own words.
type Answer struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type,omitempty"`
	Body        string `json:"body,omitempty"`
}

// ListProviders prints every provider there is, one a line.
func ListProviders(s *Session) error {
	t := newTable(s.Out, "PROVIDER", "SIGNATURE", "EVENT ID", "CLOCK", "ANSWER")
	for _, name := range provider.Names() {
		d, _ := provider.Describe(name)
		p := providerOf(d)
		if s.JSON {
			if err := s.object(p); err != nil {
				return err
			}
			continue
		}
		scheme, _, _ := strings.Cut(p.Scheme, ", over")
		t.row(p.Name, scheme, cut(p.eventID()), p.clock(), cut(p.Stored.cell()))
	}
	if s.JSON {
		return nil
	}
	return t.flush()
}

// ShowProvider prints everything that a person needs to set up a source of one
// provider.
func ShowProvider(s *Session, name string) error {
	d, ok := provider.Describe(name)
	if !ok {
		hint := config.DidYouMean(name, provider.Names())
		if hint == "" {
			hint = "; `onceledger provider list` shows those there are"
		}
		return exit.Usagef("provider %q is unknown%s", name, hint)
	}
	p := providerOf(d)
	if s.JSON {
		return s.object(p)
	}
	return p.print(s)
}

func providerOf(d provider.Description) Provider {
	p := Provider{
		Name: d.Name, Scheme: d.Scheme, Batch: d.Batch, IDs: orNone(d.ID), Types: orNone(d.Type), Account: d.Account,
		Mode: d.Mode, Occurred: d.Occurred, Headers: orNone(d.Keep), Trusted: !d.Hint, Thin: d.Thin,
		Fetch: slices.Contains(fetch.Names(), d.Name), Handshake: d.Handshake, Tolerance: int64(d.Tolerance.Seconds()),
		Stored: answerOf(d.Ack), Refused: answerOf(d.Reject), Again: answerOf(d.Again),
	}
	for _, setting := range d.Settings {
		p.Settings = append(p.Settings, ProviderSetting(setting))
	}
	p.Config = p.minimal()
	return p
}

// orNone makes an empty list of none, for JSON.
func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func answerOf(a provider.Ack) Answer {
	return Answer{Status: a.Status, ContentType: a.ContentType, Body: string(a.Body)}
}

func (a Answer) cell() string { return strings.TrimSpace(fmt.Sprint(a.Status, " ", a.Body)) }

// eventID is where the event id stands, as a cell.
func (p *Provider) eventID() string {
	switch {
	case !p.Trusted:
		return "none: looked up"
	case len(p.IDs) == 0:
		return "id: of the source says"
	}
	return strings.Join(p.IDs, " ")
}

// clock is the tolerance as a cell.
func (p *Provider) clock() string {
	switch {
	case p.Tolerance == 0:
		return "-"
	case p.Tolerance%60 == 0:
		return fmt.Sprintf("±%dm", p.Tolerance/60)
	}
	return fmt.Sprintf("±%ds", p.Tolerance)
}
