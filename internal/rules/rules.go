package rules

import (
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// Decision is what a source's rules make of one event.
type Decision struct {
	// Transfers are in the order of the rules; none means the event is ignored.
	Transfers []ledger.Transfer
	// Ignored says why an event without transfers is ignored: mode_mismatch,
	// or empty for a type that no rule matches or amounts that are all zero.
	Ignored dlq.Reason
	// Parked is the reason for which the event cannot be applied; empty if it can.
	Parked dlq.Reason
	// Err says in words what Parked is about: the expression, its place, the value.
	Err error
	// Fingerprint is the business meaning of the event, by these rules.
	Fingerprint [32]byte
}
