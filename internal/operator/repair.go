package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/repair"
	"github.com/onceledger/onceledger/internal/review"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// EventRepair says which events are repaired, and how.
type EventRepair struct {
	// Source and ID name one event; or All that Filter selects and that need it.
	Source, ID string
	All        bool
	Filter     review.Filter
	// Actor is who does it, default the user of this machine; Note is why, and
	// required.
	Actor, Note string
	// DryRun only shows what would be done, and Yes asks nothing. Overdraw takes
	// accounts past limits that are enforced.
	DryRun, Yes, Overdraw bool
}

// RepairedEvent is what became of one event. Its JSON names are part of the
// public interface.
type RepairedEvent struct {
	Source  string `json:"source"`
	ID      string `json:"id"`
	Variant string `json:"variant,omitempty"`
	Number  int64  `json:"event_no,omitempty"`
	// Result is corrected, reopened, unchanged (nothing differs), refused (the
	// event stays as it was) or failed. With DryRun nothing was done.
	Result string `json:"result"`
	DryRun bool   `json:"dry_run,omitempty"`
	// Today is what today's rules make of the event: apply, ignore or park.
	Today string `json:"today,omitempty"`
	// Refused is why no money would come of opening it again, as the books stand; of a
	// dry run.
	Refused   *Refused         `json:"refused,omitempty"`
	Reversed  []RepairMovement `json:"reversed"`
	Posted    []RepairMovement `json:"posted"`
	Overdrawn []string         `json:"overdrawn,omitempty"`
	Error     string           `json:"error,omitempty"`

	uncorrectable bool // it has to do with holds or running totals
}

// RepairMovement is a transfer that a repair takes back or posts, and the event
// that it belongs to.
type RepairMovement struct {
	EventNo int64 `json:"event_no"`
	Movement
}

// CorrectEvents replaces what events have posted by what today's rules ask for.
func CorrectEvents(ctx context.Context, s *Session, m EventRepair) error {
	return s.repair(ctx, m, func(r repair.Repairer, a dedupe.Action) error {
		return s.repairEvents(ctx, r, m, a, correcting(r))
	})
}

// ReopenEvents sends events again that were completed without transfers.
func ReopenEvents(ctx context.Context, s *Session, m EventRepair) error {
	return s.repair(ctx, m, func(r repair.Repairer, a dedupe.Action) error {
		return s.repairEvents(ctx, r, m, a, reopening(r))
	})
}

// CorrectByLetters lets the conflicts of dead letters stand, which are named one
// by one: each is a decision of its own.
func CorrectByLetters(ctx context.Context, s *Session, named LetterMove, overdraw bool) error {
	if named.All || len(named.Seqs) == 0 || named.Query != (LetterQuery{}) {
		return exit.Usagef("--as-correction takes dead letters by their sequences: each is a decision of its own")
	}
	m := EventRepair{Actor: named.Actor, Note: named.Note, DryRun: named.DryRun, Overdraw: overdraw}
	return s.repair(ctx, m, func(r repair.Repairer, a dedupe.Action) error {
		for _, seq := range named.Seqs {
			l, err := letterAt(ctx, r.JS, seq)
			if err != nil {
				return err
			}
			key := dedupe.Key{Source: l.Source, ID: l.EventID, Variant: l.Variant}
			err = s.repairOne(ctx, r, key, m, func() (*repair.Done, error) {
				return r.CorrectLetter(ctx, l, a, m.options())
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// repair opens what a repair needs.
func (s *Session) repair(ctx context.Context, m EventRepair, f func(repair.Repairer, dedupe.Action) error) error {
	if strings.TrimSpace(m.Note) == "" && !m.DryRun {
		return exit.Usagef("a repair needs --note: why is it done?")
	}
	cat, err := s.Catalog()
	if err != nil {
		return fmt.Errorf("%w\na repair needs the rules: they say what should stand", err)
	}
	pool, conn, err := s.both(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	defer conn.Close()
	if err := checkSource(ctx, m.Filter.Source, cat.Config.Sources, pool, conn.JS); err != nil {
		return err
	}
	a := dedupe.Action{Actor: cmp.Or(m.Actor, userName(s.Env)), Note: m.Note}
	return noStream(f(repair.Repairer{Pool: pool, JS: conn.JS, Catalog: cat}, a))
}

// repairing is a kind of repair: what it does to one event, and which differences
// need it.
type repairing struct {
	verb, done string
	needs      func(*review.Difference) bool
	do         func(context.Context, dedupe.Key, dedupe.Action, repair.Options) (*repair.Done, error)
}

func correcting(r repair.Repairer) repairing {
	return repairing{"correct", "corrected", func(d *review.Difference) bool {
		return d.Kind == review.WouldPostDifferently || d.Kind == review.WouldIgnore
	}, r.Correct}
}

func reopening(r repair.Repairer) repairing {
	return repairing{"reopen", "reopened", func(d *review.Difference) bool {
		// What waits for its parent may get it from another one that is reopened.
		return d.Kind == review.WouldPost && (d.Refused.Reason == "" || d.Refused.Reason == dlq.MissingParent)
	}, r.Reopen}
}

// repairEvents repairs the event that a person names, or all that need it.
func (s *Session) repairEvents(ctx context.Context, r repair.Repairer, m EventRepair, a dedupe.Action, with repairing) error {
	switch {
	case m.All:
		return s.repairAll(ctx, r, m, a, with)
	case m.Filter != (review.Filter{}):
		return exit.Usagef("name one event, or give --all with filters")
	}
	rows, err := find(ctx, r.Pool, m.Source, m.ID)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("event %s of source %s is not known: it was not received, or no worker has decided it yet", m.ID, m.Source)
	}
	key := rows[0].Key
	return s.repairOne(ctx, r, key, m, func() (*repair.Done, error) { return with.do(ctx, key, a, m.options()) })
}

func (m EventRepair) options() repair.Options {
	return repair.Options{DryRun: m.DryRun, Overdraw: m.Overdraw}
}

// repairOne repairs one event and prints what became of it.
func (s *Session) repairOne(ctx context.Context, r repair.Repairer, key dedupe.Key, m EventRepair, do func() (*repair.Done, error)) error {
	assets, err := ledger.DeclaredAssets(ctx, r.Pool)
	if err != nil {
		return err
	}
	done, failed := do()
	e := repairedEvent(key, m, done, failed, assets)
	if e.Result == "reopened" && m.DryRun {
		if e.Refused, err = foresee(ctx, r, done); err != nil {
			return err
		}
	}
	if s.JSON {
		return errors.Join(s.object(e), hinted(failed))
	}
	if failed != nil {
		return hinted(failed)
	}
	return e.print(s)
}

// repairedEvent says what was done.
func repairedEvent(key dedupe.Key, m EventRepair, done *repair.Done, failed error, assets *ledger.Assets) *RepairedEvent {
	e := &RepairedEvent{
		Source: key.Source, ID: key.ID, Variant: key.Variant, DryRun: m.DryRun,
		Reversed: []RepairMovement{}, Posted: []RepairMovement{},
	}
	if failed != nil {
		e.Result, e.Error = "refused", failed.Error()
		e.uncorrectable = errors.Is(failed, ledger.ErrCorrectHold) || errors.Is(failed, ledger.ErrCorrectTotal)
		return e
	}
	e.Number = done.Row.No
	e.Today = today(done.Decision)
	e.Overdrawn = done.Overdrawn
	of := func(no int64, t ledger.Transfer) RepairMovement {
		asset, _ := assets.Lookup(t.Asset)
		return RepairMovement{no, movement(t, asset.Exponent)}
	}
	for _, r := range done.Reversed {
		e.Reversed = append(e.Reversed, of(r.EventNo, r.Transfer))
	}
	for _, t := range done.Posted {
		e.Posted = append(e.Posted, of(done.Row.No, t))
	}
	switch {
	case done.Row.State == dedupe.Pending:
		e.Result = "reopened"
	case done.Changed():
		e.Result = "corrected"
	default:
		e.Result = "unchanged"
	}
	return e
}

// today says a decision in a word.
func today(d rules.Decision) string {
	switch {
	case d.Parked != "":
		return "park as " + string(d.Parked)
	case len(d.Transfers) == 0:
		return "ignore"
	}
	return "apply"
}

// uncorrectableHint is where to read on about holds, captures and running totals.
const uncorrectableHint = `docs/operations.md says under "What event correct refuses" how to book the difference`

// hinted adds to a refusal what to do about it.
func hinted(err error) error {
	switch {
	case errors.Is(err, ledger.ErrInsufficientFunds):
		return fmt.Errorf("%w\nnothing was done; add --overdraw to post it all the same: the account is then past its limit", err)
	case errors.Is(err, ledger.ErrAccountFrozen):
		return fmt.Errorf("%w\nnothing was done; unfreeze that account for as long as it takes (onceledger account unfreeze)", err)
	case errors.Is(err, ledger.ErrCorrectHold), errors.Is(err, ledger.ErrCorrectTotal):
		return fmt.Errorf("%w\nnothing was done; %s", err, uncorrectableHint)
	case errors.Is(err, ledger.ErrOperationConflict):
		return fmt.Errorf("%w\nnothing was done; correct that event first, or discard one of the two", err)
	case errors.Is(err, dedupe.ErrState):
		return fmt.Errorf("%w\nevent correct is for events that are applied, event reopen for those that are ignored or duplicate_operation, dlq redrive for those that are failed", err)
	}
	return err
}

// print writes it for a person.
func (e *RepairedEvent) print(s *Session) error {
	would := ""
	if e.DryRun {
		would = "would be "
	}
	name := fmt.Sprintf("event %s of %s", e.ID, e.Source)
	switch e.Result {
	case "unchanged":
		fmt.Fprintf(s.Out, "%s stands as today's rules have it; there is nothing to correct\n", name)
		return nil
	case "reopened":
		if e.Refused != nil {
			fmt.Fprintf(s.Out, "%s %sreopened; today's rules of %s ask for money, but none would move as the books stand%s\n", name, would, s.ConfigPath(), e.Refused.words())
			return nil
		}
		fmt.Fprintf(s.Out, "%s %sreopened; today's rules of %s %s it, and a worker decides it by its own\n", name, would, s.ConfigPath(), e.Today)
		return nil
	}
	if len(e.Reversed)+len(e.Posted) > 0 {
		t := newTable(s.Out, "DO", "TRANSFER", "DEBIT", "CREDIT", "AMOUNT")
		for _, m := range e.Reversed {
			m.row(t, "reverse")
		}
		for _, m := range e.Posted {
			m.row(t, "post")
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	for _, account := range e.Overdrawn {
		fmt.Fprintf(s.Out, "account %s %spast its limit\n", account, would)
	}
	fmt.Fprintf(s.Out, "%s %scorrected: %d reversed, %d posted\n", name, would, len(e.Reversed), len(e.Posted))
	return nil
}

func (m *Movement) row(t *table, does string) {
	t.row(does, ledger.FormatKey(m.Operation), m.Debit, m.Credit, m.amount())
}
