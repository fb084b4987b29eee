package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/ledger"
)

var stack *devstack.Stack

func TestMain(m *testing.M) { stacktest.Main(m, &stack, devstack.Postgres) }

// open returns a database of the test's own, with the rights of a worker.
func open(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return pgtest.Patient(t, pgtest.Migrated(t, stack.DatabaseURL), postgres.Worker)
}

// knownIn are the accounts that are known in each test's database: *ledger.Known.
var knownIn sync.Map

var eventNumbers atomic.Int64

// event is a posting of an event of its own.
func event(transfers ...ledger.Transfer) *ledger.Posting {
	return &ledger.Posting{EventNo: eventNumbers.Add(1), Transfers: transfers}
}

func move(operation, debit, credit string, amount int64) ledger.Transfer {
	return ledger.Transfer{Operation: operation, Debit: debit, Credit: credit, Asset: "EUR", Amount: amount}
}

// limits bounds accounts by what their names begin with: "wallet" and "card"
// refuse, "fact" and "claim" record, "told" and "purse" have to be opened first.
func limits(account string) (ledger.Limit, bool) {
	name := account[strings.LastIndexByte(account, '/')+1:]
	switch {
	case strings.HasPrefix(name, "wallet"):
		return ledger.Limit{Rule: ledger.DebitsMustNotExceedCredits, Enforce: true}, true
	case strings.HasPrefix(name, "card"):
		return ledger.Limit{Rule: ledger.CreditsMustNotExceedDebits, Enforce: true}, true
	case strings.HasPrefix(name, "fact"):
		return ledger.Limit{Rule: ledger.DebitsMustNotExceedCredits}, true
	case strings.HasPrefix(name, "claim"):
		return ledger.Limit{Rule: ledger.CreditsMustNotExceedDebits}, true
	case strings.HasPrefix(name, "told"):
		return ledger.Limit{Explicit: true}, true
	case strings.HasPrefix(name, "purse"):
		return ledger.Limit{Rule: ledger.DebitsMustNotExceedCredits, Enforce: true, Explicit: true}, true
	}
	return ledger.Limit{}, false
}

// post posts a batch in a transaction of its own; those of skip turn out to be
// there already.
func post(ctx context.Context, pool *pgxpool.Pool, postings []*ledger.Posting, skip ...*ledger.Posting) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return postIn(ctx, tx, postings, skip...) })
}

func postIn(ctx context.Context, tx pgx.Tx, postings []*ledger.Posting, skip ...*ledger.Posting) error {
	batch := ledger.NewBatch(limits, postings)
	known, _ := knownIn.LoadOrStore(tx.Conn().Config().ConnString(), new(ledger.Known))
	batch.Known = known.(*ledger.Known)
	var first, second pgx.Batch
	batch.Reserve(&first)
	if err := tx.SendBatch(ctx, &first).Close(); err != nil {
		return fmt.Errorf("first round trip: %w", err)
	}
	for _, p := range skip {
		batch.Skip(p)
	}
	if err := batch.Decide(ctx, tx); err != nil {
		return err
	}
	batch.Write(&second)
	if err := tx.SendBatch(ctx, &second).Close(); err != nil {
		return fmt.Errorf("second round trip: %w", err)
	}
	return nil
}

func mustPost(t testing.TB, pool *pgxpool.Pool, postings ...*ledger.Posting) {
	t.Helper()
	require.NoError(t, post(t.Context(), pool, postings))
}

// sums are both sides of an account.
type sums struct{ Debits, Credits int64 }

type account struct{ Name, Asset string }

// books is everything the ledger says, as far as names begin with prefix.
type books struct {
	Accounts   map[account]sums
	Operations map[string]ledger.Transfer
	Transfers  []ledger.Transfer
}

func readBooks(ctx context.Context, pool *pgxpool.Pool, prefix string) (books, error) {
	b := books{Accounts: map[account]sums{}, Operations: map[string]ledger.Transfer{}}
	var name, asset string
	var s sums
	rows, _ := pool.Query(ctx, `SELECT name, asset, debits_posted, credits_posted FROM accounts WHERE starts_with(name, $1)`, prefix)
	_, err := pgx.ForEachRow(rows, []any{&name, &asset, &s.Debits, &s.Credits}, func() error {
		b.Accounts[account{name, asset}] = s
		return nil
	})
	if err != nil {
		return b, err
	}
	var tr ledger.Transfer
	to := []any{&tr.Operation, &tr.Debit, &tr.Credit, &tr.Asset, &tr.Amount}
	rows, _ = pool.Query(ctx, `
		SELECT key, debit, credit, asset, amount - COALESCE(unmoved, 0)
		FROM operations
		WHERE starts_with(key, $1) AND (kind IS NULL OR kind NOT IN ('hold', 'void')) AND unmoved IS DISTINCT FROM amount`, prefix)
	if _, err = pgx.ForEachRow(rows, to, func() error { b.Operations[tr.Operation] = tr; return nil }); err != nil {
		return b, err
	}
	rows, _ = pool.Query(ctx, `
		SELECT t.operation, t.debit, t.credit, t.asset, t.amount
		FROM transfers t
		JOIN operations o ON o.key = t.operation AND o.event_no = t.event_no
		WHERE starts_with(t.operation, $1)
		ORDER BY t.event_no, t.n`, prefix)
	_, err = pgx.ForEachRow(rows, to, func() error { b.Transfers = append(b.Transfers, tr); return nil })
	return b, err
}

// check returns what is wrong with the books by themselves: a transfer without
// its operation or the reverse, a balance that is not the sum of its transfers.
func (b books) check() error {
	byOperation := map[string]bool{}
	accounts := map[account]sums{}
	for _, t := range b.Transfers {
		if byOperation[t.Operation] {
			return fmt.Errorf("operation %s has two transfers", t.Operation)
		}
		byOperation[t.Operation] = true
		if b.Operations[t.Operation] != t {
			return fmt.Errorf("transfer %+v of operation %+v", t, b.Operations[t.Operation])
		}
		debit, credit := account{t.Debit, t.Asset}, account{t.Credit, t.Asset}
		accounts[debit] = sums{accounts[debit].Debits + t.Amount, accounts[debit].Credits}
		accounts[credit] = sums{accounts[credit].Debits, accounts[credit].Credits + t.Amount}
	}
	if len(b.Operations) != len(b.Transfers) {
		return fmt.Errorf("%d operations, %d transfers", len(b.Operations), len(b.Transfers))
	}
	for k, have := range b.Accounts {
		if have != accounts[k] {
			return fmt.Errorf("account %+v: balance %+v, transfers %+v", k, have, accounts[k])
		}
		delete(accounts, k)
	}
	if len(accounts) > 0 {
		return fmt.Errorf("accounts without a row: %+v", accounts)
	}
	return nil
}

// requireBooks returns the books of a test's own database once they are sound.
func requireBooks(t testing.TB, pool *pgxpool.Pool) books {
	t.Helper()
	b, err := readBooks(t.Context(), pool, "")
	require.NoError(t, err)
	var transfers int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM transfers`).Scan(&transfers))
	require.Len(t, b.Transfers, transfers)
	require.NoError(t, b.check())
	return b
}

func (b books) balance(name string) sums { return b.Accounts[account{name, "EUR"}] }

func state(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return fmt.Sprint(err)
}

// isRefusal reports whether err says that a posting was refused.
func isRefusal(err error) bool {
	return errors.Is(err, ledger.ErrOperationConflict) || errors.Is(err, ledger.ErrInsufficientFunds) ||
		errors.Is(err, ledger.ErrMissingParent) || errors.Is(err, ledger.ErrAmountOverflow) ||
		errors.Is(err, ledger.ErrAccountUnknown) || errors.Is(err, ledger.ErrAccountFrozen) || errors.Is(err, ledger.ErrAccountClosed)
}
