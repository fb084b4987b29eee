package dedupe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// What an operator may not do to an event as it stands.
var (
	// ErrNoEvent means that there is no row under the key.
	ErrNoEvent = errors.New("no such event")
	// ErrState means that the event's state does not allow the action.
	ErrState = errors.New("the event's state does not allow this")
)

// Verb names an action; the words are stored.
type Verb string

// The actions on single events.
const (
	VerbRedrive    Verb = "redrive"
	VerbCompensate Verb = "compensate" // a redrive by the system itself
	VerbSweep      Verb = "sweep"      // sent again by the sweep
	VerbDiscard    Verb = "discard"
	VerbReopen     Verb = "reopen"
	VerbCorrect    Verb = "correct"
	VerbReplay     Verb = "replay"
)

// Action is who does what, and why. It is recorded in the transaction that
// does it, and never changes.
type Action struct {
	// Actor is who: a person's name, or the system's part.
	Actor string
	Verb  Verb
	// Note is why, in the actor's words.
	Note string
	// Detail is stored as JSON; nil stores none.
	Detail any

	// At and EventNo are set on reading.
	At      time.Time
	EventNo int64
}

// Record writes an action into the caller's transaction; no is the event's
// number, or nil where it concerns no single event.
func Record(ctx context.Context, tx pgx.Tx, a Action, no *int64) error {
	var detail []byte
	if a.Detail != nil {
		var err error
		if detail, err = json.Marshal(a.Detail); err != nil {
			return fmt.Errorf("record %s: %w", a.Verb, err)
		}
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO actions (actor, verb, note, event_no, detail)
		VALUES ($1, $2, $3, $4, $5)`, a.Actor, string(a.Verb), a.Note, no, detail)
	if err != nil {
		return fmt.Errorf("record %s: %w", a.Verb, err)
	}
	return nil
}

// Actions returns what was done to an event, oldest first.
func Actions(ctx context.Context, q Querier, no int64) ([]Action, error) {
	found, err := q.Query(ctx, `
		SELECT actor, verb, note, detail, at, event_no
		FROM actions
		WHERE event_no = $1
		ORDER BY no`, no)
	if err != nil {
		return nil, fmt.Errorf("read actions: %w", err)
	}
	actions, err := pgx.CollectRows(found, func(r pgx.CollectableRow) (a Action, err error) {
		var detail json.RawMessage
		err = r.Scan(&a.Actor, &a.Verb, &a.Note, &detail, &a.At, &a.EventNo)
		if detail != nil {
			a.Detail = detail
		}
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("read actions: %w", err)
	}
	return actions, nil
}

// Redrive makes a failed event pending again with a fresh budget, and records
// it. It may be repeated after a crash: a pending event stays pending. It
// returns the row as it is then; its Redrives numbers the message that is to be
// published next. A redrive never resets Redrives.
func Redrive(ctx context.Context, tx pgx.Tx, key Key, a Action) (*Row, error) {
	return open(ctx, tx, key, a, func(r *Row) bool { return r.State == Failed || r.State == Pending })
}

// Reopen makes an ignored event pending, so that today's rules decide it: the
// one way out of completed. It is refused for events that moved money.
func Reopen(ctx context.Context, tx pgx.Tx, key Key, a Action) (*Row, error) {
	a.Verb = VerbReopen
	return open(ctx, tx, key, a, func(r *Row) bool { return r.State == Completed && r.Outcome == Ignored })
}

func open(ctx context.Context, tx pgx.Tx, key Key, a Action, allowed func(*Row) bool) (*Row, error) {
	row, err := held(ctx, tx, key, a.Verb, allowed)
	if err != nil {
		return nil, err
	}
	if err := Record(ctx, tx, a, &row.No); err != nil {
		return nil, err
	}
	row.State, row.Outcome, row.Reason, row.Error = Pending, "", "", ""
	row.Attempts, row.Crashes, row.DLQSeq = 0, 0, 0
	row.Redrives++
	_, err = tx.Exec(ctx, `
		UPDATE events
		SET state = 'pending', outcome = NULL, reason = NULL, error = NULL, attempts = 0, crashes = 0, dlq_seq = NULL,
		    redrives = $2, first_failed_at = NULL, next_try_at = NULL, decided_at = now()
		WHERE no = $1`, row.No, row.Redrives)
	if err != nil {
		return nil, fmt.Errorf("%s event: %w", a.Verb, err)
	}
	return row, nil
}

// Discard gives a failed event up, with a note that says why. It stays visible.
func Discard(ctx context.Context, tx pgx.Tx, key Key, a Action) (*Row, error) {
	a.Verb = VerbDiscard
	if a.Note == "" {
		return nil, errors.New("discard event: a note is needed that says why")
	}
	row, err := held(ctx, tx, key, a.Verb, func(r *Row) bool { return r.State == Failed })
	if err != nil {
		return nil, err
	}
	if err := Record(ctx, tx, a, &row.No); err != nil {
		return nil, err
	}
	row.State = Discarded
	if _, err := tx.Exec(ctx, `UPDATE events SET state = 'discarded', decided_at = now() WHERE no = $1`, row.No); err != nil {
		return nil, fmt.Errorf("discard event: %w", err)
	}
	return row, nil
}

// held locks the row of key if its state allows the verb.
func held(ctx context.Context, tx pgx.Tx, key Key, verb Verb, allowed func(*Row) bool) (*Row, error) {
	row, err := Lock(ctx, tx, key)
	if err != nil {
		return nil, err
	}
	if row == nil {
		return nil, fmt.Errorf("%s: %w: %s of %s", verb, ErrNoEvent, key.ID, key.Source)
	}
	if !allowed(row) {
		return nil, fmt.Errorf("%s: %w: %s of %s is %s %s", verb, ErrState, key.ID, key.Source, row.State, row.Outcome)
	}
	return row, nil
}
