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
//	req := provider.Request{Method: r.Method, Query: r.URL.RawQuery, Header: r.Header, Body: body}
//	if err := source.Verify(ctx, req, time.Now()); err != nil {
//		return source.Reject(), err // wraps ErrSignature or ErrUnavailable
//	}
//	for _, event := range source.Events(req, time.Now()) {
//		msg, err := event.Msg()
//	}
package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/internal/keyring"
)

var (
	// ErrSignature marks a request that no live secret signed, or not in time. The
	// text beside it says what was wrong, without secrets and expected values.
	ErrSignature = errors.New("bad signature")
	// ErrUnavailable marks a request that cannot be judged now: its key could not
	// be fetched, or its content not be opened. The sender is to come again.
	ErrUnavailable = errors.New("cannot verify now")
)

// Source is one configured webhook endpoint, ready to verify and read its
// requests. It is safe for concurrent use.
type Source struct {
	name   string
	mode   string // the mode whose events keep their plain id
	preset *preset
	scheme scheme
	token  string   // verify_token
	masked []string // of each secret, what Explain may show

	id, typ                 []locator
	account, live, occurred locator
	keep                    []string // canonical names of the headers an event keeps
	paths                   *jsondoc.Paths
	kind                    body.Kind
	zone                    *time.Location // of times without one
	audience                string         // whom samples are for
}

// New returns the source that src describes, or all its faults. A source
// without a usable secret is a fault, never one that accepts everything.
func New(src config.Source) (*Source, []config.Fault) {
	return NewWith(src, keyring.Options{})
}

// NewWith is New with options for the keys that have to be fetched.
func NewWith(src config.Source, o keyring.Options) (*Source, []config.Fault) {
	f := &faults{src: src, options: o}
	p, ok := presets[src.Provider.Value]
	if !ok {
		hint := config.DidYouMean(src.Provider.Value, Names())
		if hint == "" {
			hint = "; there are " + strings.Join(Names(), ", ")
		}
		f.add(src.Provider.Pos, "provider", "%q is unknown%s", src.Provider.Value, hint)
		return nil, f.list
	}

	s := &Source{
		name: src.Name.Value, mode: cmp.Or(src.Mode, "live"), preset: p,
		token: src.VerifyToken.Reveal(), audience: src.Audience.Value, kind: p.kind, zone: zones[p.zone],
	}
	if p.inner != nil {
		s.kind.Inner = append(slices.Clone(p.kind.Inner), p.inner(src)...)
	}
	for _, secret := range src.Secrets {
		s.masked = append(s.masked, mask(secret.Reveal()))
	}
	p.checkSettings(src, f)
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

// Verify reports whether a live secret signed this request; now is the
// receiver's clock. ctx bounds the fetching of a key, which few providers need.
// Errors wrap ErrSignature or ErrUnavailable.
func (s *Source) Verify(ctx context.Context, req Request, now time.Time) error {
	return s.scheme.verify(ctx, req, now)
}

// Sign returns the request in which the provider would send body under this
// event id: for trying a source, for tests and for the demo. It uses the first
// secret that can sign and fails where none can. Of what the provider seals,
// what stands open in body is sealed. An id that stands in the body is the
// caller's to put there.
func (s *Source) Sign(body []byte, id string, now time.Time) (Request, error) {
	req := Post(http.Header{"Content-Type": {s.preset.contentType}}, body)
	if err := s.scheme.sign(&req, id, now); err != nil {
		return Request{}, fmt.Errorf("sign request of %s: %w", s.name, err)
	}
	for _, l := range s.id {
		if len(l.headers) > 0 && !l.optional && req.Header.Get(l.headers[0]) == "" {
			req.Header.Set(l.headers[0], id)
		}
	}
	return req, nil
}

// Handshake returns the answer to a request that sets up an endpoint instead of
// reporting an event, and whether req is one. It is asked before the signature
// is looked at, since some handshakes have none, and after, for those that must
// have a good one.
func (s *Source) Handshake(req Request, verified bool) (Ack, bool) {
	if s.preset.handshake == nil {
		return Ack{}, false
	}
	return s.preset.handshake(s, req, verified)
}

// Ack returns the answer with which the provider counts a delivery as done.
func (s *Source) Ack() Ack { return s.preset.ack }

// Reject returns the answer to a bad signature.
func (s *Source) Reject() Ack { return s.preset.reject }

// Again returns the answer that makes the provider send again.
func (s *Source) Again() Ack { return s.preset.again }

// Tolerance returns how far a signed time may be from the clock, in either
// direction; 0: none is held to it.
func (s *Source) Tolerance() time.Duration { return s.scheme.limit() }

// Hint reports whether requests only say what to look up.
func (s *Source) Hint() bool { return s.preset.hint }

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

// Decimals returns with how many decimals the provider counts minor units of those
// currencies for which it has others than ISO 4217.
func (s *Source) Decimals() map[string]int { return s.preset.decimals }

// HasMode reports whether events say if they are live or test. An event of
// such a source without a mode moves no money.
func (s *Source) HasMode() bool { return s.live.set() }

// faults gathers what is wrong with one source while it is built.
type faults struct {
	src     config.Source
	options keyring.Options
	list    []config.Fault
}

func (f *faults) add(pos config.Pos, key, format string, args ...any) {
	f.list = append(f.list, config.Fault{
		Pos:     pos,
		Path:    "sources." + f.src.Name.Value + "." + key,
		Message: fmt.Sprintf(format, args...),
	})
}
