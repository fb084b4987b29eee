package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// refuse refuses what a correction does not change, unless nothing is to be changed.
func (x *correction) refuse(ctx context.Context, tx pgx.Tx) error {
	refused := x.refuseTotals(ctx, tx)
	if refused == nil {
		refused = x.refuseHolds(ctx, tx)
	}
	if !errors.Is(refused, ErrCorrectTotal) && !errors.Is(refused, ErrCorrectHold) {
		return refused
	}
	if unchanged, err := x.unchanged(ctx, tx); err != nil {
		return err
	} else if unchanged {
		return errUnchanged
	}
	return refused
}

// unchanged reports whether the events have just the operations that are asked for,
// or others have them with equal content.
func (x *correction) unchanged(ctx context.Context, tx pgx.Tx) (bool, error) {
	wanted := make(map[string]Transfer, len(x.Transfers))
	for _, t := range x.Transfers {
		if x.batch.ops[t.Operation].reserved {
			return false, nil // it was free
		}
		wanted[t.Operation] = t
	}
	found, err := tx.Query(ctx, `
		SELECT key, debit, credit, asset, amount, COALESCE(kind, ''), COALESCE(hold, CASE WHEN kind = 'total' THEN refunds END, '')
		FROM operations
		WHERE key = ANY($1::text[]
		                || ARRAY(SELECT operation FROM transfers WHERE event_no = ANY($2))
		                || ARRAY(SELECT key FROM operations WHERE event_no = ANY($2) AND kind IN ('hold', 'void'))
		                || ARRAY(SELECT key FROM operations WHERE event_no = ANY($2) AND (unmoved IS NOT NULL OR kind = 'total')))
		  AND (key = ANY($1) OR event_no = ANY($2))`, slices.Collect(maps.Keys(wanted)), x.Replaces)
	if err != nil {
		return false, fmt.Errorf("compare operations: %w", err)
	}
	same := 0
	var t Transfer
	var kind string
	_, err = pgx.ForEachRow(found, []any{&t.Operation, &t.Debit, &t.Credit, &t.Asset, &t.Amount, &kind, &t.Parent}, func() error {
		t.Kind, t.Final = kindOf(kind)
		if !t.Same(wanted[t.Operation]) {
			return errDiffers
		}
		same++
		return nil
	})
	if err != nil && !errors.Is(err, errDiffers) {
		return false, fmt.Errorf("compare operations: %w", err)
	}
	return err == nil && same == len(wanted), nil
}

// errDiffers ends a comparison.
var errDiffers = errors.New("an operation differs")

// refuseTotals refuses a correction of what a running total is about: what that has
// moved depends on what came before. The operations are locked, so that no total comes.
func (x *correction) refuseTotals(ctx context.Context, tx pgx.Tx) error {
	for _, t := range x.Transfers {
		if t.Kind == KindTotal {
			return refuse(ErrCorrectTotal, "%s", named(t.Operation))
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
	return refuse(ErrCorrectTotal, "%s", named(key))
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
			return refuse(ErrCorrectHold, "%s", named(t.Operation))
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
	return refuse(ErrCorrectHold, "%s", named(key))
}
