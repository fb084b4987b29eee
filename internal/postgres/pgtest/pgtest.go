// Package pgtest gives each test a Postgres schema of its own, so that tests
// of one server run side by side and every one sees an empty database.
//
//	pool := pgtest.Pool(t, stack.DatabaseURL, postgres.Worker)
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres"
)

// closeLimit bounds the wait for a test's connections.
const closeLimit = time.Minute

var (
	schemas atomic.Int64
	// migrating keeps this process's migrations apart: the lock that does so
	// between processes is one for the whole database, and polls.
	migrating sync.Mutex
)

// Schema makes an empty schema in the database at databaseURL and returns the
// URL whose sessions live in it. It is dropped when the test ends.
func Schema(t testing.TB, databaseURL string) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", schemas.Add(1))
	Exec(t, databaseURL, `CREATE SCHEMA `+name)
	t.Cleanup(func() { Exec(t, databaseURL, `DROP SCHEMA IF EXISTS `+name+` CASCADE`) })
	return With(t, databaseURL, "search_path", name)
}

// Migrated is Schema at this program's version.
func Migrated(t testing.TB, databaseURL string) string {
	t.Helper()
	own := Schema(t, databaseURL)
	migrating.Lock()
	defer migrating.Unlock()
	_, err := postgres.Migrate(context.Background(), own)
	require.NoError(t, err)
	return own
}

// Pool opens a migrated schema of the test's own, as the programs do.
func Pool(t testing.TB, databaseURL string, role postgres.Role) *pgxpool.Pool {
	t.Helper()
	return Open(t, Migrated(t, databaseURL), role)
}

// Open is postgres.Open for the length of a test, which must give every
// connection back.
func Open(t testing.TB, databaseURL string, role postgres.Role) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(context.Background(), databaseURL, role)
	require.NoError(t, err)
	return closing(t, pool)
}

// Patient is Open for tests that look at one transaction while another one is open or
// waits: on a slow machine both may stand still for longer than a program's may.
func Patient(t testing.TB, databaseURL string, role postgres.Role) *pgxpool.Pool {
	t.Helper()
	programs, err := postgres.Open(context.Background(), databaseURL, role)
	require.NoError(t, err)
	cfg := programs.Config()
	programs.Close()
	for _, bound := range []string{"lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"} {
		cfg.ConnConfig.RuntimeParams[bound] = "1min"
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	require.NoError(t, err)
	return closing(t, pool)
}

// closing closes a pool when the test ends.
func closing(t testing.TB, pool *pgxpool.Pool) *pgxpool.Pool {
	t.Helper()
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			pool.Close()
		}()
		select {
		case <-closed:
		case <-time.After(closeLimit):
			t.Errorf("%d connections were never given back", pool.Stat().AcquiredConns())
		}
	})
	return pool
}

// Exec runs statements on a connection of their own, as the user of the URL.
func Exec(t testing.TB, databaseURL string, statements ...string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, databaseURL)
	require.NoError(t, err)
	defer conn.Close(ctx)
	for _, statement := range statements {
		_, err := conn.Exec(ctx, statement)
		require.NoError(t, err, statement)
	}
}

// With returns the URL with one more parameter.
func With(t testing.TB, databaseURL, parameter, value string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	q := u.Query()
	q.Set(parameter, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // Postgres knows no other spelling of a space
	return u.String()
}
