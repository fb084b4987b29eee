// Package postgres opens the database and brings its schema up to date. It is
// the one place that knows how sessions are set up and in which order the
// packages' numbered SQL runs.
//
//	if err := postgres.Migrate(ctx, url); err != nil { … }
//	pool, err := postgres.Open(ctx, url, postgres.Worker)
//	err = postgres.CheckSchema(ctx, pool)
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrDurability is returned where Postgres runs without crash safety.
var ErrDurability = errors.New("postgres: a crash would lose or tear committed money")

// Role is what a pool's sessions may do.
type Role string

const (
	// Owner keeps the rights of the user in the URL: the operator's commands.
	Owner Role = ""
	// Worker takes the role onceledger_worker: insert and read, and change
	// only balances and event states.
	Worker Role = "onceledger_worker"
)

// The sessions' bounds. Their sum stays below the shortest ack wait a worker is
// given, so that a paused worker or a lost connection cannot freeze the pool.
const (
	lockTimeout        = 2 * time.Second
	statementTimeout   = 10 * time.Second
	idleInTransaction  = 3 * time.Second
	tcpUserTimeout     = 5 * time.Second
	connectTimeout     = 5 * time.Second
	healthCheckPeriod  = 15 * time.Second
	maxConnectionsHeld = 8
)

// Open returns a pool whose sessions have the timeouts, the isolation level and
// the commit durability that the ledger relies on. It does not connect yet.
func Open(ctx context.Context, url string, role Role) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse database URL: %w", redact(err))
	}
	cfg.MaxConns = maxConnectionsHeld
	cfg.HealthCheckPeriod = healthCheckPeriod
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: tcpUserTimeout, Control: setTCPUserTimeout}
	cfg.ConnConfig.DialFunc = dialer.DialContext
	cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite

	params := cfg.ConnConfig.RuntimeParams
	params["application_name"] = "onceledger"
	params["default_transaction_isolation"] = "read committed"
	params["synchronous_commit"] = "on"
	params["lock_timeout"] = milliseconds(lockTimeout)
	params["statement_timeout"] = milliseconds(statementTimeout)
	params["idle_in_transaction_session_timeout"] = milliseconds(idleInTransaction)
	params["tcp_user_timeout"] = milliseconds(tcpUserTimeout)
	// One plan for every statement over unnest: a plan that changes under load
	// takes row locks in another order.
	params["plan_cache_mode"] = "force_generic_plan"
	if role == Worker {
		params["role"] = string(role)
		// A generic plan that was made while a table was nearly empty scans it
		// for as long as it is kept: 80 ms a batch at 11,000 rows, measured.
		params["enable_seqscan"] = "off"
	}
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		registerArrays(conn.TypeMap())
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", redact(err))
	}
	return pool, nil
}

// CheckDurability refuses a server that could lose a commit or tear a page.
func CheckDurability(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, `
		SELECT name
		FROM pg_settings
		WHERE name IN ('fsync', 'full_page_writes') AND setting <> 'on'`)
	if err != nil {
		return fmt.Errorf("read server settings: %w", err)
	}
	off, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("read server settings: %w", err)
	}
	if len(off) > 0 {
		return fmt.Errorf("%w: %v is off; set it to on in postgresql.conf and restart Postgres", ErrDurability, off)
	}
	return nil
}

func milliseconds(d time.Duration) string {
	return fmt.Sprint(d.Milliseconds())
}

// redact keeps the cause of a bad URL and drops the URL, which holds a password.
func redact(err error) error {
	if parse := new(pgconn.ParseConfigError); errors.As(err, &parse) {
		if cause := errors.Unwrap(parse); cause != nil {
			return cause
		}
		return errors.New("not a postgres:// URL or keyword string")
	}
	return err
}
