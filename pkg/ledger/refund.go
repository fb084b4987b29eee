package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// refunded is an operation of which transfers of the batch give back a part. Its
// row is locked, so that what is given back meanwhile waits.
type refunded struct {
	asset  string
	amount int64
	given  int64 // back so far: by others, and by this batch
}

// refunds are those operations by key. It stays empty, and costs nothing, where
// nothing is given back.
type refunds map[string]*refunded

// name notes what a transfer gives a part of back.
func (r *refunds) name(t Transfer) {
	if !t.Refund || t.Parent == "" {
		return
	}
	if *r == nil {
		*r = refunds{}
	}
	(*r)[t.Parent] = &refunded{}
}

// lockRefunded queues the lock of what is given back, after the operations that are
// reserved and before accounts. What another transaction is about to post is not
// there yet.
func (b *Batch) lockRefunded(q *pgx.Batch) {
	if len(b.refunds) == 0 {
		return
	}
	q.Queue(`
		SELECT key, asset, amount
		FROM operations
		WHERE key = ANY($1)
		ORDER BY key
		FOR NO KEY UPDATE`, slices.Sorted(maps.Keys(b.refunds))).Query(func(found pgx.Rows) error {
		for key := range b.refunds {
			b.parents.posted[key] = false // it may have been taken back since it was looked at
		}
		for found.Next() {
			var key string
			var r refunded
			if err := found.Scan(&key, &r.asset, &r.amount); err != nil {
				return fmt.Errorf("lock refunded operations: %w", err)
			}
			b.refunds[key], b.parents.posted[key] = &r, true
		}
		return found.Err()
	})
}

// readRefunds reads what others have given back. It is a statement after the locks,
// whose wait would not refresh its snapshot, and after the batch knows which rows
// are its own.
func (b *Batch) readRefunds(ctx context.Context, tx Querier) error {
	if len(b.refunds) == 0 {
		return nil
	}
	var own []string
	for key, op := range b.ops {
		if op.reserved {
			own = append(own, key)
		}
	}
	given, err := readGiven(ctx, tx, slices.Collect(maps.Keys(b.refunds)), own)
	for key, sum := range given {
		b.refunds[key].given = sum
	}
	return err
}

// readGiven returns how much of each operation is given back, by all but some.
func readGiven(ctx context.Context, tx Querier, operations, but []string) (map[string]int64, error) {
	found, err := tx.Query(ctx, `
		SELECT refunds, sum(amount)::bigint
		FROM operations
		WHERE refunds = ANY($1) AND key <> ALL($2)
		GROUP BY refunds`, operations, but)
	if err != nil {
		return nil, fmt.Errorf("read refunds: %w", err)
	}
	given := make(map[string]int64, len(operations))
	var key string
	var sum int64
	if _, err := pgx.ForEachRow(found, []any{&key, &sum}, func() error { given[key] = sum; return nil }); err != nil {
		return nil, fmt.Errorf("read refunds: %w", err)
	}
	return given, nil
}

// giveBack counts the refunds among a posting's new transfers, all or none.
func (b *Batch) giveBack(fresh []Transfer) error {
	for i, t := range fresh {
		if !t.Refund {
			continue
		}
		r := b.original(t, fresh)
		if err := r.take(t); err != nil {
			b.keep(fresh[:i])
			return err
		}
		b.refunds[t.Parent].given = r.given
	}
	return nil
}

// keep takes back what giveBack has counted.
func (b *Batch) keep(transfers []Transfer) {
	for _, t := range transfers {
		if t.Refund {
			b.refunds[t.Parent].given -= t.Amount
		}
	}
}

// original is what a refund gives a part of back: posted with it, by the batch, or
// by another transaction before.
func (b *Batch) original(t Transfer, fresh []Transfer) refunded {
	if t.Parent == "" {
		return refunded{}
	}
	r := *b.refunds[t.Parent]
	if at := slices.IndexFunc(fresh, func(o Transfer) bool { return o.Operation == t.Parent }); at >= 0 {
		r.asset, r.amount = fresh[at].Asset, fresh[at].Amount
	} else if op := b.ops[t.Parent]; op != nil && op.posted != nil {
		r.asset, r.amount = op.posted.Asset, op.posted.Amount
	}
	return r
}

// take counts one refund.
func (r *refunded) take(t Transfer) error {
	switch {
	case r.amount == 0:
		return fmt.Errorf("%w: %s gives back a part of %q, which does not stand", ErrMissingParent, t.Operation, t.Parent)
	case t.Asset != r.asset:
		return fmt.Errorf("%w: %s gives back %s of %s, which is %s", ErrOverRefund, t.Operation, t.Asset, t.Parent, r.asset)
	case t.Amount > r.amount-r.given:
		return fmt.Errorf("%w: %s gives back %d %s of %s, of whose %d are given back %d",
			ErrOverRefund, t.Operation, t.Amount, t.Asset, t.Parent, r.amount, r.given)
	}
	r.given += t.Amount
	return nil
}

// refunds is the column of that name.
func (t Transfer) refunds() *string {
	if !t.Refund {
		return nil
	}
	return &t.Parent
}
