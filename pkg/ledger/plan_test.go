package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// manyEnv is how many transfers TestReadsAreIndexed has.
const manyEnv = "ONCELEDGER_TEST_TRANSFERS"

// plan is a node of what EXPLAIN says.
type plan struct {
	Node    string  `json:"Node Type"`
	Table   string  `json:"Relation Name"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []plan  `json:"Plans"`
}

// look adds up the rows of transfers that a plan has touched, and finds scans of
// the whole table.
func (p plan) look() (rows int, scans bool) {
	if p.Table == "transfers" {
		rows, scans = int((p.Rows+p.Removed)*p.Loops), p.Node == "Seq Scan"
	}
	for _, child := range p.Plans {
		r, s := child.look()
		rows, scans = rows+r, scans || s
	}
	return rows, scans
}

// explained runs each query twice, the second time to be explained.
type explained struct {
	*pgxpool.Pool
	rows  int
	scans bool
}

func (e *explained) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	var text []byte
	if err := e.QueryRow(ctx, `EXPLAIN (ANALYZE, FORMAT JSON) `+sql, args...).Scan(&text); err != nil {
		return nil, err
	}
	var plans []struct{ Plan plan }
	if err := json.Unmarshal(text, &plans); err != nil {
		return nil, err
	}
	rows, scans := plans[0].Plan.look()
	e.rows, e.scans = e.rows+rows, e.scans || scans
	return e.Pool.Query(ctx, sql, args...)
}

// fill makes a history of n transfers, one a second up to now: three of four from
// one hot account to one of 10,000 wallets, the others on to another hot account.
func fill(t testing.TB, pool *pgxpool.Pool, n int) (began time.Time) {
	t.Helper()
	began = time.Now().Add(-time.Duration(n) * time.Second).Truncate(time.Second)
	// Indexes are made afterwards: it is faster by far.
	rows, err := pool.Query(t.Context(), `
		SELECT indexname, indexdef
		FROM pg_indexes
		WHERE schemaname = current_schema() AND tablename = 'transfers' AND indexdef NOT LIKE '%UNIQUE%'`)
	require.NoError(t, err)
	var drop, create []string
	var name, definition string
	_, err = pgx.ForEachRow(rows, []any{&name, &definition}, func() error {
		drop, create = append(drop, `DROP INDEX `+name), append(create, definition)
		return nil
	})
	require.NoError(t, err)
	statements := append(drop, fmt.Sprintf(`
		INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount, created_at)
		SELECT i, 0, 'operation ' || i,
		       CASE WHEN i %% 4 = 0 THEN 'wallet:' || i * 7919 %% 10000 ELSE 'hot' END,
		       CASE WHEN i %% 4 = 0 THEN 'revenue' ELSE 'wallet:' || i * 7919 %% 10000 END,
		       'EUR', 1 + i %% 1000, timestamptz '%s' + i * interval '1 second'
		FROM generate_series(0::bigint, %d - 1) AS i`, began.Format(time.RFC3339), n))
	statements = append(statements, create...)
	pgtest.Exec(t, pool.Config().ConnString(), append(statements, `
		INSERT INTO accounts (name, asset, debits_posted, credits_posted, opened_at)
		SELECT name, 'EUR', sum(debit), sum(credit), min(at)
		FROM (
			SELECT debit AS name, amount AS debit, 0 AS credit, created_at AS at FROM transfers
			UNION ALL
			SELECT credit, 0, amount, created_at FROM transfers) AS moved
		GROUP BY name`,
		`VACUUM ANALYZE transfers`, `VACUUM ANALYZE accounts`)...)
	return began
}

// Every read takes what it needs from an index: no more than it has to, however
// many transfers there are.
func TestReadsAreIndexed(t *testing.T) {
	n := 100_000
	if text := os.Getenv(manyEnv); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	pool := openOwner(t)
	began := fill(t, pool, n)
	ctx := t.Context()
	at := func(part float64) time.Time {
		return began.Add(time.Duration(part * float64(n) * float64(time.Second)))
	}
	balance := func(account string, at time.Time) func(ledger.Querier) error {
		return func(q ledger.Querier) error {
			balances, err := ledger.BalanceAt(ctx, q, account, at)
			if err == nil {
				require.Len(t, balances, 1)
			}
			return err
		}
	}
	statement := func(s ledger.Span) func(ledger.Querier) error {
		return func(q ledger.Querier) error {
			page, err := ledger.Statement(ctx, q, s, 50)
			require.Len(t, page, 50)
			return err
		}
	}
	middle, err := ledger.Statement(ctx, pool, ledger.Span{Account: "hot", Asset: "EUR", From: at(0.5)}, 1)
	require.NoError(t, err)
	reads := []struct {
		name string
		most int // rows of transfers, in what the transfers are one of
		read func(ledger.Querier) error
	}{
		{"balance of a wallet, at half time", n/10_000 + 1, balance("wallet:77", at(0.5))},
		{"balance of the hot account, an hour ago", 3600, balance("hot", at(1).Add(-time.Hour))},
		{"balance of the hot account, an hour after its beginning", 3600, balance("hot", at(0).Add(time.Hour))},
		{"balance of the hot account, at half time", n/2 + 1, balance("hot", at(0.5))},
		{"statement of the hot account, from its beginning", 101, statement(ledger.Span{Account: "hot", Asset: "EUR"})},
		{"statement of the hot account, from half time to the end", 101, statement(ledger.Span{Account: "hot", Asset: "EUR", From: at(0.5), To: at(1)})},
		{"statement of the hot account, the next page", 101, statement(ledger.Span{Account: "hot", Asset: "EUR", After: middle[0]})},
		{"opening balance behind an entry of half time", n/2 + 1, func(q ledger.Querier) error {
			_, err := ledger.Opening(ctx, q, ledger.Span{Account: "hot", Asset: "EUR", After: middle[0]})
			return err
		}},
		{"trial balance, now", 0, func(q ledger.Querier) error {
			_, err := ledger.TrialBalance(ctx, q, time.Time{}, "")
			return err
		}},
		{"trial balance, at half time", n + n/100, func(q ledger.Querier) error {
			_, err := ledger.TrialBalance(ctx, q, at(0.5), "")
			return err
		}},
		{"trial balance, an hour ago", 2 * 3600, func(q ledger.Querier) error {
			_, err := ledger.TrialBalance(ctx, q, at(1).Add(-time.Hour), "")
			return err
		}},
		{"balances of 1,000 accounts, at half time", n + n/100, func(q ledger.Querier) error {
			page, err := ledger.BalancesAt(ctx, q, ledger.AccountFilter{Limit: 1000}, at(0.5))
			require.Len(t, page, 1000)
			return err
		}},
	}
	for _, r := range reads {
		require.NoError(t, r.read(pool)) // warm
		start := time.Now()
		require.NoError(t, r.read(pool))
		took := time.Since(start)
		e := &explained{Pool: pool}
		require.NoError(t, r.read(e))
		t.Logf("%-55s %8.1f ms, %d of %d transfers", r.name, float64(took.Microseconds())/1000, e.rows, n)
		require.False(t, e.scans, r.name)
		require.LessOrEqual(t, e.rows, r.most, r.name)
	}
	if n > 1_000_000 { // longer than a statement may take
		return
	}
	// The check sees what it must not find.
	pgtest.Exec(t, pool.Config().ConnString(), `DROP INDEX transfers_debited`, `DROP INDEX transfers_credited`)
	e := &explained{Pool: pool}
	require.NoError(t, reads[0].read(e))
	require.True(t, e.scans, "%d rows", e.rows)
}

// scans counts the whole tables that tx's session has read since its figures were last
// handed on, which may be a second ago.
func scans(t *testing.T, tx pgx.Tx) (n int) {
	t.Helper()
	require.NoError(t, tx.QueryRow(t.Context(), `
		SELECT sum(seq_scan)
		FROM pg_stat_xact_user_tables
		WHERE relid IN ('operations'::regclass, 'transfers'::regclass)`).Scan(&n))
	return n
}

// Whatever a correction looks up, of few operations or of many, is found by an index,
// with the plans that a connection keeps.
func TestCorrectionsAreIndexed(t *testing.T) {
	t.Parallel()
	pool := openOwner(t)
	for _, statement := range []string{`
		INSERT INTO operations (key, event_no, debit, credit, asset, amount, refunds)
		SELECT 'o' || i, 1000000 + i, 'customer', 'shop', 'EUR', 1000, CASE WHEN i % 4 = 0 THEN 'o' || (i - 1) END
		FROM generate_series(1, 100000) AS i`, `
		INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount)
		SELECT event_no, 0, key, debit, credit, asset, amount
		FROM operations`, `ANALYZE operations`, `ANALYZE transfers`} {
		_, err := pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for i, many := range []int{1, 1, 1, 1, 1, 1, 1, 1, 200, 200} { // Postgres keeps a plan after five
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		before := scans(t, tx)
		c := &ledger.Correction{EventNo: eventNumbers.Add(1)}
		var there []*ledger.Posting
		for n := range many {
			name := fmt.Sprintf("charge%d/%d", i, n)
			paid := event(move(name, "customer", "shop", 1000))
			there = append(there, paid, event(of(name, back("a", 10))), event(of(name, undo("u", "a", 10))))
			c.Replaces = append(c.Replaces, paid.EventNo)
			c.Transfers = append(c.Transfers, move(name, "customer", "shop", 900), of(name, back("b", 20)))
		}
		require.NoError(t, postIn(t.Context(), tx, there))
		require.NoError(t, ledger.Correct(t.Context(), tx, limits, c))
		require.Len(t, c.Reversed, many)
		require.Len(t, c.Posted, 2*many)
		refused, err := ledger.Uncorrectable(t.Context(), tx, c.Transfers)
		require.NoError(t, err)
		require.Empty(t, refused)
		require.Equal(t, before, scans(t, tx), "round %d", i)
		require.NoError(t, tx.Commit(t.Context()))
	}
}

// Whatever is looked up of refunds and their totals, and checked by the guards, is
// found by an index, with the plans that a connection keeps.
func TestRefundsAreIndexed(t *testing.T) {
	t.Parallel()
	pool := openOwner(t)
	_, err := pool.Exec(t.Context(), `
		INSERT INTO operations (key, event_no, debit, credit, asset, amount, refunds)
		SELECT 'o' || i, 1000000 + i, 'customer', 'shop', 'EUR', 1000, CASE WHEN i % 4 = 0 THEN 'o' || (i - 1) END
		FROM generate_series(1, 100000) AS i`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `ANALYZE operations`)
	require.NoError(t, err)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for i := range 8 { // Postgres keeps a plan after five
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		before := scans(t, tx)
		name := fmt.Sprint("charge", i)
		postings := []*ledger.Posting{event(move(name, "customer", "shop", 1000)), event(of(name, back("a", 10))), event(of(name, total(50))), event(of(name, undo("u", "a", 10)))}
		require.NoError(t, postIn(t.Context(), tx, postings))
		later := []*ledger.Posting{event(of(name, back("b", 10))), event(of(name, back("c", 100))), event(of(name, total(70))), event(of(name, undo("v", "b", 5)))}
		require.NoError(t, postIn(t.Context(), tx, later))
		for _, p := range append(postings, later...) {
			require.NoError(t, p.Err)
		}
		var numbers []int64
		for _, p := range postings {
			numbers = append(numbers, p.EventNo)
		}
		told, err := ledger.ToldBy(t.Context(), tx, numbers)
		require.NoError(t, err)
		require.Len(t, told, 1)
		wrong, err := ledger.WrongTotals(t.Context(), tx, []string{name, "o3", "o7"})
		require.NoError(t, err)
		require.Empty(t, wrong)
		require.Equal(t, before, scans(t, tx), "round %d", i)
		require.NoError(t, tx.Commit(t.Context()))
	}
}
