package operator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/review"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// comparison prints differences as they come, and counts them.
type comparison struct {
	s        *Session
	exponent func(asset string) int
	table    *table
	rows     int
	groups   map[DifferenceGroup]int // whose Events are 0
}

func newComparison(s *Session, exponent func(string) int) *comparison {
	return &comparison{
		s: s, exponent: exponent, groups: map[DifferenceGroup]int{},
		table: newTable(s.Out, "MESSAGE", "SOURCE", "EVENT", "TYPE", "STANDS", "WOULD"),
	}
}

// tablePage is how many rows are aligned with each other.
const tablePage = 500

func (c *comparison) add(d *review.Difference) error {
	c.groups[DifferenceGroup{Kind: string(d.Kind), Source: d.Row.Source, Uncorrectable: d.Uncorrectable, Refused: string(d.Refused.Reason)}]++
	e := c.event(d)
	if c.s.JSON {
		return c.s.object(e)
	}
	stands, would := e.stands(false), e.would(false)
	if movements(e.Stands, false) == movements(e.Would.Transfers, false) { // the same money under other operations
		stands, would = e.stands(true), e.would(true)
	}
	would += e.Refused.words()
	c.table.row(fmt.Sprint(e.Seq), e.Source, e.EventID, e.Type, stands, would)
	if c.rows++; c.rows%tablePage != 0 {
		return nil
	}
	return c.table.flush()
}

func (c *comparison) event(d *review.Difference) DifferingEvent {
	e := DifferingEvent{
		Kind: string(d.Kind), Seq: d.Seq, Stored: d.Stored.UTC(), Source: d.Row.Source, EventID: d.Row.ID, Type: d.Row.Type, Number: d.Row.No,
		State: string(d.Row.State), Outcome: string(d.Row.Outcome), Reason: d.Row.Reason, Stands: []Movement{},
		Would: Would{Do: "post", Transfers: []Movement{}}, Uncorrectable: d.Uncorrectable, Refused: refusedOf(d),
	}
	for _, t := range d.Standing {
		e.Stands = append(e.Stands, movement(t.Transfer, c.exponent(t.Asset)))
	}
	switch {
	case d.Decision.Parked != "":
		e.Would.Do, e.Would.Reason = "park", string(d.Decision.Parked)
		if d.Decision.Err != nil {
			e.Would.Error = d.Decision.Err.Error()
		}
	case len(d.Decision.Transfers) == 0:
		e.Would.Do, e.Would.Reason = "ignore", string(d.Decision.Ignored)
	}
	for _, t := range d.Decision.Transfers {
		e.Would.Transfers = append(e.Would.Transfers, movement(t, c.exponent(t.Asset)))
	}
	return e
}

// stands says in a cell what became of the event; named adds the operations.
func (e *DifferingEvent) stands(named bool) string {
	switch {
	case e.State == string(dedupe.Failed):
		return "parked (" + e.Reason + ")"
	case len(e.Stands) == 0:
		return e.Outcome
	}
	return e.Outcome + " " + movements(e.Stands, named)
}

// would says in a cell what the rules make of it.
func (e *DifferingEvent) would(named bool) string {
	switch e.Would.Do {
	case "park":
		return cut("park (" + e.Would.Reason + "): " + e.Would.Error)
	case "ignore":
		return "ignore"
	}
	if !slices.ContainsFunc(e.Would.Transfers, func(m Movement) bool { return m.Kind != string(ledger.KindTotal) }) {
		return "note " + movements(e.Would.Transfers, named) // it may move nothing
	}
	return "post " + movements(e.Would.Transfers, named)
}

// words says in a cell what is in the way, behind what would be done.
func (r *Refused) words() string {
	switch {
	case r == nil:
		return ""
	case r.Account != "":
		return fmt.Sprintf("; %s: %s in %s", r.Reason, r.Account, r.Asset)
	case r.EventID != "":
		return fmt.Sprintf("; %s: event %s of %s has %s", r.Reason, r.EventID, r.Source, ledger.FormatKey(r.Operation))
	}
	return fmt.Sprintf("; %s: %s", r.Reason, ledger.FormatKey(r.Operation))
}

// movements prints transfers in a cell, in major units.
func movements(list []Movement, named bool) string {
	parts := make([]string, len(list))
	for i, t := range list {
		parts[i] = t.words()
		if named {
			parts[i] += " as " + ledger.FormatKey(t.Operation)
		}
	}
	return strings.Join(parts, ", ")
}

// advice is what to do about each kind.
var advice = map[review.Kind]string{
	review.WouldPostDifferently: "event correct: takes back what stands and posts what today's rules say",
	review.WouldIgnore:          "event correct: takes back what stands",
	review.WouldPost:            "event reopen: lets today's rules decide what was completed without money",
	review.WouldPark:            "mend the rules before workers run with them; what stands, stands",
	review.WouldApply:           "dlq redrive: lets today's rules decide what is parked",
	review.WouldIgnoreParked:    "dlq redrive: lets today's rules decide what is parked",
}

// adviceUncorrectable is what to do about what event correct refuses.
const adviceUncorrectable = "event correct refuses holds and running totals: " + adviceByHand

const adviceByHand = "book the difference by events of your own, docs/operations.md says how"

// adviceFirst goes before the advice for what the ledger would take afterwards, and
// adviceNever is in its place where it would not.
var adviceFirst = map[dlq.Reason]string{
	dlq.MissingParent:  "first let what it is about be posted, then ",
	dlq.AccountUnknown: "first onceledger account open, then ",
}

var adviceNever = map[dlq.Reason]string{
	dlq.OperationConflict: "nothing with this event: another one has the operation otherwise; event correct that one if it is listed, else make the rules of both agree",
	dlq.AccountClosed:     "nothing with this event: an account is closed for good; " + adviceByHand,
}

// whatToDo is the advice for a group of differences.
func (g *DifferenceGroup) whatToDo() string {
	kind := review.Kind(g.Kind)
	if kind == review.WouldPark {
		return advice[kind]
	}
	if g.Uncorrectable {
		return adviceUncorrectable
	}
	refused := dlq.Reason(g.Refused)
	return cmp.Or(adviceNever[refused], adviceFirst[refused]+advice[kind])
}

// end prints the sum, and what can be done.
func (c *comparison) end(path string, sum review.Summary) error {
	check := StreamCheck{
		File: path, Messages: sum.Messages, Compared: sum.Compared, First: sum.First, Last: sum.Last,
		Outside: sum.Outside, Differences: sum.Differences, Groups: []DifferenceGroup{},
	}
	if !sum.Since.IsZero() {
		since := sum.Since.UTC()
		check.Since = &since
	}
	for group, n := range c.groups {
		group.Events = n
		check.Groups = append(check.Groups, group)
	}
	place := func(g DifferenceGroup) int {
		at := 2 * slices.Index(review.Kinds(), review.Kind(g.Kind))
		if g.Uncorrectable {
			at++
		}
		return at
	}
	slices.SortFunc(check.Groups, func(a, b DifferenceGroup) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Refused, b.Refused))
	})
	err := c.print(&check)
	if err == nil && check.Differences > 0 {
		err = exit.With(exit.Found, errors.New(count(check.Differences, "event")+" would be treated in another way"))
	}
	return err
}

func (c *comparison) print(check *StreamCheck) error {
	if c.s.JSON {
		return c.s.object(check)
	}
	out := c.s.Out
	if check.Differences > 0 {
		if err := c.table.flush(); err != nil {
			return err
		}
		fmt.Fprintln(out)
		t := newTable(out, "EVENTS", "KIND", "SOURCE", "REFUSED", "WHAT TO DO")
		for _, g := range check.Groups {
			t.row(fmt.Sprint(g.Events), g.Kind, g.Source, cmp.Or(g.Refused, "-"), g.whatToDo())
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	if check.Since == nil {
		fmt.Fprintln(out, "no messages to compare with")
	} else {
		fmt.Fprintf(out, "%s: %s, of %s compared from message %d (%s) to %d\n", check.File, differ(check.Differences),
			count(check.Compared, "event"), check.First, when(*check.Since), check.Last)
	}
	if check.Outside > 0 {
		fmt.Fprintf(out, "%s not compared: their messages have left the stream\n", count(check.Outside, "applied event"))
	}
	return nil
}

func differ(n int) string {
	switch n {
	case 0:
		return "no event differs"
	case 1:
		return "1 event differs"
	}
	return fmt.Sprintf("%d events differ", n)
}
