package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Owners returns the numbers of the events that posted these operations, by
// operation; one that is not posted is not among them. It costs a lookup each.
func Owners(ctx context.Context, q Querier, operations []string) (map[string]int64, error) {
	found, err := q.Query(ctx, `
		SELECT key, event_no
		FROM operations
		WHERE key = ANY($1)`, operations)
	if err != nil {
		return nil, fmt.Errorf("read operations: %w", err)
	}
	owners := make(map[string]int64, len(operations))
	var key string
	var no int64
	if _, err := pgx.ForEachRow(found, []any{&key, &no}, func() error { owners[key] = no; return nil }); err != nil {
		return nil, fmt.Errorf("read operations: %w", err)
	}
	return owners, nil
}

// About is what an operation is about: the hold that it captures a part of, or the
// operation that it refunds.
type About struct{ Captures, Refunds string }

// AboutOf returns what those of some operations are about that are captures or
// refunds. It costs a lookup each.
func AboutOf(ctx context.Context, q Querier, operations []string) (map[string]About, error) {
	found, err := q.Query(ctx, `
		SELECT key, COALESCE(hold, ''), COALESCE(refunds, '')
		FROM operations
		WHERE key = ANY($1) AND kind IS DISTINCT FROM 'void' AND (hold IS NOT NULL OR refunds IS NOT NULL)`, operations)
	if err != nil {
		return nil, fmt.Errorf("read what operations are about: %w", err)
	}
	about := make(map[string]About)
	var key string
	var a About
	if _, err := pgx.ForEachRow(found, []any{&key, &a.Captures, &a.Refunds}, func() error { about[key] = a; return nil }); err != nil {
		return nil, fmt.Errorf("read what operations are about: %w", err)
	}
	return about, nil
}
