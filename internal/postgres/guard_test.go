package postgres_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
)

// insertEvent inserts an event; its arguments are number, id, state, outcome and reason.
const insertEvent = `
	INSERT INTO events (no, source, event_id, variant, state, outcome, reason, type, occurred_at,
	                    body_hash, fingerprint, rules_version, stream_created, seq)
	VALUES ($1, 's', $2, '', $3, $4, $5, 't', now(), decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'), 1, now(), 1)`

// copyEvent inserts event 3 once more, as number 10.
const copyEvent = `
	INSERT INTO events (no, source, event_id, variant, state, type, occurred_at, body_hash, fingerprint, rules_version, stream_created, seq)
	SELECT 10, source, 'copy', variant, state, type, occurred_at, body_hash, fingerprint, rules_version, stream_created, seq
	FROM events
	WHERE no = 3`

// book returns the URL of a schema with one of everything, committed.
func book(t *testing.T) string {
	t.Helper()
	url := pgtest.Migrated(t, stack.DatabaseURL)
	worker := pgtest.Open(t, url, postgres.Worker)
	for _, event := range [][]any{
		{1, "done", "completed", "applied", nil},
		{2, "parked", "failed", nil, "bad_json"},
		{3, "waiting", "pending", nil, nil},
		{4, "ignored", "completed", "ignored", nil},
	} {
		_, err := worker.Exec(t.Context(), insertEvent, event...)
		require.NoError(t, err)
	}
	for _, statement := range []string{
		`INSERT INTO assets VALUES ('GEMS', 0)`,
		`INSERT INTO operations VALUES ('op', 1, 'a', 'b', 'EUR', 5)`,
		`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount) VALUES (1, 0, 'op', 'a', 'b', 'EUR', 5)`,
		`INSERT INTO accounts (name, asset, debits_posted, balance_limit, limit_policy) VALUES ('a', 'EUR', 5, 'debits_must_not_exceed_credits', 'record')`,
		`INSERT INTO accounts (name, asset, credits_posted) VALUES ('b', 'EUR', 5)`,
		`INSERT INTO accounts (name, asset, credits_posted, debits_posted, balance_limit, limit_policy) VALUES ('c', 'EUR', 5, 5, 'debits_must_not_exceed_credits', 'enforce')`,
		`INSERT INTO accounts (name, asset) VALUES ('shut', 'EUR')`,
		`INSERT INTO operations (key, event_no, debit, credit, asset, amount, kind) VALUES ('hold', 1, 'a', 'b', 'EUR', 5, 'hold')`,
		`INSERT INTO holds (key) VALUES ('hold'), ('done'), ('early')`,
		`UPDATE holds SET event_no = 1, debit = 'a', credit = 'b', asset = 'EUR', amount = 5, expires_at = now() + interval '1 day' WHERE key <> 'early'`,
		`UPDATE holds SET captured = 2, closed = 'final' WHERE key = 'done'`,
		`UPDATE holds SET captured = 2, asset = 'EUR' WHERE key = 'early'`,
		`INSERT INTO operations (key, event_no, debit, credit, asset, amount, refunds, kind, unmoved)
		 VALUES ('back', 1, 'b', 'a', 'EUR', 2, 'op', NULL, 2), ('total', 1, 'b', 'a', 'EUR', 3, 'op', 'total', NULL);
		 INSERT INTO totals VALUES ('op', 3)`, // one transaction, as it is sent
		`INSERT INTO operations (key, event_no, debit, credit, asset, amount, refunds, kind)
		 VALUES ('short', 1, 'a', 'b', 'EUR', 9, NULL, NULL), ('item', 1, 'b', 'a', 'EUR', 4, 'short', NULL), ('six', 1, 'b', 'a', 'EUR', 6, 'short', 'total');
		 INSERT INTO totals VALUES ('short', 5)`,
	} {
		_, err := worker.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	pgtest.Exec(t, url, `UPDATE accounts SET state = 'closed' WHERE name = 'shut'`)
	return url
}

// Statements that would rewrite history. None is possible for the worker's
// role, and none for the owner of the tables, who has every right.
var rewriting = []string{
	`UPDATE transfers SET amount = 1`,
	`UPDATE transfers SET amount = amount`,
	`DELETE FROM transfers`,
	`TRUNCATE transfers`,
	`MERGE INTO transfers t USING (VALUES (1)) v (no) ON t.event_no = v.no WHEN MATCHED THEN DELETE`,
	`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount) VALUES (1, 0, 'op', 'a', 'b', 'EUR', 9)
	 ON CONFLICT (event_no, n) DO UPDATE SET amount = excluded.amount`,
	`DELETE FROM events`,
	`DELETE FROM events WHERE state = 'failed'`,
	`TRUNCATE events`,
	`TRUNCATE events, transfers, operations, accounts CASCADE`,
	`UPDATE events SET no = 9 WHERE state = 'failed'`,
	`UPDATE events SET event_id = 'other' WHERE state = 'failed'`,
	`UPDATE events SET created_at = now() + interval '1 day' WHERE state = 'failed'`,
	`DELETE FROM accounts`,
	`TRUNCATE accounts`,
	`TRUNCATE operations`,
	`UPDATE accounts SET name = 'z'`,
	`UPDATE accounts SET asset = 'USD'`,
	`UPDATE accounts SET state = 'open' WHERE name = 'shut'`,
	`UPDATE accounts SET state = 'frozen' WHERE name = 'shut'`,
	`UPDATE accounts SET state = 'closed' WHERE name = 'a'`, // it is not empty
	`UPDATE transfers SET uncovered = NULL`,
	`UPDATE holds SET key = 'z'`,
	`UPDATE totals SET key = 'z'`,
	`DELETE FROM totals`,
	`TRUNCATE totals`,
	`TRUNCATE holds`,
}

// Statements that the worker's role may say, and the guards refuse.
var guarded = []string{
	`UPDATE events SET state = 'failed', outcome = NULL, reason = 'bad_json' WHERE state = 'completed'`,
	`UPDATE events SET outcome = 'ignored' WHERE state = 'completed'`,
	`UPDATE events SET seq = 2 WHERE state = 'completed'`,
	`UPDATE events SET decided_at = now() WHERE state = 'completed'`,
	`UPDATE operations SET amount = 1`,
	`UPDATE operations SET event_no = 2`,
	`UPDATE operations SET refunds = 'other'`,
	`UPDATE operations SET kind = NULL WHERE key = 'hold'`,
	`UPDATE operations SET kind = 'capture', hold = 'hold' WHERE key = 'op'`,
	`DELETE FROM holds`,
	`DELETE FROM holds WHERE key = 'early'`,
	`UPDATE holds SET event_no = 2 WHERE key = 'hold'`,
	`UPDATE holds SET debit = 'c' WHERE key = 'hold'`,
	`UPDATE holds SET credit = 'c' WHERE key = 'hold'`,
	`UPDATE holds SET amount = 6 WHERE key = 'hold'`,
	`UPDATE holds SET amount = NULL, event_no = NULL, debit = NULL, credit = NULL, expires_at = NULL WHERE key = 'hold'`,
	`UPDATE holds SET expires_at = now() WHERE key = 'hold'`,
	`UPDATE holds SET expires_at = 'infinity' WHERE key = 'hold'`,
	`UPDATE holds SET asset = 'USD' WHERE key = 'early'`,
	`UPDATE holds SET captured = 1 WHERE key = 'done'`,
	`UPDATE holds SET captured = 1 WHERE key = 'early'`,
	`UPDATE holds SET closed = NULL WHERE key = 'done'`,
	`UPDATE holds SET closed = 'voided' WHERE key = 'done'`,
	`UPDATE holds SET closed = 'expired' WHERE key = 'hold'`, // before its time
	`UPDATE holds SET closed = 'expired' WHERE key = 'early'`,
	`INSERT INTO holds (key) VALUES ('hold') ON CONFLICT (key) DO UPDATE SET amount = 6`,
	`UPDATE operations SET unmoved = 1 WHERE key = 'back'`,
	`UPDATE operations SET unmoved = NULL WHERE key = 'back'`,
	`UPDATE operations SET kind = NULL WHERE key = 'total'`,
	`UPDATE totals SET seen = seen + 1`,
	`UPDATE totals SET seen = seen - 1`,
	`UPDATE totals SET seen = 0`,
	`UPDATE totals SET seen = 6 WHERE key = 'short'`, // told by another transaction
	`UPDATE totals SET seen = 4 WHERE key = 'short'`,
	`INSERT INTO totals VALUES ('done', 0)`,
	`INSERT INTO totals VALUES ('op', 5) ON CONFLICT (key) DO UPDATE SET seen = 5`,
	// The worker's own operations allow no more than they say.
	telling(`'t', 9, 'b', 'a', 'EUR', 4, 'op', 'total'`, 5),
	telling(`'t', 9, 'b', 'a', 'EUR', 5, 'op', NULL`, 5),
	telling(`'t', 9, 'b', 'a', 'EUR', 5, 'other', 'total'`, 5),
	telling(`'u', 9, 'a', 'b', 'EUR', 1, 'back', NULL`, 2), // nothing falls, whatever has failed
	telling(`'t', 9, 'b', 'a', 'EUR', 3, 'op', 'total'`, 2),
	`DELETE FROM operations`,
	`UPDATE accounts SET debits_posted = debits_posted - 1 WHERE debits_posted > 0`,
	`UPDATE accounts SET credits_posted = 0`,
	`INSERT INTO operations VALUES ('op', 2, 'a', 'b', 'EUR', 6) ON CONFLICT (key) DO UPDATE SET amount = excluded.amount`,
	// A session's own tables, in front of those that the guards look into.
	`CREATE TEMP TABLE transfers AS SELECT 1::bigint AS event_no, 'op' COLLATE "C" AS operation, 0 AS reverses, pg_current_xact_id() AS posted_in;
	 DELETE FROM operations WHERE key = 'op'`,
	`CREATE TEMP TABLE actions AS SELECT 4::bigint AS event_no, 'reopen' AS verb; UPDATE events SET state = 'pending', outcome = NULL WHERE no = 4`,
	`CREATE TEMP TABLE operations AS SELECT 'op' COLLATE "C" AS refunds, 'total' AS kind, 9 AS amount; UPDATE totals SET seen = 9 WHERE key = 'op'`,
}

// telling inserts an operation (key, event, content, what it refunds, kind) and sets
// the total of another, in one transaction.
func telling(content string, seen int) string {
	return fmt.Sprintf(`
		INSERT INTO operations (key, event_no, debit, credit, asset, amount, refunds, kind) VALUES (%s);
		UPDATE totals SET seen = %d WHERE key = 'op'`, content, seen)
}

// Statements that only rights stop: the owner of the database may do them.
var administering = []string{
	`UPDATE accounts SET opened_at = now()`,
	`UPDATE accounts SET state = 'frozen' WHERE name = 'a'`,
	`UPDATE accounts SET state = 'closed' WHERE name = 'c'`,
	`UPDATE accounts SET metadata = '{"owner":"me"}'`,
	`INSERT INTO accounts (name, asset, state) VALUES ('z', 'EUR', 'frozen')`,
	`INSERT INTO accounts (name, asset, metadata) VALUES ('z', 'EUR', '{}')`,
	`INSERT INTO accounts (name, asset, opened_at) VALUES ('z', 'EUR', now())`,
	`INSERT INTO accounts (name, asset) VALUES ('a', 'EUR') ON CONFLICT (name, asset) DO UPDATE SET state = 'open'`,
	`INSERT INTO holds (key, captured) VALUES ('z', 5)`,
	`INSERT INTO holds (key, closed) VALUES ('z', 'voided')`,
	`INSERT INTO holds (key, event_no, debit, credit, asset, amount, expires_at) VALUES ('z', 1, 'a', 'b', 'EUR', 5, now())`,
	`ALTER TABLE holds DISABLE TRIGGER ALL`,
	`ALTER TABLE totals DISABLE TRIGGER ALL`,
	`DROP TRIGGER totals_guard ON totals`,
	`CREATE OR REPLACE FUNCTION totals_guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`,
	`DROP TABLE totals`,
	`DROP TRIGGER holds_guard ON holds`,
	`CREATE OR REPLACE FUNCTION holds_guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`,
	`DROP TABLE holds`,
	`ALTER TABLE accounts DISABLE TRIGGER accounts_state`,
	`DROP INDEX accounts_not_open`,
	`UPDATE assets SET exponent = 3`,
	`DELETE FROM assets`,
	`ALTER TABLE transfers DISABLE TRIGGER ALL`,
	`ALTER TABLE events DISABLE TRIGGER events_guard`,
	`DROP TRIGGER transfers_guard ON transfers`,
	`DROP FUNCTION transfers_guard() CASCADE`,
	`CREATE OR REPLACE FUNCTION transfers_guard() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'`,
	`CREATE RULE r AS ON INSERT TO transfers DO INSTEAD NOTHING`,
	`DROP TABLE transfers`,
	`DROP TABLE events CASCADE`,
	`DROP TRIGGER accounts_limit ON accounts`,
	`CREATE TABLE mine (x int)`,
	`SET session_replication_role = replica`,
	`SELECT setval('event_numbers', 0)`,
	`DROP SEQUENCE event_numbers`,
	`TRUNCATE waiting`,
	reversal(`'op', 'b', 'a', 'EUR', 5`), // workers post, operators reverse
	`INSERT INTO ledger_migrations (version_id, is_applied) VALUES (9, true)`,
	`DELETE FROM dedupe_migrations`,
}

func TestTheWorkersRoleCannotRewriteHistory(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t, book(t), postgres.Worker)
	for _, statement := range append(administering, rewriting...) {
		_, err := pool.Exec(t.Context(), statement)
		require.Error(t, err, statement)
		requireState(t, err, "42501") // insufficient_privilege
	}
	for _, statement := range guarded {
		_, err := pool.Exec(t.Context(), statement)
		require.Error(t, err, statement)
		requireState(t, err, "23001") // restrict_violation
	}
}

func TestTheOwnerCannotRewriteHistory(t *testing.T) {
	t.Parallel()
	url := book(t)
	for outcome, url := range map[string]string{
		"in an ordinary session":                  url,
		"in a session that switches triggers off": pgtest.With(t, url, "session_replication_role", "replica"),
	} {
		t.Run(outcome, func(t *testing.T) {
			pool := pgtest.Open(t, url, postgres.Owner)
			for _, statement := range append(guarded, rewriting...) {
				_, err := pool.Exec(t.Context(), statement)
				require.Error(t, err, statement)
				requireState(t, err, "23001")
			}
		})
	}
}

// reversal inserts transfer 1 of event 1, which takes back its transfer 0.
func reversal(content string) string {
	return `INSERT INTO transfers (event_no, n, reverses, operation, debit, credit, asset, amount) VALUES (1, 1, 0, ` + content + `)`
}

func TestAReversalTakesBackAWholeTransferOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t, book(t), postgres.Owner)
	for _, content := range []string{
		`'op', 'b', 'a', 'EUR', 4`, `'op', 'a', 'b', 'EUR', 5`, `'op', 'b', 'a', 'USD', 5`, `'other', 'b', 'a', 'EUR', 5`, `'op', 'b', 'c', 'EUR', 5`,
	} {
		_, err := pool.Exec(t.Context(), reversal(content))
		requireState(t, err, "23001")
	}
	for _, statement := range []string{
		`INSERT INTO transfers (event_no, n, reverses, operation, debit, credit, asset, amount) VALUES (2, 1, 0, 'op', 'b', 'a', 'EUR', 5)`, // not its event's
		`INSERT INTO transfers (event_no, n, reverses, operation, debit, credit, asset, amount) VALUES (1, 1, 1, 'op', 'b', 'a', 'EUR', 5)`,
	} {
		_, err := pool.Exec(t.Context(), statement)
		requireState(t, err, "23001")
	}
	_, err := pool.Exec(t.Context(), reversal(`'op', 'b', 'a', 'EUR', 5`))
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO transfers (event_no, n, reverses, operation, debit, credit, asset, amount) VALUES (1, 2, 0, 'op', 'b', 'a', 'EUR', 5)`)
	requireState(t, err, "23505") // unique_violation
	_, err = pool.Exec(t.Context(), `INSERT INTO transfers (event_no, n, reverses, operation, debit, credit, asset, amount) VALUES (1, 2, 1, 'op', 'a', 'b', 'EUR', 5)`)
	requireState(t, err, "23001") // a reversal is not reversed
}

func TestOnlyTheReversingTransactionChangesAnOperation(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t, book(t), postgres.Owner)
	change := []string{`UPDATE operations SET amount = 7, event_no = 2 WHERE key = 'op'`, `DELETE FROM operations WHERE key = 'op'`}
	for _, statement := range change {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), reversal(`'op', 'b', 'a', 'EUR', 5`))
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), statement)
		require.NoError(t, err)
		require.NoError(t, tx.Rollback(t.Context()))
	}
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), reversal(`'op', 'b', 'a', 'EUR', 5`))
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `UPDATE operations SET key = 'renamed'`)
	requireState(t, err, "23001")

	_, err = pool.Exec(t.Context(), reversal(`'op', 'b', 'a', 'EUR', 5`))
	require.NoError(t, err)
	for _, statement := range change {
		_, err = pool.Exec(t.Context(), statement)
		requireState(t, err, "23001")
	}
}

// A state binds whoever writes: the worker's role and the owner, in any session.
func TestAStateHoldsForEveryStatement(t *testing.T) {
	t.Parallel()
	url := book(t)
	pgtest.Exec(t, url, `UPDATE accounts SET state = 'frozen' WHERE name IN ('a', 'b', 'c')`)
	silent := pgtest.With(t, url, "session_replication_role", "replica")
	for outcome, pool := range map[string]*pgxpool.Pool{
		"the worker's role": pgtest.Open(t, url, postgres.Worker),
		"the owner":         pgtest.Open(t, url, postgres.Owner),
		"the owner in a session that switches triggers off": pgtest.Open(t, silent, postgres.Owner),
	} {
		for _, statement := range []string{
			`UPDATE accounts SET credits_posted = credits_posted + 1 WHERE name = 'a'`, // what its limit does not bound
			`UPDATE accounts SET credits_pending = 1 WHERE name = 'a'`,
			`UPDATE accounts SET debits_posted = debits_posted + 1, credits_posted = credits_posted + 1 WHERE name = 'a'`,
			`UPDATE accounts SET debits_posted = debits_posted + 1 WHERE name = 'b'`,
			`UPDATE accounts SET credits_posted = credits_posted + 1 WHERE name = 'b'`,
			`UPDATE accounts SET credits_posted = credits_posted + 1 WHERE name = 'c'`,
			`UPDATE accounts SET debits_posted = 1, credits_posted = 1 WHERE name = 'shut'`,
			`INSERT INTO accounts (name, asset, credits_posted) VALUES ('b', 'EUR', 1)
			 ON CONFLICT (name, asset) DO UPDATE SET credits_posted = accounts.credits_posted + 1`,
		} {
			_, err := pool.Exec(t.Context(), statement)
			require.Error(t, err, "%s: %s", outcome, statement)
			requireState(t, err, "40001") // serialization_failure: whoever looked before it was frozen looks again
		}
		_, err := pool.Exec(t.Context(), `UPDATE accounts SET debits_posted = debits_posted + 1, debits_pending = 1 WHERE name = 'a'`)
		require.NoError(t, err, "%s: a fact passes, by a limit that records", outcome)
		_, err = pool.Exec(t.Context(), `UPDATE accounts SET debits_pending = 0 WHERE name = 'a'`)
		require.NoError(t, err, "%s: what eases a hold passes", outcome)
	}
	_, err := pgtest.Open(t, url, postgres.Owner).Exec(t.Context(), `UPDATE accounts SET state = 'asleep' WHERE name = 'a'`)
	requireState(t, err, "23514")
}

func TestTheWorkersRoleMayDoItsWork(t *testing.T) {
	t.Parallel()
	pool := pgtest.Open(t, book(t), postgres.Worker)
	for _, statement := range []string{
		`SELECT * FROM events, transfers, operations, accounts, assets`,
		`SELECT * FROM accounts FOR NO KEY UPDATE`,
		`SELECT * FROM events FOR NO KEY UPDATE`,
		`SELECT * FROM holds FOR NO KEY UPDATE`,
		telling(`'t1', 9, 'b', 'a', 'EUR', 5, 'op', 'total'`, 5),
		telling(`'t2', 9, 'b', 'a', 'EUR', 7, 'op', 'total'), ('u2', 9, 'a', 'b', 'EUR', 1, 'back', NULL`, 6),
		`INSERT INTO operations (key, event_no, debit, credit, asset, amount, refunds, kind) VALUES ('t3', 9, 'b', 'a', 'EUR', 1, 'shop', 'total'); INSERT INTO totals (key, seen) VALUES ('shop', 1)`,
		`UPDATE holds SET captured = captured + 1 WHERE key = 'hold'`,
		`UPDATE holds SET closed = 'voided' WHERE key = 'hold'`,
		`UPDATE holds SET event_no = 3, debit = 'a', credit = 'b', amount = 5, expires_at = now() WHERE key = 'early'`,
		`UPDATE holds SET closed = 'expired' WHERE key = 'early'`,
		`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount, uncovered) VALUES (1, 7, 'fact', 'a', 'b', 'EUR', 5, 5)`,
		`UPDATE accounts SET debits_posted = debits_posted + 1, credits_posted = credits_posted + 1 WHERE state = 'open'`,
		`INSERT INTO accounts (name, asset, debits_posted, credits_posted, debits_pending, credits_pending, balance_limit, limit_policy)
		 VALUES ('new', 'EUR', 1, 1, 1, 1, 'credits_must_not_exceed_debits', 'record')`,
		`UPDATE events SET state = 'completed', outcome = 'ignored', reason = NULL WHERE state = 'failed'`,
		`UPDATE events SET attempts = 1, first_failed_at = now(), next_try_at = now() WHERE state = 'pending'`,
		`SELECT nextval('event_numbers')`,
		`INSERT INTO waiting (operation, event_no) VALUES ('other', 3)
		 ON CONFLICT (operation, event_no) DO UPDATE SET event_no = excluded.event_no WHERE false`,
		`SELECT * FROM waiting FOR UPDATE`,
		`DELETE FROM waiting`,
	} {
		_, err := pool.Exec(t.Context(), statement)
		require.NoError(t, err, statement)
	}
}

// Else a session's own tables come before those that the guard looks into.
func TestEveryGuardThatLooksIntoTablesNamesItsSchema(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, stack.DatabaseURL, postgres.Owner)
	var careless []string
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT COALESCE(array_agg(proname::text), '{}')
		FROM pg_proc
		WHERE pronamespace = current_schema()::regnamespace AND prosrc ~ 'FROM [a-z]'
		  AND NOT COALESCE(proconfig, '{}') @> ARRAY['search_path=' || current_schema() || ', pg_temp']`).Scan(&careless))
	require.Empty(t, careless)
}
