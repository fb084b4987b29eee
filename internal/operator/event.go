package operator

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// Event is an event's row with what it posted. Its JSON names are part of the
// public interface.
type Event struct {
	Source    string     `json:"source"`
	ID        string     `json:"id"`
	Variant   string     `json:"variant,omitempty"`
	Number    int64      `json:"event_no"`
	Type      string     `json:"type"`
	State     string     `json:"state"`
	Outcome   string     `json:"outcome,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Error     string     `json:"error,omitempty"`
	Hint      string     `json:"hint,omitempty"`
	Because   string     `json:"because,omitempty"` // of an ignored event
	GaveWay   *GaveWay   `json:"gave_way_to,omitempty"`
	Attempts  int        `json:"attempts"`
	Redrives  int        `json:"redrives"`
	RetryIn   float64    `json:"retry_in_seconds,omitempty"`
	Seq       uint64     `json:"seq"`
	Stream    time.Time  `json:"stream_created"`
	DLQSeq    uint64     `json:"dlq_seq,omitempty"`
	BodyHash  string     `json:"body_sha256"`
	Occurred  *time.Time `json:"occurred_at,omitempty"`
	Created   time.Time  `json:"created_at"`
	Decided   time.Time  `json:"decided_at"`
	Transfers []Transfer `json:"transfers"`
	// Holds are those that it opened, as they stand, and its voids.
	Holds []Hold `json:"holds,omitempty"`
	// Told are its running totals, and refunds that such totals, or others, had moved
	// before, at least in part.
	Told []Told `json:"told,omitempty"`
	// Actions are what operators, and the system on their behalf, did to it.
	Actions []Action `json:"actions,omitempty"`
	// Conflicts are deliveries with another content under the same id.
	Conflicts []Event `json:"conflicts,omitempty"`
}

// Action is who did what to an event, and why.
type Action struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Verb   string    `json:"verb"`
	Note   string    `json:"note,omitempty"`
	Detail any       `json:"detail,omitempty"`
}

// Movement is what a transfer moves.
type Movement struct {
	Operation string `json:"operation"`
	Debit     string `json:"debit"`
	Credit    string `json:"credit"`
	Asset     string `json:"asset"`
	Minor     int64  `json:"amount_minor"`
	Exponent  int    `json:"exponent"`
	// Kind is "hold"; "void", of the hold whose operation Of is; or "total", of what was
	// given back of Of so far.
	Kind string `json:"kind,omitempty"`
	Of   string `json:"of,omitempty"`
}

// movement describes t; exponent is that of its asset. A capture moves money as any
// transfer does.
func movement(t ledger.Transfer, exponent int) Movement {
	m := Movement{Operation: t.Operation, Debit: t.Debit, Credit: t.Credit, Asset: t.Asset, Minor: t.Amount, Exponent: exponent}
	switch t.Kind {
	case ledger.KindHold:
		m.Kind = string(t.Kind)
	case ledger.KindVoid, ledger.KindTotal:
		m.Kind, m.Of = string(t.Kind), t.Parent
	}
	return m
}

// words says what is moved, held, voided or told.
func (m *Movement) words() string {
	switch ledger.Kind(m.Kind) {
	case ledger.KindVoid:
		return "void of " + ledger.FormatKey(m.Of)
	case ledger.KindHold:
		return fmt.Sprintf("hold of %s %s -> %s", m.amount(), m.Debit, m.Credit)
	case ledger.KindTotal:
		return fmt.Sprintf("total of %s %s -> %s", m.amount(), m.Debit, m.Credit)
	}
	return fmt.Sprintf("%s %s -> %s", m.amount(), m.Debit, m.Credit)
}

// amount is what is moved in major units, with its asset.
func (m *Movement) amount() string { return ledger.FormatMinor(m.Minor, m.Exponent) + " " + m.Asset }

// Transfer is a posted transfer.
type Transfer struct {
	Movement
	Posted time.Time `json:"posted_at"`
	// N places the transfer in its event. Reverses is the N of one that it takes
	// back, and Reversed is set on that one: only what has neither counts.
	N        int16  `json:"n"`
	Reverses *int16 `json:"reverses,omitempty"`
	Reversed bool   `json:"reversed,omitempty"`
	// Captures is the operation of the hold that a capture is of, and Refunds that of
	// the payment that a refund gives back.
	Captures string `json:"captures,omitempty"`
	Refunds  string `json:"refunds,omitempty"`
	// Uncovered is the part of a capture that no hold covered: it was posted as a fact.
	Uncovered int64 `json:"uncovered_minor,omitempty"`
}

// remark says what a transfer is about, that it does not count alone, or what a person
// should know.
func (t *Transfer) remark() string {
	var said []string
	switch {
	case t.Captures != "":
		said = append(said, "captures "+ledger.FormatKey(t.Captures))
	case t.Refunds != "":
		said = append(said, "refunds "+ledger.FormatKey(t.Refunds))
	}
	switch {
	case t.Uncovered > 0:
		said = append(said, ledger.FormatMinor(t.Uncovered, t.Exponent)+" not covered by a hold")
	case t.Reverses != nil:
		said = append(said, "reversal")
	case t.Reversed:
		said = append(said, "reversed")
	}
	return strings.Join(said, ", ")
}

// ShowEvent prints everything that is known under one event id.
func ShowEvent(ctx context.Context, s *Session, source, id string) error {
	pool, err := s.Database(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	rows, err := find(ctx, pool, source, id)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("event %s of source %s is not known: it was not received, or no worker has decided it yet", id, source)
	}
	events, err := describe(ctx, pool, rows)
	if err != nil {
		return err
	}
	if err := addActions(ctx, pool, events); err != nil {
		return err
	}
	event := events[0]
	if event.Variant == "" {
		event.Conflicts = events[1:]
	}
	if s.JSON {
		return s.object(event)
	}
	return event.print(s)
}

// find looks an id up as it is stored, and then as a provider prints it: test
// traffic of a live source, and ids with a slash, are stored with a prefix.
func find(ctx context.Context, q dedupe.Querier, source, id string) ([]*dedupe.Row, error) {
	for _, key := range []string{id, "/" + id, "test/" + id, "live/" + id} {
		if rows, err := dedupe.Find(ctx, q, source, key); err != nil || len(rows) > 0 {
			return rows, err
		}
	}
	return nil, nil
}

// describe turns rows into events with their transfers.
func describe(ctx context.Context, pool *pgxpool.Pool, rows []*dedupe.Row) ([]Event, error) {
	assets, err := ledger.DeclaredAssets(ctx, pool)
	if err != nil {
		return nil, err
	}
	var applied []int64
	for _, r := range rows {
		if r.Outcome == dedupe.Applied {
			applied = append(applied, r.No)
		}
	}
	posted, held, told := map[int64][]*ledger.Entry{}, map[int64][]*ledger.Held{}, map[int64][]ledger.Transfer{}
	if len(applied) > 0 {
		if posted, err = ledger.Posted(ctx, pool, applied); err != nil {
			return nil, err
		}
		if held, err = ledger.HeldBy(ctx, pool, applied); err != nil {
			return nil, err
		}
		if told, err = ledger.ToldBy(ctx, pool, applied); err != nil {
			return nil, err
		}
	}
	about, err := aboutOf(ctx, pool, posted, told)
	if err != nil {
		return nil, err
	}
	events := make([]Event, len(rows))
	for i, r := range rows {
		events[i] = eventOf(r)
		events[i].Transfers = transfersOf(posted[r.No], about, assets)
		events[i].Holds = holdsOf(held[r.No], assets)
		events[i].Told = toldOf(told[r.No], about, assets)
	}
	return events, addPosters(ctx, pool, events)
}

// aboutOf reads which holds and payments the transfers of events are about.
func aboutOf(ctx context.Context, pool *pgxpool.Pool, posted map[int64][]*ledger.Entry, told map[int64][]ledger.Transfer) (map[string]ledger.About, error) {
	var operations []string
	for _, entries := range posted {
		for _, e := range entries {
			operations = append(operations, e.Operation)
		}
	}
	for _, transfers := range told {
		for _, t := range transfers {
			operations = append(operations, t.Operation)
		}
	}
	if len(operations) == 0 {
		return nil, nil
	}
	return ledger.AboutOf(ctx, pool, operations)
}

// transfersOf describes the transfers of one event.
func transfersOf(entries []*ledger.Entry, about map[string]ledger.About, assets *ledger.Assets) []Transfer {
	standing := ledger.Standing(entries)
	transfers := make([]Transfer, len(entries))
	for i, e := range entries {
		asset, _ := assets.Lookup(e.Asset)
		transfers[i] = Transfer{
			Movement: movement(e.Transfer, asset.Exponent), Posted: e.Posted.UTC(),
			N: e.N, Reverses: e.Reverses, Reversed: e.Reverses == nil && !slices.Contains(standing, e), Uncovered: e.Uncovered,
			Captures: about[e.Operation].Captures, Refunds: about[e.Operation].Refunds,
		}
	}
	return transfers
}

// addActions reads what was done to events.
func addActions(ctx context.Context, pool *pgxpool.Pool, events []Event) error {
	numbers := make([]int64, len(events))
	for i, e := range events {
		numbers[i] = e.Number
	}
	done, err := dedupe.ActionsOn(ctx, pool, numbers)
	if err != nil {
		return err
	}
	for i := range events {
		for _, a := range done[events[i].Number] {
			events[i].Actions = append(events[i].Actions, Action{
				At: a.At.UTC(), Actor: a.Actor, Verb: string(a.Verb), Note: a.Note, Detail: a.Detail,
			})
		}
	}
	return nil
}

func eventOf(r *dedupe.Row) Event {
	e := Event{
		Source: r.Source, ID: r.ID, Variant: r.Variant, Number: r.No, Type: r.Type,
		State: string(r.State), Outcome: string(r.Outcome), Reason: r.Reason, Error: r.Error,
		Attempts: r.Attempts, Redrives: r.Redrives, RetryIn: r.RetryIn.Seconds(),
		Seq: r.Seq, Stream: r.StreamCreated.UTC(), DLQSeq: r.DLQSeq, BodyHash: hex.EncodeToString(r.BodyHash[:]),
		Created: r.Created.UTC(), Decided: r.Decided.UTC(), Transfers: []Transfer{},
	}
	if !r.Occurred.IsZero() {
		occurred := r.Occurred.UTC()
		e.Occurred = &occurred
	}
	if r.State == dedupe.Failed || r.State == dedupe.Pending {
		info, _ := dlq.Reason(r.Reason).Info()
		e.Hint = info.Hint
	}
	if r.Outcome == dedupe.DuplicateOperation && r.Error != "" {
		e.Error, e.GaveWay = "", &GaveWay{Operation: r.Error}
	}
	if r.Outcome == dedupe.Ignored {
		info, _ := dlq.Reason(r.Reason).Info()
		e.Because = info.Ignored
	}
	return e
}

// print writes the event for a person.
func (e *Event) print(s *Session) error {
	t := newTable(s.Out)
	t.row("event", fmt.Sprintf("%s of %s (number %d)", e.ID, e.Source, e.Number))
	t.optional("type", e.Type)
	t.row("state", e.standing())
	t.optional("reason", e.Reason)
	t.optional("because", e.Because)
	if e.GaveWay != nil {
		t.row("gave way to", fmt.Sprintf("event %s of %s, which had posted %s", e.GaveWay.ID, e.GaveWay.Source, ledger.FormatKey(e.GaveWay.Operation)))
	}
	t.optional("error", e.Error)
	t.optional("hint", e.Hint)
	if e.DLQSeq != 0 && e.State == string(dedupe.Failed) {
		t.row("dead letter", fmt.Sprintf("%d; see: %s dlq show %d%s", e.DLQSeq, s.command(), e.DLQSeq, s.where()))
	}
	t.row("attempts", fmt.Sprintf("%d failed, %d redrives", e.Attempts, e.Redrives))
	t.row("message", fmt.Sprintf("%d of EVENTS (stream created %s)", e.Seq, when(e.Stream)))
	if e.Occurred != nil {
		t.row("occurred", when(*e.Occurred))
	}
	t.row("first seen", when(e.Created))
	t.row("decided", when(e.Decided))
	t.row("body", "sha256 "+e.BodyHash)
	if err := t.flush(); err != nil {
		return err
	}
	if len(e.Transfers) > 0 {
		fmt.Fprintln(s.Out)
		t = newTable(s.Out, "TRANSFER", "DEBIT", "CREDIT", "AMOUNT", "NOTE")
		for _, transfer := range e.Transfers {
			t.row(ledger.FormatKey(transfer.Operation), transfer.Debit, transfer.Credit, transfer.amount(), transfer.remark())
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	if err := printHolds(s, e.Holds); err != nil {
		return err
	}
	if err := printTold(s, e.Told); err != nil {
		return err
	}
	if err := s.printActions(e); err != nil || len(e.Conflicts) == 0 {
		return err
	}
	fmt.Fprintf(s.Out, "\n%s with another content under this id:\n", count(len(e.Conflicts), "delivery"))
	t = newTable(s.Out, "MESSAGE", "STATE", "REASON", "DEAD LETTER", "DECIDED", "ERROR")
	for _, c := range e.Conflicts {
		t.row(fmt.Sprint(c.Seq), c.standing(), c.Reason, number(c.DLQSeq), when(c.Decided), c.Error)
	}
	return t.flush()
}

// printActions prints what was done to the event and to its conflicts.
func (s *Session) printActions(e *Event) error {
	t := newTable(s.Out, "DONE", "BY", "ACTION", "TO", "NOTE")
	n := 0
	for _, each := range append([]Event{*e}, e.Conflicts...) {
		to := "event"
		if each.Variant != "" {
			to = "conflict of message " + fmt.Sprint(each.Seq)
		}
		for _, a := range each.Actions {
			n++
			t.row(when(a.At), a.Actor, a.Verb, to, a.Note)
		}
	}
	if n == 0 {
		return nil
	}
	fmt.Fprintln(s.Out)
	return t.flush()
}

// standing is the state, with the outcome or the wait that belongs to it.
func (e *Event) standing() string {
	switch {
	case e.Outcome != "":
		return e.State + " (" + e.Outcome + ")"
	case e.RetryIn > 0:
		return fmt.Sprintf("%s (next try in %s)", e.State, time.Duration(e.RetryIn*float64(time.Second)).Round(time.Second))
	}
	return e.State
}
