package dlq

// Reason says why an event could not be applied, or why it was ignored. It is
// stored in the event's row, in the dead letter's Onceledger-Reason header and
// in its subject, so the words are part of the public interface.
type Reason string

// The reasons, in the order a person meets them: reading the body, finding the
// event's identity, reading the money, applying it.
const (
	BadEnvelope    Reason = "bad_envelope"
	SourceUnknown  Reason = "source_unknown"
	BadJSON        Reason = "bad_json"
	AmbiguousJSON  Reason = "ambiguous_json"
	UnstorableText Reason = "unstorable_text"
	DecryptFailed  Reason = "decrypt_failed"
	NeedsFetch     Reason = "needs_fetch"
	Fetched        Reason = "fetched"

	NoEventID    Reason = "no_event_id"
	IDInvalid    Reason = "id_invalid"
	IDConflict   Reason = "id_conflict"
	ModeMismatch Reason = "mode_mismatch"

	Unmatched        Reason = "unmatched"
	NoTransfers      Reason = "no_transfers"
	AmountZero       Reason = "amount_zero"
	RuleError        Reason = "rule_error"
	NoOperation      Reason = "no_operation"
	AmountMissing    Reason = "amount_missing"
	AmountFormat     Reason = "amount_format"
	AmountPrecision  Reason = "amount_precision"
	AmountOverflow   Reason = "amount_overflow"
	AmountMismatch   Reason = "amount_mismatch"
	CurrencyUnknown  Reason = "currency_unknown"
	CurrencyMismatch Reason = "currency_mismatch"

	OperationConflict Reason = "operation_conflict"
	AccountUnknown    Reason = "account_unknown"
	AccountFrozen     Reason = "account_frozen"
	AccountClosed     Reason = "account_closed"
	InsufficientFunds Reason = "insufficient_funds"
	MissingParent     Reason = "missing_parent"
	OverRefund        Reason = "over_refund"
	RefundInvalid     Reason = "refund_invalid"
	HoldClosed        Reason = "hold_closed"
	OverCapture       Reason = "over_capture"

	RetryBudget Reason = "retry_budget"
	CrashBudget Reason = "crash_budget"
)

// Info is what is known of a Reason without looking at the event.
type Info struct {
	// Transient reasons are tried again within the retry budget before the
	// event is parked; all others park at once.
	Transient bool
	// Compensable reasons may be sent again by the compensator; the others
	// need a person, since sending the same bytes again cannot help.
	Compensable bool
	// Hint tells the person who reads the dead letter what to do.
	Hint string
	// Ignored says why an event is ignored for it; empty for what only parks.
	Ignored string
}

var infos = map[Reason]Info{
	BadEnvelope:    {Hint: "somebody published this message into EVENTS without an envelope; find out who, then discard"},
	SourceUnknown:  {Transient: true, Compensable: true, Hint: "no such source in this worker's configuration; add it, then redrive"},
	BadJSON:        {Hint: "the body is not readable JSON; ask the sender what it sent, then discard"},
	AmbiguousJSON:  {Hint: "a member name is repeated, so two readers may see two amounts; compare with the provider's dashboard"},
	UnstorableText: {Hint: "a value the rules read holds a NUL or half a surrogate pair; let the rules read another field"},
	DecryptFailed:  {Compensable: true, Hint: "check the decryption key of this source, then redrive"},
	NeedsFetch:     {Compensable: true, Hint: "the body may not be trusted for amounts; set fetch: of this source, or see what its API answers, then redrive"},
	Fetched: {Hint: "not parked: what this notice hinted at was looked up; see the events that name it in ce-hint",
		Ignored: "what this notice hinted at was looked up; see the events that name it in ce-hint"},

	NoEventID:  {Hint: "no usable event id was found; set id: of this source, and ask the sender to send again"},
	IDInvalid:  {Hint: "the event id is longer than 512 bytes or cannot be stored; let id: of this source name another field"},
	IDConflict: {Hint: "another content stands under this event id; compare both with the provider's dashboard"},
	ModeMismatch: {Hint: "the event does not say whether it is live or test; check the mode of this endpoint",
		Ignored: "it is test traffic at a live source, or live at one of test; mode: of the source says which"},

	Unmatched: {Compensable: true, Hint: "no rule matches this event and its source says unmatched: park; add a rule, then redrive",
		Ignored: "no rule of its source matches it"},
	NoTransfers:      {Hint: "not parked: the rules that match this event ask for no transfers; let one post it if they should", Ignored: "the rules that match it ask for no transfers"},
	AmountZero:       {Hint: "not parked: every amount that the rules read of this event is 0; see its body", Ignored: "every amount that the rules read of it is 0"},
	RuleError:        {Compensable: true, Hint: "an expression of the source's rules failed; correct the rule, then redrive"},
	NoOperation:      {Compensable: true, Hint: "a part of op(...) is empty; let the rule name the payment, capture or refund id, then redrive"},
	AmountMissing:    {Compensable: true, Hint: "the amount is not where the rule looks; correct the rule, then redrive"},
	AmountFormat:     {Compensable: true, Hint: "the amount is not written as the rule expects it; use minor() or major() as the provider documents it, then redrive"},
	AmountPrecision:  {Hint: "the amount has more decimals than its asset; compare with the provider's dashboard"},
	AmountOverflow:   {Hint: "the amount or a balance does not fit 64 bits; compare with the provider's dashboard"},
	AmountMismatch:   {Hint: "a rule's expect is false: compare amount and currency with what was ordered; to post what came all the same, change the rule, then redrive"},
	CurrencyUnknown:  {Compensable: true, Hint: "the asset is neither an ISO 4217 code nor declared under assets:; declare it, then redrive"},
	CurrencyMismatch: {Hint: "the currency is not the expected one; compare with the provider's dashboard, or let the account's declaration name it, then redrive"},

	OperationConflict: {Hint: "this operation stands with another amount, asset or account; compare both events"},
	AccountUnknown:    {Compensable: true, Hint: "the account is not open; open it, then redrive"},
	AccountFrozen:     {Compensable: true, Hint: "the account is frozen; find out why, unfreeze it, then redrive"},
	AccountClosed:     {Hint: "the account is closed for good; let the rule name another one, then redrive"},
	InsufficientFunds: {Transient: true, Compensable: true, Hint: "the account's limit refused the debit; fund it, then redrive"},
	MissingParent:     {Transient: true, Compensable: true, Hint: "the transfer this one refers to has not arrived; find it, then redrive; one of amount 0 never does: discard"},
	OverRefund:        {Transient: true, Compensable: true, Hint: "the refunds would exceed the original amount; compare them with the provider's dashboard: one whose failure was never told still counts"},
	RefundInvalid:     {Hint: "never a refund of what it names: see the error, compare both with the provider's dashboard, or let the rule name another, then redrive"},
	HoldClosed:        {Hint: "the hold was captured, voided or has expired: if a capture has happened, say fact: true, then redrive; a void finds nothing left to release"},
	OverCapture:       {Hint: "the capture exceeds what is left of its hold; compare both with the provider's dashboard: if it has happened, say fact: true, then redrive"},

	RetryBudget: {Compensable: true, Hint: "every try failed; see the error, mend its cause, then redrive"},
	CrashBudget: {Hint: "the worker died while it tried this event; see its logs before you redrive"},
}

// Info returns what is known of r, and whether r is a declared reason.
func (r Reason) Info() (Info, bool) {
	info, ok := infos[r]
	return info, ok
}
