package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// class is the term of the sum that a message belongs to; a problem says why it
// belongs to none.
type class struct {
	term    term
	problem Kind
	detail  string
	// owner is set if the event's row names this very message; no is its number.
	owner bool
	no    int64
	// row is that of an undecided event whose message was answered.
	row *dedupe.Row
}

// unlettered reports whether the event is parked, and its letter not stored.
func (c class) unlettered() bool {
	return c.row != nil && c.row.State == dedupe.Failed
}

// term names a counter of the sum.
type term int

const (
	unaccounted term = iota
	applied
	ignored
	duplicateOperation
	duplicate
	parked
	discarded
	redriven
	inFlight
)

// counter returns where a term is counted.
func (s *Sum) counter(t term) *int {
	return [...]*int{
		&s.Unaccounted, &s.Applied, &s.Ignored, &s.DuplicateOperation, &s.Duplicates,
		&s.Parked, &s.Discarded, &s.Redriven, &s.InFlight,
	}[t]
}

// count adds a message to its term, and reports it if it has none.
func (a *auditor) count(m *message, c class) {
	if a.survey != nil {
		a.survey.tell(m, c)
		return
	}
	*a.report.Sum.counter(c.term)++
	if a.step != nil {
		a.step.count(m, c)
	}
	if c.owner {
		a.owned.found.set(m.seq)
	}
	if c.problem != "" {
		a.report.add(Finding{Kind: c.problem, Seq: m.seq, Source: m.key.Source, EventID: m.key.ID, Detail: c.detail})
	}
}

// classify finds the term of m among the rows of its key.
func (a *auditor) classify(ctx context.Context, m *message, found map[dedupe.Key]*dedupe.Row) (class, error) {
	row := found[m.key]
	conflict := found[dedupe.Conflict(m.key, m.hash)]
	switch {
	case row != nil && (a.owns(row, m) || row.BodyHash == m.hash):
		return a.explain(row, m), nil
	case conflict != nil && conflict.BodyHash == m.hash:
		return a.explain(conflict, m), nil
	case row == nil:
		return a.waiting(m, class{problem: Lost, detail: "no event has this id, although the message was answered"}), nil
	}
	return a.otherBytes(ctx, m, row)
}

// owns reports whether the row names m as the message that decided it.
func (a *auditor) owns(row *dedupe.Row, m *message) bool {
	return row.Seq == m.seq && row.StreamCreated.Equal(a.created)
}

// explain classifies a message by the row that has its bytes.
func (a *auditor) explain(row *dedupe.Row, m *message) class {
	owner := a.owns(row, m)
	if owner && row.BodyHash != m.hash && row.Terminal() { // one that waits may wait for another form of what it was
		return class{problem: OtherContent, owner: true, detail: "the event was decided by this message, with another body"}
	}
	switch {
	case !row.Terminal():
		c := a.waiting(m, undecided(row))
		if row.Redrives > 0 && row.State != dedupe.Failed {
			c = class{term: inFlight, row: c.row} // its redriven copy decides it
		}
		c.owner = owner
		return c
	case owner:
		return class{term: ended(row), owner: true, no: row.No}
	case m.redriven(row):
		return class{term: redriven}
	}
	return class{term: duplicate}
}

// undecided says that nobody will come for row any more.
func undecided(row *dedupe.Row) class {
	return class{
		problem: Undecided, row: row,
		detail: fmt.Sprintf("the event is still %s, although the message was answered", row.State),
	}
}

// ended is the term of the message that decided a terminal row.
func ended(row *dedupe.Row) term {
	switch {
	case row.State == dedupe.Failed:
		return parked
	case row.State == dedupe.Discarded:
		return discarded
	case row.Outcome == dedupe.Ignored:
		return ignored
	case row.Outcome == dedupe.DuplicateOperation:
		return duplicateOperation
	}
	return applied
}

// redriven reports whether m is a copy of an event that was sent again: such a
// copy itself, or what came before the one that the row names.
func (m *message) redriven(row *dedupe.Row) bool {
	return m.redrive || row.Redrives > 0 && m.seq < row.Seq
}

// waiting says that m is in flight, or otherwise what is wrong: below the ack
// floor and older than grace, nobody will come for it again, unless the sweep
// has sent a copy that is still to be answered, or somebody was at its event
// within grace, or the message that its row names is still to be answered: another
// one of it, a redriven one, say, is being decided.
func (a *auditor) waiting(m *message, otherwise class) class {
	floor := a.report.Stream.AckFloor
	if m.seq > floor || m.copy > floor || a.now.Sub(m.stored) < a.Grace {
		return class{term: inFlight}
	}
	if row := otherwise.row; row != nil && (row.BegunFor < a.Grace || row.Seq > floor && row.StreamCreated.Equal(a.created)) {
		return class{term: inFlight, row: row}
	}
	return otherwise
}

// otherBytes classifies a message whose bytes no row has: it is a duplicate if
// it means the same as the event under its id. What was parked before another
// content took its place is found among the dead letters.
func (a *auditor) otherBytes(ctx context.Context, m *message, row *dedupe.Row) (class, error) {
	same, err := a.sameMeaning(ctx, m, row)
	switch {
	case err != nil:
		return class{}, err
	case same && row.Terminal():
		return class{term: duplicate}, nil
	case same || !row.Terminal():
		return a.waiting(m, undecided(row)), nil
	}
	corrected, err := dedupe.Corrected(ctx, a.Pool, []dedupe.Key{m.key})
	if err != nil {
		return class{}, err
	}
	for _, stands := range corrected[m.key] { // a conflict that an operator let stand
		if same, err := a.sameMeaning(ctx, m, stands); err != nil || same {
			return class{term: duplicate}, err
		}
	}
	return class{problem: OtherContent, detail: fmt.Sprintf(
		"what stands under this id (message %d) is %s, with another meaning; this message has no outcome of its own", row.Seq, row.State)}, nil
}

// sameMeaning compares as the worker does: where the rules have changed since,
// today's read both bodies.
func (a *auditor) sameMeaning(ctx context.Context, m *message, row *dedupe.Row) (bool, error) {
	if err := a.load(ctx, m); err != nil {
		return false, err
	}
	mine := a.read(m)
	if mine == nil {
		return false, nil
	}
	same := mine.Compare(row.Content)
	if same != dedupe.Unsure {
		return same == dedupe.Same, nil
	}
	if !row.StreamCreated.Equal(a.created) {
		return mine.Fingerprint == row.Fingerprint, nil
	}
	raw, err := a.fetch(ctx, row.Seq)
	if errors.Is(err, envelope.ErrNotStored) {
		return mine.Fingerprint == row.Fingerprint, nil
	}
	if err != nil {
		return false, err
	}
	standing := a.read(a.decode(raw))
	return standing != nil && mine.Compare(*standing) == dedupe.Same, nil
}

// load reads the bytes of a carried message again; they may be gone.
func (a *auditor) load(ctx context.Context, m *message) error {
	if !m.carried {
		return nil
	}
	m.carried = false
	raw, err := a.fetch(ctx, m.seq)
	if errors.Is(err, envelope.ErrNotStored) {
		return nil
	}
	if err != nil {
		return err
	}
	m.event = a.decode(raw).event
	return nil
}

// read returns what m means by today's rules, nil if it holds no event, and lets
// go of its body.
func (a *auditor) read(m *message) *dedupe.Content {
	if m.meaning == nil && m.event != nil {
		m.meaning = &dedupe.Content{BodyHash: m.hash}
		m.meaning.Fingerprint, m.meaning.Rules = a.Meaning(m.event)
		m.event = nil
	}
	return m.meaning
}
