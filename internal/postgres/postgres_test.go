package postgres_test

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
)

func TestSessionsHaveTheSettings(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"application_name":                    "onceledger",
		"transaction_isolation":               "read committed",
		"synchronous_commit":                  "on",
		"lock_timeout":                        "2s",
		"statement_timeout":                   "10s",
		"idle_in_transaction_session_timeout": "3s",
		"plan_cache_mode":                     "force_generic_plan",
		"role":                                "onceledger_worker",
	}
	own := pgtest.Migrated(t, stack.DatabaseURL)
	for outcome, url := range map[string]string{
		"by default": own,
		"whatever the URL says": pgtest.With(t, pgtest.With(t, own, "synchronous_commit", "off"), "options",
			"-c synchronous_commit=off -c lock_timeout=0 -c default_transaction_isolation=serializable -c role=none"),
	} {
		t.Run(outcome, func(t *testing.T) {
			pool := pgtest.Open(t, url, postgres.Worker)
			for name, value := range want {
				var have string
				require.NoError(t, pool.QueryRow(t.Context(), `SHOW `+name).Scan(&have))
				require.Equal(t, value, have, name)
			}
		})
	}
}

func TestSettingsOutliveADatabaseWithOthers(t *testing.T) {
	t.Parallel()
	pgtest.Exec(t, stack.DatabaseURL, `CREATE DATABASE careless`,
		`ALTER DATABASE careless SET synchronous_commit = off`, `ALTER DATABASE careless SET idle_in_transaction_session_timeout = 0`)
	t.Cleanup(func() { pgtest.Exec(t, stack.DatabaseURL, `DROP DATABASE careless WITH (FORCE)`) })
	u, err := url.Parse(stack.DatabaseURL)
	require.NoError(t, err)
	u.Path = "/careless"
	pool := pgtest.Open(t, u.String(), postgres.Owner)
	var commit, idle string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_setting('synchronous_commit'), current_setting('idle_in_transaction_session_timeout')`).Scan(&commit, &idle))
	require.Equal(t, []string{"on", "3s"}, []string{commit, idle})
}

func TestAnIdleTransactionEndsBeforeTheAckWait(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, stack.DatabaseURL, postgres.Worker)
	began := time.Now()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		var there bool
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, tx.Conn().PgConn().PID()).Scan(&there)
		return err == nil && !there
	}, 20*time.Second, 50*time.Millisecond)
	require.Greater(t, time.Since(began), 2*time.Second)
	require.Error(t, tx.Commit(t.Context()))
}

func TestAWaitForALockEnds(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t, stack.DatabaseURL, postgres.Worker)
	holder, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = holder.Rollback(t.Context()) }()
	_, err = holder.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`) // it outlives the wait
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), `INSERT INTO assets VALUES ('GEMS', 0)`)
	require.NoError(t, err)

	began := time.Now()
	_, err = pool.Exec(t.Context(), `INSERT INTO assets VALUES ('GEMS', 0)`)
	requireState(t, err, "55P03")
	require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	require.Less(t, time.Since(began), 10*time.Second, "that would have been the limit of a statement")
}

func TestAReadOnlyServerIsNotUsed(t *testing.T) {
	t.Parallel()
	url := pgtest.With(t, stack.DatabaseURL, "default_transaction_read_only", "on")
	pool := pgtest.Open(t, url, postgres.Owner)
	require.ErrorContains(t, pool.Ping(t.Context()), "read only")
}

func TestCheckDurability(t *testing.T) {
	t.Parallel()
	require.NoError(t, postgres.CheckDurability(t.Context(), pgtest.Open(t, stack.DatabaseURL, postgres.Owner)))

	// A server of another configuration, as far as a reader of pg_settings can tell.
	fake := func(t *testing.T, fsync, fullPageWrites string) *pgxpool.Pool {
		own := pgtest.Schema(t, stack.DatabaseURL)
		pgtest.Exec(t, own, `CREATE TABLE pg_settings AS SELECT name, CASE name WHEN 'fsync' THEN '`+fsync+`' WHEN 'full_page_writes' THEN '`+fullPageWrites+`' ELSE setting END AS setting FROM pg_catalog.pg_settings`)
		u, err := url.Parse(own)
		require.NoError(t, err)
		return pgtest.Open(t, pgtest.With(t, own, "search_path", u.Query().Get("search_path")+",pg_catalog"), postgres.Owner)
	}
	require.NoError(t, postgres.CheckDurability(t.Context(), fake(t, "on", "on")))
	for name, pool := range map[string]*pgxpool.Pool{
		"[fsync]":                  fake(t, "off", "on"),
		"[full_page_writes]":       fake(t, "on", "off"),
		"[fsync full_page_writes]": fake(t, "off", "off"),
	} {
		err := postgres.CheckDurability(t.Context(), pool)
		require.ErrorIs(t, err, postgres.ErrDurability)
		require.ErrorContains(t, err, name+" is off; set it to on")
	}
}

func requireState(t *testing.T, err error, state string) {
	t.Helper()
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, state, pg.Code, pg.Message)
}

func stateOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
