// Package provider knows how the senders of webhooks sign, name and repeat
// their events. A preset is data: where the signature stands and what it
// covers, where the event's id, type, account and mode are, what the sender
// wants to hear. A Source is a preset with one endpoint's secrets.
//
// It guarantees that Verify accepts a request only if a live secret signed
// exactly these bytes, within the tolerance where a time is signed, and that
// Event makes something storable of every verified request: what cannot be
// keyed carries the reason instead and a generated id.
//
//	source, faults := provider.New(cfg)
//	if err := source.Verify(r.Header, body, time.Now()); err != nil {
//		return source.Reject(), err // wraps ErrSignature
//	}
//	msg, err := source.Event(r.Header, body, time.Now()).Msg()
package provider

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

// ErrSignature marks a request that no live secret signed, or not in time. The
// text beside it says what was wrong, without secrets and expected values.
var ErrSignature = errors.New("bad signature")

// Source is one configured webhook endpoint, ready to verify and read its
// requests. It is safe for concurrent use.
type Source struct {
	name   string
	mode   string // the mode whose events keep their plain id
	preset *preset
	scheme scheme

	id, account, live, occurred locator
	typ                         []locator
	keep                        []string // canonical names of the headers an event keeps
	paths                       *jsondoc.Paths
}

// New returns the source that src describes, or all its faults. A source
// without a usable secret is a fault, never one that accepts everything.
func New(src config.Source) (*Source, []config.Fault) {
	f := &faults{src: src}
	p, ok := presets[src.Provider.Value]
	if !ok {
		f.add(src.Provider.Pos, "provider", "%q is unknown; there are %s",
			src.Provider.Value, strings.Join(Names(), ", "))
		return nil, f.list
	}

	s := &Source{name: src.Name.Value, mode: cmp.Or(src.Mode, "live"), preset: p}
	if src.HMAC != nil && !p.customHMAC {
		f.add(src.Pos, "hmac", "provider %s has a signature of its own; hmac: is for provider hmac", p.name)
	}
	s.scheme = p.scheme(src, f)
	s.locate(f)
	if len(f.list) > 0 {
		return nil, f.list
	}
	return s, nil
}

// Names returns the providers there are, sorted.
func Names() []string {
	names := make([]string, 0, len(presets))
	for name := range presets {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Verify reports whether a live secret signed this request. body is what was
// received, byte for byte; now is the receiver's clock. Errors wrap ErrSignature.
func (s *Source) Verify(h http.Header, body []byte, now time.Time) error {
	return s.scheme.verify(h, body, now)
}

// Sign returns the headers with which the provider would send body under this
// event id: for trying a source, for tests and for the demo. It uses the first
// secret that can sign and fails where none can. An id that stands in the body
// is the caller's to put there.
func (s *Source) Sign(body []byte, id string, now time.Time) (http.Header, error) {
	h, err := s.scheme.sign(body, id, now)
	if err != nil {
		return nil, fmt.Errorf("sign request of %s: %w", s.name, err)
	}
	h.Set("Content-Type", "application/json")
	if len(s.id.headers) > 0 && h.Get(s.id.headers[0]) == "" {
		h.Set(s.id.headers[0], id)
	}
	return h, nil
}

// Ack is the answer with which a provider counts a delivery as done.
type Ack struct {
	Status      int
	ContentType string
	Body        []byte
}

// Ack returns the provider's success answer.
func (s *Source) Ack() Ack { return s.preset.ack }

// Reject returns the status that answers a bad signature.
func (s *Source) Reject() int { return s.preset.reject }

// FingerprintPaths returns the body paths that carry the meaning of this
// provider's events; nil where only the source's own rules can tell.
func (s *Source) FingerprintPaths() [][]string {
	var paths [][]string
	for _, path := range s.preset.fingerprint {
		paths = append(paths, strings.Split(path, "."))
	}
	return paths
}

// LowerCurrency reports whether the provider writes ISO 4217 codes in lower case.
func (s *Source) LowerCurrency() bool { return s.preset.lowerCurrency }

// HasMode reports whether events say if they are live or test. An event of
// such a source without a mode moves no money.
func (s *Source) HasMode() bool { return s.live.set() }

// faults gathers what is wrong with one source.
type faults struct {
	src  config.Source
	list []config.Fault
}

func (f *faults) add(pos config.Pos, key, format string, args ...any) {
	f.list = append(f.list, config.Fault{
		Pos:     pos,
		Path:    "sources." + f.src.Name.Value + "." + key,
		Message: fmt.Sprintf(format, args...),
	})
}
