package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
)

func TestMigrateTwiceDoesNothingMore(t *testing.T) {
	t.Parallel()
	url := pgtest.Schema(t, stack.DatabaseURL)
	applied, err := postgres.Migrate(t.Context(), url)
	require.NoError(t, err)
	require.Positive(t, applied)

	applied, err = postgres.Migrate(t.Context(), url)
	require.NoError(t, err)
	require.Zero(t, applied)
	require.NoError(t, postgres.CheckSchema(t.Context(), pgtest.Open(t, url, postgres.Worker)))
}

// Four connections with locks of their own are four processes to Postgres.
func TestMigrateByFourAtOnceRunsEachFileOnce(t *testing.T) {
	t.Parallel()
	alone, err := postgres.Migrate(t.Context(), pgtest.Schema(t, stack.DatabaseURL))
	require.NoError(t, err)

	url := pgtest.Schema(t, stack.DatabaseURL)
	var group errgroup.Group
	counts := make([]int, 4)
	for i := range counts {
		group.Go(func() error {
			var err error
			counts[i], err = postgres.Migrate(t.Context(), url)
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, alone, counts[0]+counts[1]+counts[2]+counts[3])
	require.NoError(t, postgres.CheckSchema(t.Context(), pgtest.Open(t, url, postgres.Owner)))
}

func TestMigrateAsAUserWithFewRights(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outcome, user, rights string
		prepare               []string
	}{
		{"a user who may create roles makes the worker's", "creator", "CREATEROLE", nil},
		{"a role made beforehand is enough", "plain", "NOCREATEROLE", []string{
			`DO $$ BEGIN CREATE ROLE onceledger_worker NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`,
			`GRANT onceledger_worker TO plain`,
		}},
	} {
		t.Run(c.outcome, func(t *testing.T) {
			url := pgtest.Schema(t, stack.DatabaseURL)
			pgtest.Exec(t, url, append([]string{
				`CREATE ROLE ` + c.user + ` LOGIN PASSWORD 'x' ` + c.rights,
				`DO $$ BEGIN EXECUTE format('ALTER SCHEMA %I OWNER TO ` + c.user + `', current_schema()); END $$`,
			}, c.prepare...)...)
			t.Cleanup(func() {
				pgtest.Exec(t, stack.DatabaseURL, `DROP OWNED BY `+c.user+` CASCADE`, `DROP ROLE `+c.user)
			})
			cfg, err := pgx.ParseConfig(url)
			require.NoError(t, err)
			url = strings.Replace(url, cfg.User+":"+cfg.Password+"@", c.user+":x@", 1)

			_, err = postgres.Migrate(t.Context(), url)
			require.NoError(t, err)
			require.NoError(t, postgres.CheckSchema(t.Context(), pgtest.Open(t, url, postgres.Worker)))
		})
	}
}

func TestCheckSchema(t *testing.T) {
	t.Parallel()

	t.Run("an empty database is refused with the command that fills it", func(t *testing.T) {
		t.Parallel()
		err := postgres.CheckSchema(t.Context(), pgtest.Open(t, pgtest.Schema(t, stack.DatabaseURL), postgres.Owner))
		require.ErrorIs(t, err, postgres.ErrSchema)
		require.ErrorContains(t, err, "run `onceledger migrate`")
	})
	for _, table := range []string{"dedupe_migrations", "ledger_migrations", "postgres_migrations"} {
		t.Run("an older "+table+" is refused", func(t *testing.T) {
			t.Parallel()
			url := pgtest.Migrated(t, stack.DatabaseURL)
			pgtest.Exec(t, url, `DELETE FROM `+table+` WHERE version_id = (SELECT max(version_id) FROM `+table+`)`)
			err := postgres.CheckSchema(t.Context(), pgtest.Open(t, url, postgres.Worker))
			require.ErrorIs(t, err, postgres.ErrSchema)
			require.ErrorContains(t, err, table+" is at ")
			require.ErrorContains(t, err, "run `onceledger migrate`")
		})
		t.Run("a newer "+table+" is refused", func(t *testing.T) {
			t.Parallel()
			url := pgtest.Migrated(t, stack.DatabaseURL)
			pgtest.Exec(t, url, `INSERT INTO `+table+` (version_id, is_applied) VALUES (999, true)`)
			err := postgres.CheckSchema(t.Context(), pgtest.Open(t, url, postgres.Worker))
			require.ErrorIs(t, err, postgres.ErrSchema)
			require.ErrorContains(t, err, "start a newer release")
		})
	}
	t.Run("no database is another error", func(t *testing.T) {
		t.Parallel()
		err := postgres.CheckSchema(t.Context(), pgtest.Open(t, "postgres://u:hidden@127.0.0.1:1/x", postgres.Owner))
		require.Error(t, err)
		require.NotErrorIs(t, err, postgres.ErrSchema)
		require.NotContains(t, err.Error(), "hidden")
	})
}

func TestErrorsHideThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://u:hidden@127.0.0.1:port/x",
		"postgres://u:hidden:more@127.0.0.1:port/x",
		"postgres://u:hidden@127.0.0.1/x?sslmode=perhaps",
		"postgres://u:hidden@127.0.0.1/x?target_session_attrs=perhaps",
		"password=hidden host",
		"postgres://u:hidden%zz@127.0.0.1/x",
	} {
		_, err := postgres.Open(t.Context(), url, postgres.Owner)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "hidden")
		_, err = postgres.Migrate(t.Context(), url)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "hidden")
	}
	_, err := postgres.Migrate(t.Context(), "postgres://u:hidden@127.0.0.1:1/x")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hidden")
}
