package audit

import (
	"encoding/json"
	"time"
)

// maxFindings bounds the findings that are listed; all are counted.
const maxFindings = 1000

// Report is what an audit found. Its JSON names are part of the public interface.
type Report struct {
	// Clean reports whether everything is accounted for.
	Clean bool `json:"clean"`
	// Problems counts the findings, listed or not.
	Problems int `json:"problems"`
	// Started and Seconds say when the audit ran, and for how long.
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`

	Stream  Stream  `json:"stream"`
	Sum     Sum     `json:"sum"`
	Books   Books   `json:"books"`
	Letters Letters `json:"dead_letters"`

	// Findings are the first 1,000 problems.
	Findings []Finding `json:"findings"`
}

// Stream says which messages were accounted for.
type Stream struct {
	// Created tells one incarnation of EVENTS from another.
	Created time.Time `json:"created"`
	// First and Last are the sequences that bound what was read.
	First uint64 `json:"first_seq"`
	Last  uint64 `json:"last_seq"`
	// AckFloor is the sequence up to which the workers had answered everything.
	AckFloor uint64 `json:"ack_floor"`
}

// Sum accounts for every message of EVENTS: each is in exactly one of its terms.
type Sum struct {
	// Messages is what all terms below add up to.
	Messages int `json:"messages"`
	// Applied, Ignored and DuplicateOperation are events that were completed.
	Applied            int `json:"applied"`
	Ignored            int `json:"ignored"`
	DuplicateOperation int `json:"duplicate_operation"`
	// Duplicates are further deliveries of an event that is done.
	Duplicates int `json:"duplicates"`
	// Parked deliveries have a dead letter, Discarded ones had.
	Parked    int `json:"parked"`
	Discarded int `json:"discarded"`
	// Redriven are the other copies of events that an operator sent again.
	Redriven int `json:"redriven"`
	// InFlight deliveries are still to be decided.
	InFlight int `json:"in_flight"`
	// Unaccounted deliveries were accepted and are nowhere: it must be 0.
	Unaccounted int `json:"unaccounted"`
}

// Books says what the ledger was checked against itself for.
type Books struct {
	Events     int `json:"events"`
	Transfers  int `json:"transfers"`
	Reversals  int `json:"reversals"` // of the transfers
	Operations int `json:"operations"`
	Accounts   int `json:"accounts"`
	// Holds are counted by a full audit. Uncovered is how many captures were posted
	// as facts that no hold covered, or not all of them; Facts are the first 1,000.
	Holds     int                `json:"holds"`
	Uncovered int                `json:"uncovered"`
	Facts     []UncoveredCapture `json:"uncovered_captures,omitempty"`
	// Assets are the ledger's totals.
	Assets []AssetTotal `json:"assets"`
}

// UncoveredCapture is a capture that was posted as a fact; amounts are minor units.
type UncoveredCapture struct {
	Source    string `json:"source"`
	EventID   string `json:"event_id"`
	Variant   string `json:"variant,omitempty"`
	EventNo   int64  `json:"event_no"`
	Operation string `json:"operation"`
	Asset     string `json:"asset"`
	Exponent  int    `json:"exponent"`
	Amount    int64  `json:"amount_minor"`
	// Uncovered is the part of Amount that no hold covered.
	Uncovered int64 `json:"uncovered_minor"`
}

// AssetTotal is the sum over all accounts of one asset, in minor units.
type AssetTotal struct {
	Asset    string      `json:"asset"`
	Exponent int         `json:"exponent"`
	Accounts int         `json:"accounts"`
	Debits   json.Number `json:"debits_minor"`
	Credits  json.Number `json:"credits_minor"`
}

// Letters says how the dead-letter stream and the failed events agree.
type Letters struct {
	// Stored is the number of letters in the stream.
	Stored int `json:"stored"`
	// Stale letters belong to an event that is no longer failed, or that has a
	// newer letter. They are hidden, and no problem.
	Stale int `json:"stale"`
	// Failed is the number of parked events; Unrecorded of them have no letter
	// recorded yet.
	Failed     int `json:"failed"`
	Unrecorded int `json:"unrecorded"`
}

// Kind says what is wrong.
type Kind string

// The kinds of findings.
const (
	// Lost: a message was answered and has no row.
	Lost Kind = "lost"
	// Undecided: a message was answered and its event is not decided.
	Undecided Kind = "undecided"
	// OtherContent: a message says something else than the event that stands
	// under its id, and was not parked as a conflict.
	OtherContent Kind = "other_content"
	// Gone: messages left the stream before they were accounted for: the database
	// was restored from a backup that is older than what the stream still keeps,
	// or the stream was lost or restored. It stays until it is acknowledged.
	Gone Kind = "gone"
	// WrongOrigin: an event's row names a message that is not its own.
	WrongOrigin Kind = "wrong_origin"

	// BalanceDiffers: a balance is not the sum of the account's transfers.
	BalanceDiffers Kind = "balance_differs"
	// TotalDiffers: debits and credits of an asset are not equal.
	TotalDiffers Kind = "total_differs"
	// NoOperation: a transfer has no operation, or one with another content.
	NoOperation Kind = "transfer_without_operation"
	// NoTransfer: an operation has no transfer, or several.
	NoTransfer Kind = "operation_without_transfer"
	// NoEvent: a transfer belongs to no applied event.
	NoEvent Kind = "transfer_without_event"
	// WrongReversal: a transfer that takes another back differs from it.
	WrongReversal Kind = "wrong_reversal"
	// OverRefunded: more of an operation is given back than its amount, or in
	// another asset.
	OverRefunded Kind = "over_refunded"
	// RefundsDiffer: the refunds of an operation have not moved what they are to move
	// together, or its running total is not what was told.
	RefundsDiffer Kind = "refunds_differ"
	// HoldDiffers: a hold is not what the operations about it say, or not there.
	HoldDiffers Kind = "hold_differs"
	// PendingDiffers: what an account says is held is not the sum of its holds.
	PendingDiffers Kind = "pending_differs"
	// NothingPosted: an applied event has no transfer.
	NothingPosted Kind = "applied_without_transfer"

	// LetterGone: a parked event's dead letter is not in the stream.
	LetterGone Kind = "letter_gone"
	// LetterMissing: a failed event has had no dead letter for too long.
	LetterMissing Kind = "letter_missing"
	// LetterUnknown: a dead letter belongs to no event.
	LetterUnknown Kind = "letter_unknown"
)

// Finding is one thing that is wrong, with what names it.
type Finding struct {
	Kind Kind `json:"kind"`
	// Seq is the message in EVENTS, or for letter_unknown in DLQ.
	Seq       uint64 `json:"seq,omitempty"`
	Source    string `json:"source,omitempty"`
	EventID   string `json:"event_id,omitempty"`
	Variant   string `json:"variant,omitempty"`
	EventNo   *int64 `json:"event_no,omitempty"`
	Account   string `json:"account,omitempty"`
	Asset     string `json:"asset,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Detail says in words how it is wrong.
	Detail string `json:"detail"`
}

// add counts a finding and lists it while there is room.
func (r *Report) add(f Finding) {
	r.Problems++
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, f)
	}
}

// append adds what the ledger's part of an audit has found.
func (r *Report) append(books *Report) {
	events := r.Books.Events
	r.Books = books.Books
	r.Books.Events = events
	problems := r.Problems + books.Problems
	for _, f := range books.Findings {
		r.add(f)
	}
	r.Problems = problems // also those that had no room
}
