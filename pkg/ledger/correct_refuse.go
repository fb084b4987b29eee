package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// refuseTotals refuses a correction of what a running total is about: what that has
// moved depends on what came before. The operations are locked, so that no total comes.
func (x *correction) refuseTotals(ctx context.Context, tx pgx.Tx) error {
	for _, t := range x.Transfers {
		if t.Kind == KindTotal {
			return fmt.Errorf("%w: %s", ErrCorrectTotal, t.Operation)
		}
	}
	var key string
	err := tx.QueryRow(ctx, `
		SELECT key
		FROM totals
		WHERE key = ANY($1)
		UNION ALL
		SELECT key
		FROM operations
		WHERE event_no = ANY($2) AND unmoved IS NOT NULL
		LIMIT 1`, slices.Collect(maps.Keys(x.held)), x.Replaces).Scan(&key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for totals: %w", err)
	}
	return fmt.Errorf("%w: %s", ErrCorrectTotal, key)
}

// refuseHolds refuses a correction that has to do with holds. What an event has
// opened, captured or voided does not change any more, nor does what it is.
func (x *correction) refuseHolds(ctx context.Context, tx pgx.Tx) error {
	operations := []string{}
	for _, t := range x.Transfers {
		if t.Kind != "" {
			return fmt.Errorf("%w: %s", ErrCorrectHold, t.Operation)
		}
		operations = append(operations, t.Operation)
	}
	var key string
	err := tx.QueryRow(ctx, `
		SELECT o.key
		FROM operations o
		WHERE o.event_no = ANY($1) AND o.kind IN ('hold', 'void')
		UNION ALL
		SELECT o.key
		FROM operations o
		WHERE o.kind IS NOT NULL
		  AND (o.key = ANY($2) OR o.key IN (SELECT operation FROM transfers WHERE event_no = ANY($1)))
		LIMIT 1`, x.Replaces, operations).Scan(&key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for holds: %w", err)
	}
	return fmt.Errorf("%w: %s", ErrCorrectHold, key)
}
