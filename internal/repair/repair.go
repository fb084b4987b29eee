// Package repair undoes what a wrong rule did to events that are done: it
// replaces what they posted by what today's rules ask for, lets a conflict stand
// in place of what came first, and opens events again that posted nothing.
//
// Guarantee: nothing stored is edited. What no longer holds is reversed, what
// holds is posted, and who did it and why is recorded, in one transaction; a
// repair that is repeated does nothing more.
//
//	r := repair.Repairer{Pool: pool, JS: js, Catalog: cat}
//	done, err := r.Correct(ctx, key, action, repair.Options{DryRun: true})
package repair

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/resend"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// What keeps an event as it is.
var (
	// ErrGone means that the event's message has left EVENTS, so that nobody can
	// tell what today's rules would make of it.
	ErrGone = errors.New("its message is no longer in " + stream.Events)
	// ErrParked means that today's rules would park the event.
	ErrParked = errors.New("today's rules would park it")
	// ErrNothing means that a conflict would post nothing in place of what stands.
	ErrNothing = errors.New("today's rules post nothing for it that is not there; to take back what stands, let the rules leave this event out and correct it")
	// ErrReplaced means that an operator let another content stand in the event's
	// place.
	ErrReplaced = errors.New("another content was let stand in its place; see event show")
	// ErrConflict means that the letter is none of a conflict, or no longer.
	ErrConflict = errors.New("it is not parked as a conflict")
)

// Repairer is what repairs need: both systems, and the rules to repair by.
type Repairer struct {
	Pool    *pgxpool.Pool
	JS      jetstream.JetStream
	Catalog *catalog.Catalog
}

// Options says how a repair is made.
type Options struct {
	// DryRun does everything and takes it back, so that the result is exact.
	DryRun bool
	// Overdraw posts a correction where a limit that is enforced would refuse it.
	Overdraw bool
}

// Done is what a repair did, or would do.
type Done struct {
	Row *dedupe.Row
	// Decision is what today's rules say of the event.
	Decision rules.Decision
	// Reversed and Posted are the transfers of a correction; neither where
	// everything stands as it should. Overdrawn are accounts past their limit.
	Reversed  []*ledger.Entry
	Posted    []ledger.Transfer
	Overdrawn []string
}

// Changed reports whether there was anything to do.
func (d *Done) Changed() bool { return len(d.Reversed)+len(d.Posted) > 0 }

// errDry rolls a transaction back that was only made to see what it does.
var errDry = errors.New("dry run")

// transact runs f in a transaction, again after a lost race, and takes it back
// if this is a dry run.
func (r Repairer) transact(ctx context.Context, o Options, f func(pgx.Tx) error) error {
	err := postgres.Transact(ctx, r.Pool, func(tx pgx.Tx) error {
		if err := f(tx); err != nil || !o.DryRun {
			return err
		}
		return errDry
	})
	if errors.Is(err, errDry) {
		return nil
	}
	return err
}

// stored is an event's message as EVENTS has it.
type stored struct {
	event *envelope.Event
	*envelope.Stored
}

// message reads the message that row names.
func (r Repairer) message(ctx context.Context, row *dedupe.Row) (*stored, error) {
	events, err := r.JS.Stream(ctx, stream.Events)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", stream.Events, err)
	}
	found, err := resend.Message(ctx, r.JS, stream.Incarnation(events.CachedInfo().Created), row)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("read message of event %s: %w (sequence %d)", row.ID, ErrGone, row.Seq)
	}
	event, err := envelope.Decode(found.Header, found.Data)
	if err != nil {
		return nil, fmt.Errorf("read message %d: %w", row.Seq, err)
	}
	return &stored{event, found}, nil
}

// decide asks today's rules.
func (r Repairer) decide(event *envelope.Event) (rules.Decision, error) {
	d, _ := r.Catalog.Decide(event)
	if d.Parked != "" {
		return d, fmt.Errorf("decide event %s: %w as %s: %w", event.ID, ErrParked, d.Parked, d.Err)
	}
	return d, nil
}
