package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/repair"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// EventRepair says how an event is repaired.
type EventRepair struct {
	// Actor is who does it, default the user of this machine; Note is why, and
	// required.
	Actor, Note string
	// DryRun only shows what would be done. Overdraw takes accounts past limits
	// that are enforced.
	DryRun, Overdraw bool
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
	Today     string     `json:"today,omitempty"`
	Reversed  []Movement `json:"reversed"`
	Posted    []Movement `json:"posted"`
	Overdrawn []string   `json:"overdrawn,omitempty"`
	Error     string     `json:"error,omitempty"`
}

// Movement is a transfer that a repair takes back or posts; EventNo is the event
// that it belongs to.
type Movement struct {
	EventNo   int64  `json:"event_no"`
	Operation string `json:"operation"`
	Debit     string `json:"debit"`
	Credit    string `json:"credit"`
	Asset     string `json:"asset"`
	Minor     int64  `json:"amount_minor"`
	Exponent  int    `json:"exponent"`
}

// CorrectEvent replaces what an event has posted by what today's rules ask for.
func CorrectEvent(ctx context.Context, s *Session, source, id string, m EventRepair) error {
	return s.repair(ctx, m, func(r repair.Repairer, a dedupe.Action) error {
		return s.repairNamed(ctx, r, source, id, m, a, r.Correct)
	})
}

// ReopenEvent sends an event again that was completed without transfers.
func ReopenEvent(ctx context.Context, s *Session, source, id string, m EventRepair) error {
	return s.repair(ctx, m, func(r repair.Repairer, a dedupe.Action) error {
		a.Verb = dedupe.VerbReopen
		return s.repairNamed(ctx, r, source, id, m, a, r.Reopen)
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
			l, err := dlq.Get(ctx, r.JS, seq)
			if err != nil {
				return err
			}
			key := dedupe.Key{Source: l.Source, ID: l.EventID, Variant: l.Variant}
			err = s.repairOne(ctx, r, key, m, func() (*repair.Done, error) {
				return r.CorrectLetter(ctx, l, a, repair.Options{DryRun: m.DryRun, Overdraw: m.Overdraw})
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
	a := dedupe.Action{Actor: cmp.Or(m.Actor, userName(s.Env)), Note: m.Note}
	return noStream(f(repair.Repairer{Pool: pool, JS: conn.JS, Catalog: cat}, a))
}

type repairer func(context.Context, dedupe.Key, dedupe.Action, repair.Options) (*repair.Done, error)

// repairNamed repairs the event that a person names.
func (s *Session) repairNamed(ctx context.Context, r repair.Repairer, source, id string, m EventRepair, a dedupe.Action, do repairer) error {
	rows, err := find(ctx, r.Pool, source, id)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("event %s of source %s is not known: it was not received, or no worker has decided it yet", id, source)
	}
	return s.repairOne(ctx, r, rows[0].Key, m, func() (*repair.Done, error) {
		return do(ctx, rows[0].Key, a, repair.Options{DryRun: m.DryRun, Overdraw: m.Overdraw})
	})
}

// repairOne repairs one event and prints what became of it.
func (s *Session) repairOne(ctx context.Context, r repair.Repairer, key dedupe.Key, m EventRepair, do func() (*repair.Done, error)) error {
	assets, err := ledger.DeclaredAssets(ctx, r.Pool)
	if err != nil {
		return err
	}
	done, failed := do()
	e := RepairedEvent{
		Source: key.Source, ID: key.ID, Variant: key.Variant, DryRun: m.DryRun,
		Reversed: []Movement{}, Posted: []Movement{},
	}
	e.fill(done, failed, assets)
	if s.JSON {
		return errors.Join(s.object(e), hinted(failed))
	}
	if failed != nil {
		return hinted(failed)
	}
	return e.print(s)
}

// fill says what was done.
func (e *RepairedEvent) fill(done *repair.Done, failed error, assets *ledger.Assets) {
	if failed != nil {
		e.Result, e.Error = "refused", failed.Error()
		return
	}
	e.Number = done.Row.No
	e.Today = today(done.Decision)
	e.Overdrawn = done.Overdrawn
	of := func(no int64, t ledger.Transfer) Movement {
		asset, _ := assets.Lookup(t.Asset)
		return Movement{no, t.Operation, t.Debit, t.Credit, t.Asset, t.Amount, asset.Exponent}
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
	case done.Row.Variant != "" || done.Changed():
		e.Result = "corrected"
	default:
		e.Result = "unchanged"
	}
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

// hinted adds to a refusal what to do about it.
func hinted(err error) error {
	switch {
	case errors.Is(err, ledger.ErrInsufficientFunds):
		return fmt.Errorf("%w\nnothing was done; add --overdraw to post it all the same: the account is then past its limit", err)
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
		fmt.Fprintf(s.Out, "%s %sreopened; today's rules of %s %s it, and a worker decides it by its own\n", name, would, s.ConfigPath(), e.Today)
		return nil
	}
	if len(e.Reversed)+len(e.Posted) > 0 {
		t := newTable(s.Out, "", "TRANSFER", "DEBIT", "CREDIT", "AMOUNT")
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

func (m Movement) row(t *table, does string) {
	t.row(does, operation(m.Operation), m.Debit, m.Credit, ledger.FormatMinor(m.Minor, m.Exponent)+" "+m.Asset)
}
