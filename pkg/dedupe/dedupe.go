// Package dedupe decides whether an event is new. A claim in Redis makes it
// fast and may lie; the event's row in Postgres makes it true, and owns every
// state an event can be in.
//
// Guarantee: of any number of transactions that reserve the same key, exactly
// one commits a row, whatever Redis, the broker or a clock says.
//
//	var b pgx.Batch
//	reserved := dedupe.Reserve(&b, rows)      // in the money's transaction
//	err := tx.SendBatch(ctx, &b).Close()
//	known, err := dedupe.Read(ctx, tx, keysNotReserved)
//	if row := known[key]; row.Terminal() && row.Content.Compare(content) == dedupe.Same { ack() }
package dedupe

import (
	"cmp"
	"time"
)

// Key identifies an event; Variant is empty, or names a parked conflict under
// the same id (see Conflict).
type Key struct {
	Source, ID, Variant string
}

// Compare orders keys as Postgres does under COLLATE "C": the lock order.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Source, o.Source), cmp.Compare(k.ID, o.ID), cmp.Compare(k.Variant, o.Variant))
}

// State is where an event stands.
type State string

// The states. Completed never changes again.
const (
	// Pending waits for its next try: redriven, or refused for now.
	Pending State = "pending"
	// Processing has begun an attempt of its own.
	Processing State = "processing"
	// Completed is done, in the transaction that moved its money.
	Completed State = "completed"
	// Failed is parked in the dead-letter stream, or about to be.
	Failed State = "failed"
	// Discarded was given up by an operator, with a note.
	Discarded State = "discarded"
)

// Outcome is how an event was completed.
type Outcome string

// The outcomes of a completed event.
const (
	// Applied posted at least one transfer, or noted a hold, a void or a running total.
	Applied Outcome = "applied"
	// Ignored posted nothing because the rules ask for nothing.
	Ignored Outcome = "ignored"
	// DuplicateOperation posted nothing because all its money was there already.
	DuplicateOperation Outcome = "duplicate_operation"
)

// Content is what makes two deliveries under one key the same event.
type Content struct {
	// BodyHash is the SHA-256 of the body.
	BodyHash [32]byte
	// Fingerprint is the business meaning, by the rules of version Rules.
	Fingerprint [32]byte
	Rules       int64
}

// Position is where a message lies: sequences start again when a stream is
// created again, so they are read together with its creation time.
type Position struct {
	StreamCreated time.Time
	Seq           uint64
}

// Row is the record of one event.
type Row struct {
	// No is the event's number in this database, unique and rising, with gaps.
	No int64
	Key
	State   State
	Outcome Outcome
	// Reason says why an event failed, waits or was ignored; Error says it in words. Of
	// DuplicateOperation Error is the operation that was there, "" if nobody noted it.
	Reason, Error string
	Type          string
	Occurred      time.Time
	Content
	Position
	// Attempts counts tries that failed by the event's own fault.
	Attempts int
	// Attempt numbers the attempts of its own that were begun: the fence that a
	// worker which woke up late does not pass.
	Attempt int
	// Crashes counts the attempts in which the worker died.
	Crashes int
	// Redrives counts how often an operator sent the event again.
	Redrives int
	// FailingFor is how long ago the first failed attempt was, by the database's clock.
	FailingFor time.Duration
	// BegunFor is how long ago the row became what it is, by the same clock.
	BegunFor time.Duration
	// RetryIn is how long a pending event has yet to wait, by the same clock.
	RetryIn time.Duration
	// DLQSeq is the dead letter's sequence; 0 until the broker has it.
	DLQSeq           uint64
	Created, Decided time.Time
}

// Terminal reports whether nothing is left to do for an equal delivery: it is
// completed, discarded, or parked with its dead letter stored.
func (r *Row) Terminal() bool {
	return r.Standing() || r.State == Discarded || r.State == Failed && r.DLQSeq != 0
}

// Standing reports whether the row's content stands: another content under the
// same key is then a conflict. A parked content does not stand; a good body
// that comes later is judged on its merits.
func (r *Row) Standing() bool {
	return r.State == Completed
}

// Sameness is how two contents under one key compare.
type Sameness int

// The answers of Compare.
const (
	// Different means other business.
	Different Sameness = iota
	// Same means the same bytes, or the same meaning by the same rules.
	Same
	// Unsure means that the rules changed in between: only both bodies, read
	// by today's rules, can tell.
	Unsure
)

// Compare says whether a delivery's content is the row's.
func (c Content) Compare(o Content) Sameness {
	switch {
	case c.BodyHash == o.BodyHash:
		return Same
	case c.Rules != o.Rules:
		return Unsure
	case c.Fingerprint == o.Fingerprint:
		return Same
	}
	return Different
}
