package repair

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/internal/resend"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// Reopen sends an event again that was completed without transfers, because a
// wrong rule ignored it or because its money was there from an event that was
// corrected since. Workers decide it by the rules that they have. It returns
// what the repairer's own rules make of it.
//
// The order is that of a redrive: (1) one transaction makes the row pending and
// records who and why; (2) the message is stored again. Whoever crashes in
// between leaves an event that the sweep sends.
//
// Errors: dedupe.ErrNoEvent, dedupe.ErrState, ErrGone, ErrReplaced.
func (r Repairer) Reopen(ctx context.Context, key dedupe.Key, a dedupe.Action, o Options) (*Done, error) {
	known, err := dedupe.Read(ctx, r.Pool, []dedupe.Key{key})
	if err != nil {
		return nil, err
	}
	row := known[key]
	if row == nil {
		return nil, fmt.Errorf("reopen: %w: %s of %s", dedupe.ErrNoEvent, key.ID, key.Source)
	}
	corrected, err := dedupe.Corrected(ctx, r.Pool, []dedupe.Key{key})
	if err != nil {
		return nil, err
	}
	if len(corrected[key]) > 0 {
		return nil, fmt.Errorf("reopen: %s of %s: %w", key.ID, key.Source, ErrReplaced)
	}
	msg, err := r.message(ctx, row)
	if err != nil {
		return nil, err
	}
	done := &Done{}
	done.Decision, _ = r.Catalog.Decide(msg.event)
	err = r.transact(ctx, o, func(tx pgx.Tx) error {
		done.Row, err = dedupe.Reopen(ctx, tx, key, a)
		return err
	})
	if err != nil || o.DryRun {
		return done, err
	}
	if err := r.send(ctx, done.Row, msg); err != nil {
		return nil, fmt.Errorf("reopen event %s: it is open, but its message is not stored yet; the sweep sends it: %w", key.ID, err)
	}
	return done, nil
}

// send stores the event's message again, and notes where it lies.
func (r Repairer) send(ctx context.Context, row *dedupe.Row, m *stored) error {
	msg, err := resend.Again(m.Stored, row.Redrives)
	if err != nil {
		return err
	}
	ack, err := r.JS.PublishMsg(ctx, msg)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return dedupe.Sent(ctx, r.Pool, row.StreamCreated, map[int64]uint64{row.No: ack.Sequence})
}
