package repair

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// Correct makes an applied event stand as today's rules have it, by the content
// that stands under its id (see CorrectLetter): transfers that
// they do not ask for are reversed, those that are missing are posted. Where
// nothing differs, nothing is done or recorded. Events that waited for what is posted
// are sent again.
//
// Errors, beside those of ledger.Correct: dedupe.ErrNoEvent, dedupe.ErrState,
// ErrGone, ErrParked, ErrReplaced.
func (r Repairer) Correct(ctx context.Context, key dedupe.Key, a dedupe.Action, o Options) (*Done, error) {
	key.Variant = ""
	row, err := r.applied(ctx, key)
	if err != nil {
		return nil, err
	}
	msg, err := r.message(ctx, row)
	if err != nil {
		return nil, err
	}
	done := &Done{}
	if done.Decision, err = r.decide(msg.event); err != nil {
		return nil, err
	}
	err = r.transact(ctx, o, func(tx pgx.Tx) error {
		first, corrected, err := dedupe.LockEvent(ctx, tx, key)
		if err != nil {
			return err
		}
		if done.Row = dedupe.Stands(first, corrected); done.Row == nil || done.Row.No != row.No {
			return fmt.Errorf("correct event: %w: another content of %s stands by now", dedupe.ErrState, key.ID)
		}
		c := &ledger.Correction{EventNo: row.No, Transfers: done.Decision.Transfers, Replaces: numbers(first, corrected), Overdraw: o.Overdraw}
		return r.correct(ctx, tx, c, a, done)
	})
	if err != nil {
		return nil, err
	}
	r.wake(ctx, done, a, o)
	return done, nil
}

// numbers are those of all rows under one id that may have posted.
func numbers(first *dedupe.Row, corrected []*dedupe.Row) []int64 {
	list := []int64{first.No}
	for _, row := range corrected {
		list = append(list, row.No)
	}
	return list
}

// applied returns the row whose content stands under key, and which may be
// corrected.
func (r Repairer) applied(ctx context.Context, key dedupe.Key) (*dedupe.Row, error) {
	known, err := dedupe.Read(ctx, r.Pool, []dedupe.Key{key})
	if err != nil {
		return nil, err
	}
	corrected, err := dedupe.Corrected(ctx, r.Pool, []dedupe.Key{key})
	if err != nil {
		return nil, err
	}
	row := dedupe.Stands(known[key], corrected[key])
	if row == nil {
		return nil, fmt.Errorf("correct event: %w: %s of %s", dedupe.ErrNoEvent, key.ID, key.Source)
	}
	replaced, err := dedupe.Replaced(ctx, r.Pool, []int64{row.No})
	if err != nil {
		return nil, err
	}
	switch _, gone := replaced[row.No]; {
	case gone:
		return nil, fmt.Errorf("correct event: %s of %s: %w", key.ID, key.Source, ErrReplaced)
	case row.Outcome != dedupe.Applied:
		return nil, fmt.Errorf("correct event: %w: %s of %s is %s, and only what was applied can be corrected",
			dedupe.ErrState, key.ID, key.Source, cmp.Or(string(row.Outcome), string(row.State)))
	}
	return row, nil
}

// correct corrects the ledger and records it with every event that it changes.
func (r Repairer) correct(ctx context.Context, tx pgx.Tx, c *ledger.Correction, a dedupe.Action, done *Done) error {
	if err := ledger.Correct(ctx, tx, r.Catalog.Limit, c); err != nil {
		return r.named(ctx, tx, done.Row, err)
	}
	done.Reversed, done.Posted, done.Overdrawn = c.Reversed, c.Posted, c.Overdrawn
	if !done.Changed() {
		return nil
	}
	a.Verb = dedupe.VerbCorrect
	detail := detailOf(done)
	changed := map[int64]bool{c.EventNo: true}
	for _, e := range c.Reversed {
		changed[e.EventNo] = true
	}
	for no := range changed {
		a.Detail = detail
		if err := dedupe.Record(ctx, tx, a, &no); err != nil {
			return err
		}
	}
	return nil
}

// named makes the ledger's refusal to correct an event one for people.
func (r Repairer) named(ctx context.Context, tx pgx.Tx, row *dedupe.Row, refused error) error {
	var refusal *ledger.Refusal
	if !errors.As(refused, &refusal) {
		return refused
	}
	if err := r.Catalog.Name(ctx, tx, &refused); err != nil {
		return err
	}
	return fmt.Errorf("correct event %s of %s: %w", row.ID, row.Source, refused)
}

// corrected is the stored detail of a correction.
type corrected struct {
	By       int64   `json:"by_event_no"`
	Reversed []moved `json:"reversed"`
	Posted   []moved `json:"posted"`
}

type moved struct {
	EventNo   int64  `json:"event_no"`
	Operation string `json:"operation"`
	Debit     string `json:"debit"`
	Credit    string `json:"credit"`
	Asset     string `json:"asset"`
	Amount    int64  `json:"amount_minor"`
}

func detailOf(done *Done) corrected {
	d := corrected{By: done.Row.No, Reversed: []moved{}, Posted: []moved{}}
	of := func(no int64, t ledger.Transfer) moved {
		return moved{no, t.Operation, t.Debit, t.Credit, t.Asset, t.Amount}
	}
	for _, e := range done.Reversed {
		d.Reversed = append(d.Reversed, of(e.EventNo, e.Transfer))
	}
	for _, t := range done.Posted {
		d.Posted = append(d.Posted, of(done.Row.No, t))
	}
	return d
}

// CorrectLetter lets a conflict stand: what the events posted that it conflicts
// with is reversed, and what today's rules make of the letter's event is posted
// instead. Then the letter is deleted. After a crash in between it is stale, and
// goes when it is met.
//
// Errors, beside those of ledger.Correct: ErrConflict, ErrNothing, ErrParked,
// dlq.ErrNoEnvelope, dedupe.ErrState.
func (r Repairer) CorrectLetter(ctx context.Context, l *dlq.Letter, a dedupe.Action, o Options) (*Done, error) {
	if l.Reason != dlq.IDConflict && l.Reason != dlq.OperationConflict {
		return nil, fmt.Errorf("correct by letter %d: %w, but as %s; redrive it", l.Seq, ErrConflict, l.Reason)
	}
	event, err := envelope.Decode(l.Header, l.Data)
	if err != nil {
		return nil, fmt.Errorf("correct by letter %d: %w: %w", l.Seq, dlq.ErrNoEnvelope, err)
	}
	done := &Done{}
	if done.Decision, err = r.decide(event); err != nil {
		return nil, err
	}
	err = r.transact(ctx, o, func(tx pgx.Tx) error {
		c := &ledger.Correction{Transfers: done.Decision.Transfers, Over: true, Overdraw: o.Overdraw}
		if done.Row, err = r.conflict(ctx, tx, l, c); err != nil {
			return err
		}
		if err := r.correct(ctx, tx, c, a, done); err != nil {
			return err
		}
		if len(done.Posted) == 0 {
			return fmt.Errorf("correct by letter %d: %w", l.Seq, ErrNothing)
		}
		return dedupe.LetStand(ctx, tx, done.Row)
	})
	if err != nil {
		return nil, err
	}
	if o.DryRun {
		return done, nil
	}
	r.wake(ctx, done, a, o)
	return done, dlq.Remove(ctx, r.JS, l.Seq)
}

// conflict locks the rows of a conflict, and says what it takes the place of:
// everything that was posted under its id.
func (r Repairer) conflict(ctx context.Context, tx pgx.Tx, l *dlq.Letter, c *ledger.Correction) (*dedupe.Row, error) {
	key := letters.KeyOf(l)
	first, corrected, err := dedupe.LockEvent(ctx, tx, dedupe.Key{Source: key.Source, ID: key.ID})
	if err != nil {
		return nil, err
	}
	row := first
	if key.Variant != "" {
		if row, err = dedupe.Lock(ctx, tx, key); err != nil {
			return nil, err
		}
	}
	if was := letters.Stand(l, row); was != letters.Parked {
		return nil, fmt.Errorf("correct by letter %d: %w: the letter is %s", l.Seq, ErrConflict, was)
	}
	if key.Variant != "" && (first == nil || first.State != dedupe.Completed) {
		return nil, fmt.Errorf("correct by letter %d: %w: no event stands under its id any more; redrive it", l.Seq, ErrConflict)
	}
	c.EventNo, c.Replaces = row.No, numbers(first, corrected)
	return row, nil
}
