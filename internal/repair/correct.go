package repair

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// Correct makes an applied event stand as today's rules have it: transfers that
// they do not ask for are reversed, those that are missing are posted. Where
// nothing differs, nothing is done or recorded.
//
// Errors, beside those of ledger.Correct: dedupe.ErrNoEvent, dedupe.ErrState,
// ErrGone, ErrParked.
func (r Repairer) Correct(ctx context.Context, key dedupe.Key, a dedupe.Action, o Options) (*Done, error) {
	row, err := r.applied(ctx, key)
	if err != nil {
		return nil, err
	}
	msg, err := r.message(ctx, row)
	if err != nil {
		return nil, err
	}
	done := &Done{Event: msg.event}
	if done.Decision, err = r.decide(msg.event); err != nil {
		return nil, err
	}
	err = r.transact(ctx, o, func(tx pgx.Tx) error {
		if done.Row, err = dedupe.Lock(ctx, tx, key); err != nil {
			return err
		}
		c := &ledger.Correction{EventNo: row.No, Transfers: done.Decision.Transfers, Replaces: []int64{row.No}, Overdraw: o.Overdraw}
		return r.correct(ctx, tx, c, a, done)
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// applied returns the row of an event that may be corrected. Its state is final.
func (r Repairer) applied(ctx context.Context, key dedupe.Key) (*dedupe.Row, error) {
	known, err := dedupe.Read(ctx, r.Pool, []dedupe.Key{key})
	if err != nil {
		return nil, err
	}
	row := known[key]
	switch {
	case row == nil:
		return nil, fmt.Errorf("correct event: %w: %s of %s", dedupe.ErrNoEvent, key.ID, key.Source)
	case row.Outcome != dedupe.Applied:
		return nil, fmt.Errorf("correct event: %w: %s of %s is %s %s, and only what was applied can be corrected",
			dedupe.ErrState, key.ID, key.Source, row.State, row.Outcome)
	}
	return row, nil
}

// correct corrects the ledger and records it with every event that it changes.
func (r Repairer) correct(ctx context.Context, tx pgx.Tx, c *ledger.Correction, a dedupe.Action, done *Done) error {
	if err := ledger.Correct(ctx, tx, r.Catalog.Limit, c); err != nil {
		return err
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
// Errors, beside those of ledger.Correct: ErrConflict, ErrParked,
// dlq.ErrNoEnvelope, dedupe.ErrState.
func (r Repairer) CorrectLetter(ctx context.Context, l *dlq.Letter, a dedupe.Action, o Options) (*Done, error) {
	if l.Reason != dlq.IDConflict && l.Reason != dlq.OperationConflict {
		return nil, fmt.Errorf("correct by letter %d: %w, but as %s; redrive it", l.Seq, ErrConflict, l.Reason)
	}
	event, err := envelope.Decode(l.Header, l.Data)
	if err != nil {
		return nil, fmt.Errorf("correct by letter %d: %w: %w", l.Seq, dlq.ErrNoEnvelope, err)
	}
	done := &Done{Event: event}
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
		return complete(ctx, tx, done, a)
	})
	if err != nil {
		return nil, err
	}
	if o.DryRun {
		return done, nil
	}
	return done, dlq.Remove(ctx, r.JS, l.Seq)
}

// conflict locks the rows of a conflict, and says what it takes the place of.
func (r Repairer) conflict(ctx context.Context, tx pgx.Tx, l *dlq.Letter, c *ledger.Correction) (*dedupe.Row, error) {
	key := letters.KeyOf(l)
	first := dedupe.Key{Source: key.Source, ID: key.ID}
	rows, err := dedupe.LockAll(ctx, tx, []dedupe.Key{first, key})
	if err != nil {
		return nil, err
	}
	row, standing := rows[key], rows[first]
	if was := letters.Stand(l, row); was != letters.Parked {
		return nil, fmt.Errorf("correct by letter %d: %w: the letter is %s", l.Seq, ErrConflict, was)
	}
	c.EventNo = row.No
	if key == first {
		return row, nil
	}
	if standing == nil || standing.State != dedupe.Completed {
		return nil, fmt.Errorf("correct by letter %d: %w: no event stands under its id any more; redrive it", l.Seq, ErrConflict)
	}
	c.Replaces = []int64{standing.No}
	return row, nil
}

// complete settles the row of a conflict that stands now.
func complete(ctx context.Context, tx pgx.Tx, done *Done, a dedupe.Action) error {
	row := done.Row
	row.State, row.Reason, row.Error, row.DLQSeq = dedupe.Completed, "", "", 0
	switch {
	case len(done.Posted) > 0:
		row.Outcome = dedupe.Applied
	case len(done.Decision.Transfers) > 0:
		row.Outcome = dedupe.DuplicateOperation
	default:
		row.Outcome = dedupe.Ignored
	}
	var b pgx.Batch
	dedupe.Save(&b, row, 0)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("complete event: %w", err)
	}
	if done.Changed() {
		return nil // recorded with the correction
	}
	a.Verb = dedupe.VerbCorrect
	return dedupe.Record(ctx, tx, a, &row.No)
}
