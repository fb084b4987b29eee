package rules

import (
	"cmp"

	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// What became of a rule's condition, as the fingerprint has it.
const (
	matched    = 'y'
	unmatched  = 'n'
	failed     = 'e'
	unexpected = 'x' // it matched, and the event is not what the rule expects
)

// apply evaluates every rule; the first refusal, in the order of the rules,
// parks the whole event. Transfers are never applied in part.
func (s *Set) apply(f *facts) Decision {
	outcomes := make([]byte, len(s.rules))
	var first *refusal
	applies := false
	for i := range s.rules {
		holds, refused := s.rules[i].when.holds(f)
		outcome := byte(failed)
		if holds && refused == nil {
			outcome, refused = unexpected, s.rules[i].check(f)
		}
		switch {
		case refused != nil:
			outcomes[i] = outcome
			if first == nil {
				first = refused
			}
		case holds:
			outcomes[i], applies = matched, true
		default:
			outcomes[i] = unmatched
		}
	}
	d := Decision{Fingerprint: s.sum(f, outcomes)}
	if first == nil && !applies && s.source.Unmatched == "park" {
		first = refuse(dlq.Unmatched, "no rule matches an event of type %q", clip(f.event.Type))
	}
	if first == nil {
		d.Transfers, first = s.transfers(f, outcomes)
	}
	if first == nil && len(d.Transfers) == 0 {
		d.Ignored = s.ignored(outcomes)
	}
	if first != nil {
		d.Parked, d.Err = first.reason, first
	}
	return d
}

// ignored says why an event is without transfers.
func (s *Set) ignored(outcomes []byte) dlq.Reason {
	why := dlq.Unmatched
	for i := range s.rules {
		switch {
		case outcomes[i] != matched:
		case len(s.rules[i].transfers) > 0:
			return dlq.AmountZero
		default:
			why = dlq.NoTransfers
		}
	}
	return why
}

// check holds what a rule expects against an event that it matches.
func (r *rule) check(f *facts) *refusal {
	if r.expect == nil {
		return nil
	}
	holds, refused := r.expect.holds(f)
	if refused == nil && !holds {
		refused = r.expect.refuse(refuse(dlq.AmountMismatch, "is false: the event is not what was expected%s", r.expect.values(f)))
	}
	return refused
}

// transfers evaluates the transfers of the rules that matched.
func (s *Set) transfers(f *facts, outcomes []byte) ([]ledger.Transfer, *refusal) {
	var posted []ledger.Transfer
	for i := range s.rules {
		if outcomes[i] != matched {
			continue
		}
		for j := range s.rules[i].transfers {
			t := &s.rules[i].transfers[j]
			next, refused := s.post(t, f)
			if refused != nil {
				return nil, refused
			}
			if next == nil {
				continue
			}
			if posted, refused = fold(posted, *next); refused != nil {
				return nil, t.operation.refuse(refused)
			}
		}
	}
	return posted, nil
}

// fold adds next unless its operation is there with equal content, which then
// has a parent if either of them has.
func fold(posted []ledger.Transfer, next ledger.Transfer) ([]ledger.Transfer, *refusal) {
	for i, t := range posted {
		switch {
		case t.Operation != next.Operation:
		case t.Same(next) && t.Kind != "":
			return posted, nil
		case t.Same(next) && next.Kind != "": // a capture says more than the money it moves
			posted[i] = next
			return posted, nil
		case t.Same(next):
			if next.Refund && !t.Refund {
				t.Parent = "" // what is given back says more than what it is about
			}
			posted[i].Parent, posted[i].Refund = cmp.Or(t.Parent, next.Parent), t.Refund || next.Refund
			return posted, nil
		default:
			return nil, refuse(dlq.OperationConflict, "two transfers of one event have the operation %s but not the same content", ledger.FormatKey(next.Operation))
		}
	}
	return append(posted, next), nil
}
