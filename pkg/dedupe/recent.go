package dedupe

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Recent returns the rows in state, which must not be Completed, that got there
// for one of reasons within age, by the database's clock; the newest first, at
// most limit.
func Recent(ctx context.Context, q Querier, state State, reasons []string, age time.Duration, limit int) ([]*Row, error) {
	found, err := q.Query(ctx, `
		SELECT `+rowColumns+`
		FROM events e
		WHERE e.state <> 'completed' AND e.state = $1 AND e.decided_at > now() - $2 * interval '1 second' AND e.reason = ANY ($3)
		ORDER BY e.decided_at DESC
		LIMIT $4`, string(state), age.Seconds(), reasons, limit)
	if err != nil {
		return nil, fmt.Errorf("read recent events: %w", err)
	}
	rows, err := pgx.CollectRows(found, scanRow)
	if err != nil {
		return nil, fmt.Errorf("read recent events: %w", err)
	}
	return rows, nil
}
