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
