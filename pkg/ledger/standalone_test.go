package ledger_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// program is one that knows nothing of onceledger but this package: it has a pool
// and settings of its own, and runs the migrations by itself.
type program struct {
	pool   *pgxpool.Pool
	events atomic.Int64
}

// connections is how many of them post at the same time.
const connections = 16

func newProgram(t *testing.T) *program {
	t.Helper()
	url := pgtest.Schema(t, stack.DatabaseURL)
	require.NoError(t, migrate(t.Context(), url))
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	cfg.MaxConns = connections
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return &program{pool: pool}
}

// migrate is what ExampleMigrations shows.
func migrate(ctx context.Context, url string) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, ledger.Migrations())
	if err == nil {
		_, err = provider.Up(ctx)
	}
	return errors.Join(err, db.Close())
}

// post posts one event, again where the package's documentation says so.
func (p *program) post(ctx context.Context, conn *pgxpool.Conn, transfers ...ledger.Transfer) (*ledger.Posting, error) {
	posting := &ledger.Posting{EventNo: p.events.Add(1), Transfers: transfers}
	for {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return ledger.Post(ctx, tx, limits, posting) })
		var pg *pgconn.PgError
		if errors.Is(err, ledger.ErrRace) || errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01") {
			continue
		}
		return posting, err
	}
}

// Case 23: another program posts by this package alone. From 16 connections, each in
// an order of its own, come the same payments, refunds of them for which there is not
// room, spends of a wallet that has not room for all, and payments of another amount.
func TestAnotherProgramHasTheSameGuarantees(t *testing.T) {
	t.Parallel()
	const payments, refunds, spends, funds = 8, 15, 40, 30
	p := newProgram(t)
	var all []ledger.Transfer // refunds next to each other, so that they meet
	for n := range payments {
		charge := ledger.Transfer{Operation: ledger.OperationKey("shop", "", "", "charge", fmt.Sprint(n)), Debit: "bank", Credit: "shop", Asset: "EUR", Amount: 100}
		all = append(all, charge)
		for i := range refunds { // of 30 each: three have room, in whatever order they come
			all = append(all, ledger.Transfer{Operation: ledger.OperationKey("shop", "", "", "refund", fmt.Sprint(n), fmt.Sprint(i)), Debit: "shop", Credit: "bank",
				Asset: "EUR", Amount: 30, Parent: charge.Operation, Refund: true})
		}
	}
	for n := range spends {
		all = append(all, ledger.Transfer{Operation: fmt.Sprint("spend ", n), Debit: "wallet:ann", Credit: "shop", Asset: "GEMS", Amount: 1})
	}
	p.as(t, func(conn *pgxpool.Conn) error {
		err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			return ledger.DeclareAssets(t.Context(), tx, []ledger.Asset{{Code: "GEMS"}})
		})
		require.NoError(t, err)
		_, err = p.post(t.Context(), conn, ledger.Transfer{Operation: "fund", Debit: "mint", Credit: "wallet:ann", Asset: "GEMS", Amount: funds})
		return err
	})

	var posted atomic.Int64
	try := func(conn *pgxpool.Conn, transfers []ledger.Transfer) error {
		for _, transfer := range transfers {
			posting, err := p.post(t.Context(), conn, transfer)
			if err != nil || posting.Err != nil && !isRefusal(posting.Err) && !errors.Is(posting.Err, ledger.ErrOverRefund) {
				return errors.Join(err, posting.Err)
			}
			posted.Add(int64(len(posting.Posted)))
			if transfer.Parent != "" || posting.Err != nil {
				continue
			}
			transfer.Amount++
			if other, err := p.post(t.Context(), conn, transfer); err != nil || !errors.Is(other.Err, ledger.ErrOperationConflict) {
				return fmt.Errorf("another amount: %w", errors.Join(err, other.Err))
			}
		}
		return nil
	}
	var group errgroup.Group
	var held sync.WaitGroup
	held.Add(connections)
	for n := range uint64(connections) {
		order, random := slices.Clone(all), rand.New(rand.NewPCG(n, 23))
		for part := range slices.Chunk(order, 1+refunds) {
			random.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
		}
		group.Go(func() error {
			conn, err := p.pool.Acquire(t.Context())
			held.Done()
			if err != nil {
				return err
			}
			defer conn.Release()
			held.Wait() // so that each has one of its own
			return try(conn, order)
		})
	}
	require.NoError(t, group.Wait())
	require.EqualValues(t, connections, p.pool.Stat().TotalConns())
	p.as(t, func(conn *pgxpool.Conn) error { return try(conn, all) }) // what was refused for want of its payment

	require.EqualValues(t, payments+3*payments+funds, posted.Load(), "each once, as far as there is room")
	books := requireBooks(t, p.pool) // each operation has one transfer, each balance is their sum
	require.Equal(t, sums{Debits: 90 * payments, Credits: 100 * payments}, books.balance("shop"))
	require.Equal(t, sums{Debits: funds, Credits: funds}, books.Accounts[account{"wallet:ann", "GEMS"}])
	totals, err := ledger.TrialBalance(t.Context(), p.pool, time.Time{}, "")
	require.NoError(t, err)
	require.Len(t, totals, 2)
	for _, total := range totals {
		require.True(t, total.Equal(), total.Code)
	}
	_, err = p.pool.Exec(t.Context(), `UPDATE transfers SET amount = 1`)
	require.Equal(t, "23001", state(err), "nor can its owner rewrite it")
}

// as does something on one connection.
func (p *program) as(t *testing.T, do func(*pgxpool.Conn) error) {
	t.Helper()
	require.NoError(t, p.pool.AcquireFunc(t.Context(), do))
}

// A program of one's own keeps its books in a schema of its own.
func ExampleMigrations() {
	ctx := context.Background()
	url := "postgres://localhost/books?search_path=books"
	db, err := sql.Open("pgx", url)
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, ledger.Migrations())
	if err != nil {
		panic(err)
	}
	if _, err := provider.Up(ctx); err != nil {
		panic(err)
	}
}

// Of two programs that post one payment, the second finds it there, whichever
// comes first: they name it alike.
func ExampleOperationKey() {
	fmt.Println(ledger.OperationKey("stripe", "", "live", "charge", "ch_1"))
	// Output: 6:stripe,0:,4:live,6:charge,4:ch_1,
}

func ExampleFormatKey() {
	fmt.Println(ledger.FormatKey(ledger.OperationKey("stripe", "", "live", "charge", "ch_1")))
	fmt.Println(ledger.FormatKey("a key of another program"))
	// Output:
	// stripe/live/charge/ch_1
	// a key of another program
}
