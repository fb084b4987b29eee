package rig

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
)

// costly are the statements since the last reset that took the most time.
const costly = `
	SELECT calls, total_exec_time, rows, shared_blks_read, wal_bytes::bigint, query
	FROM pg_stat_statements
	ORDER BY total_exec_time DESC
	LIMIT 40`

// writeStatements writes into the folder of profiles what the statements cost since it
// was called last, and forgets it: one file for each that is measured.
func (r *Rig) writeStatements(ctx context.Context) error {
	if r.options.Profile == "" {
		return nil
	}
	conn, err := pgx.Connect(ctx, r.stack.DatabaseURL)
	if err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, costly)
	if err != nil {
		return fmt.Errorf("read cost of statements: %w", err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%9s %10s %9s %10s %10s %8s  %s\n", "calls", "ms", "us a call", "rows", "pages read", "WAL MiB", "statement")
	var calls, found, read, wal int64
	var took float64
	var query string
	_, err = pgx.ForEachRow(rows, []any{&calls, &took, &found, &read, &wal, &query}, func() error {
		fmt.Fprintf(&text, "%9d %10.1f %9.1f %10d %10d %8.1f  %s\n", calls, took, took/float64(calls)*1000, found, read, float64(wal)/(1<<20),
			strings.Join(strings.Fields(query), " "))
		return nil
	})
	if err != nil {
		return fmt.Errorf("read cost of statements: %w", err)
	}
	r.mu.Lock()
	path := filepath.Join(r.options.Profile, fmt.Sprintf("%02d-statements.txt", r.profiles))
	r.mu.Unlock()
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("write cost of statements: %w", err)
	}
	if _, err := conn.Exec(ctx, `SELECT pg_stat_statements_reset()`); err != nil {
		return fmt.Errorf("forget cost of statements: %w", err)
	}
	return nil
}
