package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
)

func TestOnlyTheInsertingTransactionRewritesItsRows(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t, book(t), postgres.Worker)
	insert := func(t *testing.T, tx pgx.Tx) {
		_, err := tx.Exec(t.Context(), insertEvent, 10, "new", "completed", "applied", nil)
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `INSERT INTO operations VALUES ('new', 10, 'a', 'b', 'EUR', 5)`)
		require.NoError(t, err)
	}
	rewrite := []string{
		`UPDATE events SET outcome = 'ignored' WHERE no = 10`,
		`UPDATE events SET state = 'failed', outcome = NULL, reason = 'rule_error' WHERE no = 10`, // twice in one transaction
		`UPDATE events SET state = 'completed', outcome = 'applied', reason = NULL WHERE no = 10`,
		`UPDATE operations SET amount = 6 WHERE key = 'new'`,
		`DELETE FROM operations WHERE key = 'new'`,
		`INSERT INTO operations VALUES ('new', 10, 'a', 'b', 'EUR', 7)`,
		`INSERT INTO holds (key) VALUES ('new')`,
		`DELETE FROM holds WHERE key = 'new'`,
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	insert(t, tx)
	for _, statement := range rewrite {
		_, err := tx.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	require.NoError(t, tx.Commit(t.Context()))
	for _, statement := range rewrite[:5] {
		_, err := pool.Exec(t.Context(), statement)
		requireState(t, err, "23001")
	}

	// A transaction that completes a row it did not insert is not the inserting one.
	tx, err = pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `SELECT FROM events WHERE no = 1 FOR UPDATE`) // a lock makes no row its own
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `UPDATE events SET outcome = 'ignored' WHERE no = 1`)
	requireState(t, err, "23001")
}

func TestTheDatabaseRefusesRowsThatMeanNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t, book(t), postgres.Worker)
	event := func(args ...any) []any { return append([]any{insertEvent}, args...) }
	statement := func(sql string) []any { return []any{sql} }
	for outcome, c := range map[string][]any{
		"completed without an outcome":    event(10, "x", "completed", nil, nil),
		"completed with an odd outcome":   event(10, "x", "completed", "perhaps", nil),
		"failed with an outcome":          event(10, "x", "failed", "applied", "bad_json"),
		"failed without a reason":         event(10, "x", "failed", nil, nil),
		"an odd state":                    event(10, "x", "done", nil, nil),
		"a negative number":               event(-1, "x", "pending", nil, nil),
		"a number twice":                  event(1, "x", "pending", nil, nil),
		"a letter of an event in process": statement(`UPDATE events SET state = 'processing', dlq_seq = 1 WHERE no = 3`),
		"an odd variant":                  statement(strings.Replace(copyEvent, "'copy', variant", "'copy', 'v'", 1)),
		"money for nothing":               statement(`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount) VALUES (9, 0, 'op', 'a', 'b', 'EUR', 0)`),
		"money backwards":                 statement(`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount) VALUES (9, 0, 'op', 'a', 'b', 'EUR', -1)`),
		"money in a circle":               statement(`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount) VALUES (9, 0, 'op', 'a', 'a', 'EUR', 1)`),
		"a transfer twice":                statement(`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount) VALUES (1, 0, 'op', 'a', 'b', 'EUR', 5)`),
		"an operation twice":              statement(`INSERT INTO operations VALUES ('op', 2, 'a', 'b', 'EUR', 5)`),
		"an operation for nothing":        statement(`INSERT INTO operations VALUES ('op2', 2, 'a', 'b', 'EUR', 0)`),
		"a hold for nothing":              statement(`INSERT INTO operations (key, event_no, debit, credit, asset, amount, kind) VALUES ('h', 2, 'a', 'b', 'EUR', 0, 'hold')`),
		"a void of something":             statement(`INSERT INTO operations (key, event_no, debit, credit, asset, amount, kind, hold) VALUES ('v', 2, '', '', '', 5, 'void', 'hold')`),
		"a void of no hold":               statement(`INSERT INTO operations (key, event_no, debit, credit, asset, amount, kind) VALUES ('v', 2, '', '', '', 0, 'void')`),
		"a capture of no hold":            statement(`INSERT INTO operations (key, event_no, debit, credit, asset, amount, kind) VALUES ('c', 2, 'a', 'b', 'EUR', 5, 'capture')`),
		"a hold of a hold":                statement(`INSERT INTO operations (key, event_no, debit, credit, asset, amount, kind, hold) VALUES ('h', 2, 'a', 'b', 'EUR', 5, 'hold', 'hold')`),
		"a hold without a kind":           statement(`INSERT INTO operations (key, event_no, debit, credit, asset, amount, hold) VALUES ('h', 2, 'a', 'b', 'EUR', 5, 'hold')`),
		"a total of nothing":              statement(`INSERT INTO operations (key, event_no, debit, credit, asset, amount, kind) VALUES ('t', 2, 'a', 'b', 'EUR', 5, 'total')`),
		"a total of a hold":               statement(`INSERT INTO operations (key, event_no, debit, credit, asset, amount, kind, refunds, hold) VALUES ('t', 2, 'a', 'b', 'EUR', 5, 'total', 'op', 'hold')`),
		"more unmoved than there is":      statement(`INSERT INTO operations (key, event_no, debit, credit, asset, amount, refunds, unmoved) VALUES ('r', 2, 'a', 'b', 'EUR', 5, 'op', 6)`),
		"nothing unmoved":                 statement(`INSERT INTO operations (key, event_no, debit, credit, asset, amount, refunds, unmoved) VALUES ('r', 2, 'a', 'b', 'EUR', 5, 'op', 0)`),
		"unmoved and no refund":           statement(`INSERT INTO operations (key, event_no, debit, credit, asset, amount, unmoved) VALUES ('r', 2, 'a', 'b', 'EUR', 5, 5)`),
		"a total that is nothing": statement(`INSERT INTO operations (key, event_no, debit, credit, asset, amount, refunds, kind) VALUES ('t', 9, 'b', 'a', 'EUR', 5, 'shop', 'total');
			INSERT INTO totals VALUES ('shop', 0)`),
		"an odd kind":                statement(`INSERT INTO operations (key, event_no, debit, credit, asset, amount, kind, hold) VALUES ('h', 2, 'a', 'b', 'EUR', 5, 'release', 'hold')`),
		"a hold in part":             statement(`UPDATE holds SET amount = 5 WHERE key = 'early'`),
		"a hold in a circle":         statement(`UPDATE holds SET event_no = 1, debit = 'a', credit = 'a', amount = 5, expires_at = now() WHERE key = 'early'`),
		"a hold that ended oddly":    statement(`UPDATE holds SET closed = 'lost' WHERE key = 'hold'`),
		"more uncovered than moved":  statement(`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount, uncovered) VALUES (1, 7, 'fact', 'a', 'b', 'EUR', 5, 6)`),
		"nothing uncovered":          statement(`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount, uncovered) VALUES (1, 7, 'fact', 'a', 'b', 'EUR', 5, 0)`),
		"a limit that is passed":     statement(`UPDATE accounts SET debits_posted = debits_posted + 1 WHERE name = 'c'`),
		"a limit that a hold passes": statement(`UPDATE accounts SET debits_pending = 1 WHERE name = 'c'`),
		"a limit without a policy":   statement(`INSERT INTO accounts (name, asset, balance_limit) VALUES ('z', 'EUR', 'debits_must_not_exceed_credits')`),
		"a policy without a limit":   statement(`INSERT INTO accounts (name, asset, limit_policy) VALUES ('z', 'EUR', 'enforce')`),
		"an odd limit":               statement(`INSERT INTO accounts (name, asset, balance_limit, limit_policy) VALUES ('z', 'EUR', 'none', 'enforce')`),
		"an account opened twice":    statement(`INSERT INTO accounts (name, asset) VALUES ('a', 'EUR')`),
		"an exponent beyond 64 bits": statement(`INSERT INTO assets VALUES ('BIG', 19)`),
	} {
		_, err := pool.Exec(t.Context(), c[0].(string), c[1:]...)
		require.Error(t, err, outcome)
		require.Contains(t, []string{"23514", "23505"}, stateOf(err), "%s: %v", outcome, err)
	}
	_, err := pool.Exec(t.Context(), copyEvent)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `UPDATE accounts SET credits_posted = credits_posted + 9223372036854775807`)
	requireState(t, err, "22003")
}
