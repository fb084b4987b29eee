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

// Uncorrectable returns the operations of those of some transfers, standing or asked
// for, with which a correction is refused: ErrCorrectHold or ErrCorrectTotal. It costs
// a few look-ups each.
func Uncorrectable(ctx context.Context, q Querier, transfers []Transfer) (map[string]bool, error) {
	var keys []string
	for _, t := range transfers {
		keys = append(keys, t.Operation, t.Parent)
	}
	found, err := q.Query(ctx, `
		SELECT o.key, o.kind IS NOT NULL, EXISTS (SELECT FROM totals t WHERE t.key = ANY (ARRAY[o.key, o.refunds, p.refunds]))
		FROM operations o
		LEFT JOIN operations p ON p.key = o.refunds
		WHERE o.key = ANY($1)`, keys)
	if err != nil {
		return nil, fmt.Errorf("look for holds and totals: %w", err)
	}
	kinds, totals := make(map[string]bool), make(map[string]bool)
	var key string
	var kind, total bool
	_, err = pgx.ForEachRow(found, []any{&key, &kind, &total}, func() error {
		kinds[key], totals[key] = kind, total
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for holds and totals: %w", err)
	}
	refused := make(map[string]bool)
	for _, t := range transfers {
		if t.Kind != "" || t.Unmoved > 0 || kinds[t.Operation] || totals[t.Operation] || t.Refund && totals[t.Parent] {
			refused[t.Operation] = true
		}
	}
	return refused, nil
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
		  AND o.key = ANY($2::text[] || ARRAY(SELECT operation FROM transfers WHERE event_no = ANY($1)))
		LIMIT 1`, x.Replaces, operations).Scan(&key)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for holds: %w", err)
	}
	return fmt.Errorf("%w: %s", ErrCorrectHold, key)
}
