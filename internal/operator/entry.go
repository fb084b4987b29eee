package operator

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// The kinds of a statement's lines. A statement has an opening line, entries, and
// a closing one: brought where it continues another, carried where entries follow
// that the limit kept out.
const (
	openingLine = "opening"
	broughtLine = "brought"
	entryLine   = "entry"
	carriedLine = "carried"
	closingLine = "closing"
)

// Entry is one line of a statement, from the account's own side. Its JSON names
// are part of the public interface; amounts are minor units.
type Entry struct {
	Kind string `json:"kind"`
	// Cursor continues a statement after this entry.
	Cursor string `json:"cursor,omitempty"`
	// At bounds an opening or closing line, if the statement is bounded.
	At     time.Time `json:"at,omitzero"`
	Posted time.Time `json:"posted_at,omitzero"`
	// Occurred is the time that the provider gives the event; recorded time orders.
	Occurred time.Time `json:"occurred_at,omitzero"`
	Account  string    `json:"account"`
	Side     string    `json:"side,omitempty"` // debit or credit
	Other    string    `json:"counter_account,omitempty"`
	Asset    string    `json:"asset"`
	Minor    int64     `json:"amount_minor,omitempty"`
	// Balance is what the account has behind this line: credits less debits.
	Balance   int64  `json:"balance_minor"`
	Exponent  int    `json:"exponent"`
	Operation string `json:"operation,omitempty"`
	// Reverses is the cursor of the entry that this one takes back.
	Reverses string `json:"reverses,omitempty"`
	Source   string `json:"source,omitempty"`
	EventID  string `json:"event_id,omitempty"`
	// Final is of a closing line at an instant: whether nothing recorded before it
	// may still be added.
	Final *bool `json:"final,omitempty"`
}

var statementForm = form{
	columns: []string{"POSTED", "DEBIT", "CREDIT", "BALANCE", "COUNTER ACCOUNT", "OPERATION", "SOURCE", "EVENT"},
	numbers: []int{1, 2, 3},
	header: []string{
		"kind", "time", "account", "asset", "exponent", "debit_minor", "credit_minor", "balance_minor", "debit", "credit", "balance",
		"counter_account", "operation", "reverses", "source", "event_id", "cursor", "final", "occurred_at",
	},
}

// sides are the amount in the column of its side, in minor and in major units.
func (e *Entry) sides() (minor, major [2]string) {
	if e.Kind == entryLine {
		side := 0
		if e.Side == "credit" {
			side = 1
		}
		minor[side], major[side] = strconv.FormatInt(e.Minor, 10), ledger.FormatMinor(e.Minor, e.Exponent)
	}
	return minor, major
}

func (e *Entry) cells() []string {
	posted, name := when(e.Posted), ledger.FormatKey(e.Operation)
	switch e.Kind {
	case openingLine:
		posted = "opening balance"
	case broughtLine:
		posted = "brought forward"
	case carriedLine:
		posted = "carried forward"
	case closingLine:
		posted = "closing balance"
	}
	if e.Reverses != "" {
		name += " (reversal)"
	}
	_, major := e.sides()
	return []string{posted, major[0], major[1], ledger.FormatMinor(e.Balance, e.Exponent), e.Other, name, e.Source, e.EventID}
}

func (e *Entry) record() []string {
	minor, major := e.sides()
	at, final := e.Posted, ""
	if e.Kind != entryLine {
		at = e.At
	}
	if e.Final != nil {
		final = strconv.FormatBool(*e.Final)
	}
	return []string{
		e.Kind, stamp(at), outside(e.Account), e.Asset, strconv.Itoa(e.Exponent),
		minor[0], minor[1], strconv.FormatInt(e.Balance, 10), major[0], major[1], ledger.FormatMinor(e.Balance, e.Exponent),
		outside(e.Other), outside(ledger.FormatKey(e.Operation)), e.Reverses, outside(e.Source), outside(e.EventID), e.Cursor, final, stamp(e.Occurred),
	}
}

// entryOf is an entry with the balance behind it.
func entryOf(e *ledger.Entry, b *ledger.Balance) *Entry {
	entry := &Entry{
		Kind: entryLine, Cursor: cursor(e.EventNo, e.N), Posted: e.Posted.UTC(), Account: b.Account, Side: "debit", Other: e.Credit,
		Asset: e.Asset, Minor: e.Amount, Balance: b.Net(), Exponent: b.Exponent, Operation: e.Operation,
	}
	if e.Credit == b.Account {
		entry.Side, entry.Other = "credit", e.Debit
	}
	if e.Reverses != nil {
		entry.Reverses = cursor(e.EventNo, *e.Reverses)
	}
	return entry
}

// cursor names an entry.
func cursor(event int64, n int16) string { return fmt.Sprintf("%d.%d", event, n) }

// parseCursor returns the entry that a cursor names, as far as it says; nil for
// none.
func parseCursor(text string) (*ledger.Entry, error) {
	if text == "" {
		return nil, nil
	}
	event, n, _ := strings.Cut(text, ".")
	no, err := strconv.ParseInt(event, 10, 64)
	if err == nil {
		var place int64
		if place, err = strconv.ParseInt(n, 10, 16); err == nil {
			return &ledger.Entry{EventNo: no, N: int16(place)}, nil
		}
	}
	return nil, exit.Usagef("--after %q is not a cursor, as in 1234.0", text)
}

// entryAt reads the entry that a cursor names, which must be of the account.
func entryAt(ctx context.Context, q ledger.Querier, named *ledger.Entry, account *ledger.Account) (*ledger.Entry, error) {
	posted, err := ledger.Posted(ctx, q, []int64{named.EventNo})
	if err != nil {
		return nil, err
	}
	for _, e := range posted[named.EventNo] {
		if e.N == named.N && e.Asset == account.Code && (e.Debit == account.Name || e.Credit == account.Name) {
			return e, nil
		}
	}
	return nil, exit.Usagef("--after %s is no entry of account %s in %s; take the cursor from a statement of it",
		cursor(named.EventNo, named.N), account.Name, account.Code)
}
