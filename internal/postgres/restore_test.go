package postgres_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
)

// client runs one of Postgres's own programs.
func client(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		require.Empty(t, os.Getenv("CI"), "%s is missing", name)
		t.Skipf("%s is missing", name)
	}
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	return string(out), err
}

// dumped returns the URL of a filled schema, and a dump of it.
func dumped(t *testing.T) (own, file string) {
	t.Helper()
	own = book(t)
	pgtest.Exec(t, own, reversal(`'op', 'b', 'a', 'EUR', 5`))
	file = filepath.Join(t.TempDir(), "backup.dump")
	out, err := client(t, "pg_dump", "-Fc", "-n", schemaOf(t, own), "-f", file, stack.DatabaseURL)
	require.NoError(t, err, out)
	return own, file
}

func schemaOf(t *testing.T, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	return u.Query().Get("search_path")
}

// database makes an empty one and returns its URL.
func database(t *testing.T, name string) string {
	t.Helper()
	pgtest.Exec(t, stack.DatabaseURL, `CREATE DATABASE `+name)
	t.Cleanup(func() { pgtest.Exec(t, stack.DatabaseURL, `DROP DATABASE `+name+` WITH (FORCE)`) })
	u, err := url.Parse(stack.DatabaseURL)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

// content is every row of every table, and every trigger with whether it always fires.
func content(t *testing.T, pool *pgxpool.Pool) map[string][]string {
	t.Helper()
	read := func(sql string) []string {
		found, err := pool.Query(t.Context(), sql)
		require.NoError(t, err)
		list, err := pgx.CollectRows(found, pgx.RowTo[string])
		require.NoError(t, err)
		return list
	}
	all := map[string][]string{"triggers": read(`
		SELECT tgrelid::regclass || ' ' || tgname || ' ' || tgenabled::text
		FROM pg_trigger
		JOIN pg_class c ON c.oid = tgrelid
		WHERE relnamespace = current_schema()::regnamespace
		ORDER BY 1`)}
	for _, table := range read(`SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()`) {
		all[table] = read(`SELECT t::text FROM ` + pgx.Identifier{table}.Sanitize() + ` t ORDER BY 1`)
	}
	return all
}

// The way of docs/operations.md.
func TestAWholeDumpIsRestored(t *testing.T) {
	t.Parallel()
	own, file := dumped(t)
	restored := database(t, "restored")
	out, err := client(t, "pg_restore", "--no-owner", "--single-transaction", "--exit-on-error", "-d", restored, file)
	require.NoError(t, err, out)
	restored = pgtest.With(t, restored, "search_path", schemaOf(t, own))
	pool := pgtest.Open(t, restored, postgres.Owner)
	there := content(t, pool)
	require.Equal(t, content(t, pgtest.Open(t, own, postgres.Owner)), there)
	require.NotEmpty(t, there["triggers"])
	for _, trigger := range there["triggers"] {
		require.Regexp(t, ` A$`, trigger)
	}
	for _, table := range []string{"events", "transfers", "operations", "totals", "holds", "accounts"} {
		require.NotEmpty(t, there[table], table)
	}
	for _, statement := range append(guarded, rewriting...) {
		_, err := pool.Exec(t.Context(), statement)
		requireState(t, err, "23001")
	}
	ran, err := postgres.Migrate(t.Context(), restored)
	require.NoError(t, err)
	require.Zero(t, ran)
}

// Why docs/operations.md wants whole dumps: the guards fire on each row of data alone,
// and whoever switches them off for that leaves them weaker.
func TestDataAloneIsRefused(t *testing.T) {
	t.Parallel()
	own, file := dumped(t)
	alone := database(t, "alone")
	out, err := client(t, "pg_restore", "--no-owner", "--schema-only", "-d", alone, file)
	require.NoError(t, err, out)
	out, err = client(t, "pg_restore", "--data-only", "--exit-on-error", "-d", alone, file)
	require.Error(t, err)
	require.Contains(t, out, "a total follows its operations")

	weak := database(t, "weak")
	out, err = client(t, "pg_restore", "--no-owner", "--schema-only", "-d", weak, file)
	require.NoError(t, err, out)
	out, err = client(t, "pg_restore", "--data-only", "--disable-triggers", "--exit-on-error", "-d", weak, file)
	require.NoError(t, err, out)
	for _, trigger := range content(t, pgtest.Open(t, pgtest.With(t, weak, "search_path", schemaOf(t, own)), postgres.Owner))["triggers"] {
		require.Regexp(t, ` O$`, trigger, "a session in replica mode passes it")
	}
}
