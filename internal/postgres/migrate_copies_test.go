package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
)

// What the sweep had under way before the copies got a table of their own is not
// sent again.
func TestMigrateKeepsCopies(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, stack.DatabaseURL)
	pgtest.Exec(t, url,
		`DROP TABLE audit_copies`,
		`ALTER TABLE audit_open ADD COLUMN copy_seq bigint NOT NULL DEFAULT 0`,
		`ALTER TABLE audit_marks DROP COLUMN acknowledged, DROP COLUMN acknowledged_at, DROP COLUMN closed`,
		`DROP INDEX actions_account`,
		`DELETE FROM postgres_migrations WHERE version_id >= 4`,
		`INSERT INTO audit_open (stream_created, seq, source, event_id, body_hash, stored_at, redrive, copy_seq)
		 SELECT '2024-05-01', n, 'shop', id, sha256('body'), now(), false, sent
		 FROM (VALUES (1, 'evt_1', 7), (2, 'evt_1', 9), (3, 'evt_2', 0), (4, 'evt_3', 8)) AS o (n, id, sent)`)
	_, err := postgres.Migrate(t.Context(), url)
	require.NoError(t, err)

	found, err := pgtest.Open(t, url, postgres.Worker).Query(t.Context(), `
		SELECT event_id || ' ' || copy_seq
		FROM audit_copies
		WHERE stream_created = '2024-05-01' AND body_hash = sha256('body')
		ORDER BY event_id`)
	require.NoError(t, err)
	copies, err := pgx.CollectRows(found, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"evt_1 9", "evt_3 8"}, copies)
}
