// Package rules turns an event into ledger transfers, as the CEL expressions of
// its source say.
//
// It guarantees that an event has one outcome, whatever the order of its
// members and whatever the rules do not read: the same body decides the same
// way every time, without a clock, a network or a float64. An expression that
// fails parks the event with a reason and never reads as "nothing to do".
//
//	set, faults := rules.Compile(source, preset, assets)
//	if len(faults) > 0 {
//		return config.Faults(faults).In(path)
//	}
//	decision := set.Decide(event) // transfers, ignored or parked; and the fingerprint
//
// Every rule whose `when` is true adds its transfers. Expressions see body (the
// JSON document), event (id, type, source, account, mode) and header (the
// request headers the preset keeps), and the functions op, minor and major.
// Numbers are exact: a JSON integer of up to 64 bits is a CEL int, any other
// number is a decimal, which minor(), major(), string() and comparisons take,
// and arithmetic does not. An amount without major() is in minor units as the
// provider counts them, which for some currencies are not those of ISO 4217.
package rules

import (
	"cmp"
	"time"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// Decision is what a source's rules make of one event.
type Decision struct {
	// Transfers are in the order of the rules; none means the event is ignored.
	Transfers []ledger.Transfer
	// Ignored says why an event without transfers is ignored: mode_mismatch,
	// unmatched, no_transfers or amount_zero.
	Ignored dlq.Reason
	// Parked is the reason for which the event cannot be applied; empty if it can.
	Parked dlq.Reason
	// Err says in words what Parked is about: the expression, its place, the value.
	Err error
	// Fingerprint is the business meaning of the event, by these rules.
	Fingerprint [32]byte
}

// Preset is what the rules of a source need to know of its provider.
type Preset struct {
	// Name is the provider: "stripe".
	Name string
	// FingerprintPaths are the body paths that carry an event's meaning besides
	// those its rules read: ids, time, status.
	FingerprintPaths [][]string
	// LowerCurrency accepts "usd" for USD, where the provider writes it so.
	LowerCurrency bool
	// Decimals are those with which the provider counts its minor units of a
	// currency, where they are not those of ISO 4217.
	Decimals map[string]int
	// HasMode says that every event is either live or test.
	HasMode bool
	// View reads the body of an event, of which keep is needed; nil: it is JSON.
	View func(contentType string, data []byte, keep *jsondoc.Paths) (any, error)
}

// Set is the compiled rules of one source. It is safe for concurrent use.
type Set struct {
	source config.Source
	preset Preset
	money  *money
	rules  []rule

	keep        *jsondoc.Paths
	fingerprint reads
	version     int64
}

type rule struct {
	when *expression
	// expect is nil where nothing is expected of the events that when lets in.
	expect    *expression
	transfers []transfer
}

type transfer struct {
	debit, credit, amount, asset, operation *expression
	// counted is set where the amount is in the provider's minor units, and not
	// made of major ones.
	counted bool
	// parent is nil where the transfer is about no other; refund: it gives a part
	// of that back.
	parent *expression
	refund bool
	// kind is what the transfer is to a hold, which parent then names but for a hold
	// itself, or a total of refunds of the parent; final is nil where a capture never
	// is the last.
	kind    ledger.Kind
	expires time.Duration
	final   *expression
	fact    bool
}

// Compile checks and compiles every expression of src. It returns all faults at
// once, each at its place in the file; the set is usable only without any.
func Compile(src config.Source, p Preset, assets *ledger.Assets) (*Set, []config.Fault) {
	s := &Set{source: src, preset: p, money: &money{assets: assets, lower: p.LowerCurrency, decimals: p.Decimals}}
	c, err := newCompiler(s.money, "sources."+src.Name.Value)
	if err != nil {
		return nil, []config.Fault{{Pos: src.Pos, Path: "sources." + src.Name.Value, Message: err.Error()}}
	}
	for i, r := range src.Rules {
		s.rules = append(s.rules, c.rule(r, i))
	}
	s.fingerprint = c.fingerprint(src.Fingerprint, p.FingerprintPaths)
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	s.keep = jsondoc.NewPaths(append(c.all.body, s.fingerprint.body...)...)
	s.version = s.hash()
	return s, nil
}

// Version is a hash of everything that decides: while it stays the same, equal
// events have equal decisions and equal fingerprints.
func (s *Set) Version() int64 { return s.version }

// Decide applies the rules to ev. It never fails and never panics: what cannot
// be decided is parked, with its reason.
func (s *Set) Decide(ev *envelope.Event) (d Decision) {
	defer func() {
		if r := recover(); r != nil {
			d = Decision{Parked: dlq.RuleError, Err: errPanic(r), Fingerprint: unreadable(dlq.RuleError, ev)}
		}
	}()
	if ev.Fault != "" {
		reason := dlq.Reason(ev.Fault)
		return Decision{Parked: reason, Err: s.errFault(reason, ev), Fingerprint: unreadable(reason, ev)}
	}
	// What was looked up says its mode of its own accord.
	if (s.preset.HasMode || ev.Hint != "" && ev.Mode != "") && ev.Mode != s.mode() {
		return s.otherMode(ev)
	}
	doc, err := s.read(ev)
	if err != nil {
		reason := body.Reason(err)
		return Decision{Parked: reason, Err: err, Fingerprint: unreadable(reason, ev)}
	}
	return s.apply(&facts{event: ev, body: doc})
}

// read returns what the rules need of the body, in the provider's format; what
// was looked up is JSON, whatever the notice was.
func (s *Set) read(ev *envelope.Event) (any, error) {
	if s.preset.View == nil || ev.Hint != "" {
		return jsondoc.Scan(ev.Data, s.keep)
	}
	return s.preset.View(ev.ContentType, ev.Data, s.keep)
}

// otherMode ignores test traffic on a live endpoint and the reverse. All bodies
// of one mode have one fingerprint: a provider's test button sends one id with
// any body, and that is no conflict.
func (s *Set) otherMode(ev *envelope.Event) Decision {
	d := Decision{Fingerprint: modeFingerprint(ev.Mode)}
	if ev.Mode == "" {
		d.Parked, d.Err = dlq.ModeMismatch, errNoMode
		return d
	}
	d.Ignored = dlq.ModeMismatch
	return d
}

func (s *Set) mode() string { return cmp.Or(s.source.Mode, "live") }
