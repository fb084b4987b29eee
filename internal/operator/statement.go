package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// statementPage is how many entries are read at a time.
const statementPage = 1000

// StatementQuery says which part of which statement to print.
type StatementQuery struct {
	Account string
	// Asset may be empty where the account has one only.
	Asset string
	// From and To bound the recorded time, To excluded; zero is no bound.
	From, To time.Time
	// After is the cursor of the entry to continue behind; empty begins with From.
	After string
	// Limit bounds the entries; 0 is no bound.
	Limit int
}

// statement prints one, a page of entries at a time.
type statement struct {
	pool    *pgxpool.Pool
	query   StatementQuery
	span    ledger.Span
	running *ledger.Balance
	out     *lines
}

// ShowStatement prints what an account had, what moved it and what it has behind
// each entry.
func ShowStatement(ctx context.Context, s *Session, q StatementQuery) error {
	out, err := newLines(s, statementForm)
	if err != nil {
		return err
	}
	after, err := parseCursor(q.After)
	if err != nil {
		return err
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		return exit.Usagef("--from %s is not before --to %s, which is not included", stamp(q.From), stamp(q.To))
	}
	pool, err := s.Database(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	accounts, err := ledger.Balances(ctx, pool, q.Account)
	if err != nil {
		return err
	}
	account, err := one(accounts, q.Account, q.Asset)
	if err != nil {
		return err
	}
	st := &statement{pool: pool, query: q, out: out, span: ledger.Span{Account: account.Name, Asset: account.Code, From: q.From, To: q.To}}
	if after != nil {
		if st.span.After, err = entryAt(ctx, pool, after, account); err != nil {
			return err
		}
		if !q.To.IsZero() && !st.span.After.Posted.Before(q.To) {
			return exit.Usagef("--after %s was recorded at %s, not before --to %s", q.After, stamp(st.span.After.Posted), stamp(q.To))
		}
	}
	return st.show(ctx)
}

func (st *statement) show(ctx context.Context) error {
	var final *bool
	if !st.query.To.IsZero() {
		settled, err := settle(ctx, st.pool, st.query.To)
		if err != nil {
			return err
		}
		final = &settled
	}
	continued := st.span.After != nil && !st.span.After.Posted.Before(st.query.From)
	page, more, err := st.begin(ctx)
	if err != nil {
		return err
	}
	first := st.bound(openingLine, st.query.From)
	if continued {
		first = st.bound(broughtLine, time.Time{})
	}
	st.head()
	if err := st.out.print(first); err != nil {
		return err
	}
	printed := 0
	for {
		if err := st.print(ctx, page); err != nil {
			return err
		}
		printed += len(page)
		if !more || st.query.Limit > 0 && printed >= st.query.Limit {
			break
		}
		if page, more, err = st.page(ctx, st.pool, printed); err != nil {
			return err
		}
	}
	return st.end(more, final)
}

// begin reads the opening balance and the first entries, in one snapshot.
func (st *statement) begin(ctx context.Context) (page []*ledger.Entry, more bool, err error) {
	err = patiently(ctx, st.pool, func(tx pgx.Tx) error {
		if st.running, err = ledger.Opening(ctx, tx, st.span); err != nil {
			return err
		}
		if st.running == nil {
			return noAccount(st.query.Account)
		}
		page, more, err = st.page(ctx, tx, 0)
		return err
	})
	return page, more, err
}

// page reads the next entries and whether more follow; the span moves behind them.
func (st *statement) page(ctx context.Context, q ledger.Querier, printed int) (page []*ledger.Entry, more bool, err error) {
	size := statementPage
	if st.query.Limit > 0 {
		size = min(size, st.query.Limit-printed)
	}
	page, err = ledger.Statement(ctx, q, st.span, size+1)
	if len(page) > size {
		page, more = page[:size], true
	}
	if len(page) > 0 {
		st.span.After = page[len(page)-1]
	}
	return page, more, err
}

func (st *statement) print(ctx context.Context, page []*ledger.Entry) error {
	numbers := make([]int64, len(page))
	for i, e := range page {
		numbers[i] = e.EventNo
	}
	events, err := dedupe.Numbered(ctx, st.pool, numbers)
	if err != nil {
		return err
	}
	for _, e := range page {
		if err := st.running.Add(e); err != nil {
			return fmt.Errorf("%w; see: onceledger audit", err)
		}
		entry := entryOf(e, st.running)
		if event := events[e.EventNo]; event != nil {
			entry.Source, entry.EventID, entry.Occurred = event.Source, event.ID, event.Occurred.UTC()
		}
		if err := st.out.print(entry); err != nil {
			return err
		}
	}
	if len(page) < statementPage { // the last page is aligned with its closing line
		return nil
	}
	return st.out.flush()
}

// head names the statement above a table.
func (st *statement) head() {
	if !st.out.table() {
		return
	}
	text := printable(st.span.Account) + " in " + st.span.Asset
	if !st.query.From.IsZero() {
		text += " from " + when(st.query.From)
	}
	if !st.query.To.IsZero() {
		text += " to " + when(st.query.To)
	}
	fmt.Fprintf(st.out.s.Out, "%s\n\n", text)
}

// end prints the closing line, or how to go on.
func (st *statement) end(more bool, final *bool) error {
	last := st.bound(closingLine, st.query.To)
	last.Final = final
	if more {
		last = st.bound(carriedLine, time.Time{})
		last.Cursor = cursor(st.span.After.EventNo, st.span.After.N)
	}
	if err := st.out.print(last); err != nil {
		return err
	}
	if err := st.out.flush(); err != nil {
		return err
	}
	switch {
	case more && st.out.table():
		fmt.Fprintf(st.out.s.Out, "\nmore: add --after %s\n", last.Cursor)
	case !more && final != nil:
		return st.out.unsettled(*final, st.query.To)
	}
	return nil
}

// bound is an opening or closing line.
func (st *statement) bound(kind string, at time.Time) *Entry {
	b := st.running
	return &Entry{Kind: kind, At: at.UTC(), Account: b.Account, Asset: b.Code, Exponent: b.Exponent, Balance: b.Net()}
}

// one picks the account in the asset that was asked for.
func one(accounts []*ledger.Account, name, asset string) (*ledger.Account, error) {
	asset = assetCode(asset)
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
