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

	// The actions on accounts: their detail is an AccountChange.
	VerbOpenAccount     Verb = "account_open"
	VerbFreezeAccount   Verb = "account_freeze"
	VerbUnfreezeAccount Verb = "account_unfreeze"
	VerbCloseAccount    Verb = "account_close"
	VerbSetAccount      Verb = "account_set"

	// VerbAcknowledge concerns no single event: a person has taken note of
	// messages that are gone.
	VerbAcknowledge Verb = "acknowledge"
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

// AccountChange is the detail of an action on an account.
type AccountChange struct {
	Account string `json:"account"`
	Asset   string `json:"asset"`
	// Metadata is what was set; an empty value was removed.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Record writes an action into the caller's transaction; no is the event's
// number, or nil where it concerns no single event.
func Record(ctx context.Context, tx pgx.Tx, a Action, no *int64) error {
	return record(ctx, tx, a, []*int64{no}, []any{a.Detail})
}

// record writes one action for each number, with its own detail.
func record(ctx context.Context, tx pgx.Tx, a Action, numbers []*int64, details []any) error {
	texts := make([]*string, len(numbers))
	for i, detail := range details {
		if detail == nil {
			continue
		}
		raw, err := json.Marshal(detail)
		if err != nil {
			return fmt.Errorf("record %s: %w", a.Verb, err)
		}
		text := string(raw)
		texts[i] = &text
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO actions (actor, verb, note, event_no, detail)
		SELECT $1, $2, $3, d.no, d.detail::jsonb
		FROM unnest($4::bigint[], $5::text[]) WITH ORDINALITY AS d (no, detail, n)
		ORDER BY d.n`, a.Actor, string(a.Verb), a.Note, numbers, texts)
	if err != nil {
		return fmt.Errorf("record %s: %w", a.Verb, err)
	}
	return nil
}

// Actions returns what was done to an event, oldest first.
func Actions(ctx context.Context, q Querier, no int64) ([]Action, error) {
	byNo, err := ActionsOn(ctx, q, []int64{no})
	return byNo[no], err
}

// ActionsOn returns what was done to events, by their numbers, oldest first.
func ActionsOn(ctx context.Context, q Querier, numbers []int64) (map[int64][]Action, error) {
	found, err := q.Query(ctx, `
		SELECT actor, verb, note, detail, at, event_no
		FROM actions
		WHERE event_no = ANY($1)
		ORDER BY event_no, no`, numbers)
	actions, err := collectActions(found, err)
	if err != nil {
		return nil, err
	}
	byNo := map[int64][]Action{}
	for _, a := range actions {
		byNo[a.EventNo] = append(byNo[a.EventNo], a)
	}
	return byNo, nil
}

// AccountActions returns what was done to an account in all its assets, oldest
// first. Their details are AccountChanges, as JSON.
func AccountActions(ctx context.Context, q Querier, account string) ([]Action, error) {
	found, err := q.Query(ctx, `
		SELECT actor, verb, note, detail, at, COALESCE(event_no, 0)
		FROM actions
		WHERE detail ? 'account' AND detail ->> 'account' = $1
		ORDER BY no`, account)
	return collectActions(found, err)
}

func collectActions(found pgx.Rows, err error) ([]Action, error) {
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
