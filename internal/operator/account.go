package operator

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// accountsPage is how many accounts are read at a time.
const accountsPage = 1000

// Account is one account in one asset. Its JSON names are part of the public
// interface; amounts are minor units.
type Account struct {
	Account        string    `json:"account"`
	Asset          string    `json:"asset"`
	Exponent       int       `json:"exponent"`
	Balance        int64     `json:"balance_minor"`
	DebitsPosted   int64     `json:"debits_posted_minor"`
	CreditsPosted  int64     `json:"credits_posted_minor"`
	DebitsPending  int64     `json:"debits_pending_minor"`
	CreditsPending int64     `json:"credits_pending_minor"`
	Limit          string    `json:"limit,omitempty"`
	Policy         string    `json:"policy,omitempty"`
	Overdrawn      bool      `json:"overdrawn"`
	Opened         time.Time `json:"opened_at"`
	// State is open, frozen or closed; Metadata what operators have noted.
	State    string            `json:"state"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// History is what they did to the account; of a single one.
	History []Action `json:"history,omitempty"`
}

func accountOf(a *ledger.Account) Account {
	out := Account{
		Account: a.Name, Asset: a.Code, Exponent: a.Exponent, Balance: a.Balance(),
		DebitsPosted: a.DebitsPosted, CreditsPosted: a.CreditsPosted,
		DebitsPending: a.DebitsPending, CreditsPending: a.CreditsPending,
		Overdrawn: a.Overdrawn(), Opened: a.Opened.UTC(), State: string(a.State), Metadata: a.Metadata,
	}
	if a.Limit != nil {
		out.Limit, out.Policy = string(a.Limit.Rule), "record"
		if a.Limit.Enforce {
			out.Policy = "enforce"
		}
	}
	return out
}

func (a *Account) major(minor int64) string { return ledger.FormatMinor(minor, a.Exponent) }

// limit is the limit as a cell: what it is, and whether it is passed.
func (a *Account) limit() string {
	switch {
	case a.Limit == "":
		return "-"
	case a.Overdrawn:
		return a.Limit + " (" + a.Policy + ", OVERDRAWN)"
	}
	return a.Limit + " (" + a.Policy + ")"
}

// accountTable prints accounts as they come, aligned a page at a time.
type accountTable struct {
	s *Session
	*table
	n       int
	history []accountAction
}

func newAccountTable(s *Session) *accountTable {
	return &accountTable{s: s, table: newTable(s.Out, "ACCOUNT", "ASSET", "BALANCE", "DEBITS", "CREDITS", "LIMIT", "STATE")}
}

func (t *accountTable) print(a *ledger.Account) error {
	account := accountOf(a)
	t.n++
	if t.s.JSON {
		account.History = actionsOn(t.history, account.Asset)
		return t.s.object(account)
	}
	t.row(account.Account, account.Asset, account.major(account.Balance),
		account.major(account.DebitsPosted), account.major(account.CreditsPosted), account.limit(), account.State)
	return nil
}

func (t *accountTable) flush() error {
	switch {
	case t.s.JSON:
		return nil
	case t.n == 0:
		fmt.Fprintln(t.s.Out, "no such accounts: they open with their first transfer, or with onceledger account open")
		return nil
	}
	return t.table.flush()
}

// ListAccounts prints the accounts whose name begins with prefix, in one asset
// or all, and in one state or any.
func ListAccounts(ctx context.Context, s *Session, prefix, asset, state string) error {
	if err := checkState(state); err != nil {
		return err
	}
	pool, err := s.Database(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	t := newAccountTable(s)
	filter := ledger.AccountFilter{Prefix: prefix, Asset: asset, State: ledger.State(state), Limit: accountsPage}
	for {
		page, err := ledger.Accounts(ctx, pool, filter)
		if err != nil {
			return err
		}
		for _, a := range page {
			if err := t.print(a); err != nil {
				return err
			}
		}
		if err := t.flush(); err != nil {
			return err
		}
		if len(page) < accountsPage {
			return nil
		}
		last := page[len(page)-1]
		filter.AfterName, filter.AfterAsset = last.Name, last.Code
	}
}

// ShowBalance prints one account in all its assets.
func ShowBalance(ctx context.Context, s *Session, name string) error {
	pool, err := s.Database(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	accounts, err := ledger.Balances(ctx, pool, name)
	if err != nil {
		return err
	}
	if len(accounts) == 0 {
		return noAccount(name)
	}
	t := newAccountTable(s)
	if t.history, err = readHistory(ctx, pool, name); err != nil {
		return err
	}
	for _, a := range accounts {
		if err := t.print(a); err != nil {
			return err
		}
	}
	if err := t.flush(); err != nil || s.JSON {
		return err
	}
	return s.printNotes(accounts, t.history)
}

func noAccount(name string) error {
	return fmt.Errorf("account %s is not there: accounts open with their first transfer, or with onceledger account open; see: onceledger account list", name)
}

// Entry is one line of a statement, from the account's own side.
type Entry struct {
	// Cursor continues a statement after this entry.
	Cursor    string    `json:"cursor"`
	Posted    time.Time `json:"posted_at"`
	Side      string    `json:"side"` // debit or credit
	Other     string    `json:"counter_account"`
	Asset     string    `json:"asset"`
	Minor     int64     `json:"amount_minor"`
	Exponent  int       `json:"exponent"`
	Operation string    `json:"operation"`
	Source    string    `json:"source,omitempty"`
	EventID   string    `json:"event_id,omitempty"`
}

// ShowStatement prints up to limit entries of an account, after the entry that a
// cursor names. Empty asset means the account's only one.
func ShowStatement(ctx context.Context, s *Session, name, asset, cursor string, limit int) error {
	after, err := parseCursor(cursor)
	if err != nil {
		return err
	}
	pool, err := s.Database(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	accounts, err := ledger.Balances(ctx, pool, name)
	if err != nil {
		return err
	}
	account, err := one(accounts, name, asset)
	if err != nil {
		return err
	}
	// One more than asked for says whether there is more.
	page, err := ledger.Statement(ctx, pool, name, account.Code, after, limit+1)
	if err != nil {
		return err
	}
	more := len(page) > limit
	page = page[:min(len(page), limit)]
	numbers := make([]int64, len(page))
	for i, e := range page {
		numbers[i] = e.EventNo
	}
	events, err := dedupe.Numbered(ctx, pool, numbers)
	if err != nil {
		return err
	}
	entries := make([]Entry, len(page))
	for i, e := range page {
		entries[i] = entryOf(e, account)
		if event := events[e.EventNo]; event != nil {
			entries[i].Source, entries[i].EventID = event.Source, event.ID
		}
	}
	return printStatement(s, accountOf(account), entries, more)
}

// one picks the account in the asset that was asked for.
func one(accounts []*ledger.Account, name, asset string) (*ledger.Account, error) {
	if len(accounts) == 0 {
		return nil, noAccount(name)
	}
	if asset == "" && len(accounts) == 1 {
		return accounts[0], nil
	}
	codes := make([]string, len(accounts))
	for i, a := range accounts {
		if a.Code == asset {
			return a, nil
		}
		codes[i] = a.Code
	}
	if asset != "" {
		return nil, fmt.Errorf("account %s has no %s; it has %s", name, asset, strings.Join(codes, ", "))
	}
	return nil, exit.Usagef("account %s has %s; choose one with --asset", name, strings.Join(codes, ", "))
}

func entryOf(e *ledger.Entry, account *ledger.Account) Entry {
	entry := Entry{
		Cursor: fmt.Sprintf("%d.%d", e.EventNo, e.N), Posted: e.Posted.UTC(), Side: "debit", Other: e.Credit,
		Asset: e.Asset, Minor: e.Amount, Exponent: account.Exponent, Operation: e.Operation,
	}
	if e.Credit == account.Name {
		entry.Side, entry.Other = "credit", e.Debit
	}
	return entry
}

func printStatement(s *Session, account Account, entries []Entry, more bool) error {
	if s.JSON {
		for _, e := range entries {
			if err := s.object(e); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Fprintf(s.Out, "%s: balance %s %s\n\n", printable(account.Account), account.major(account.Balance), account.Asset)
	if len(entries) == 0 {
		fmt.Fprintln(s.Out, "no entries here")
		return nil
	}
	t := newTable(s.Out, "POSTED", "DEBIT", "CREDIT", "COUNTER ACCOUNT", "OPERATION", "SOURCE", "EVENT")
	for _, e := range entries {
		debit, credit := account.major(e.Minor), ""
		if e.Side == "credit" {
			debit, credit = "", debit
		}
		t.row(when(e.Posted), debit, credit, e.Other, operation(e.Operation), e.Source, e.EventID)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if more {
		fmt.Fprintf(s.Out, "\nmore: add --after %s\n", entries[len(entries)-1].Cursor)
	}
	return nil
}

func parseCursor(text string) (ledger.Entry, error) {
	if text == "" {
		return ledger.Entry{EventNo: -1}, nil
	}
	event, n, _ := strings.Cut(text, ".")
	no, err := strconv.ParseInt(event, 10, 64)
	if err == nil {
		var place int64
		if place, err = strconv.ParseInt(n, 10, 16); err == nil {
			return ledger.Entry{EventNo: no, N: int16(place)}, nil
		}
	}
	return ledger.Entry{}, exit.Usagef("--after %q is not a cursor, as in 1234.0", text)
}
