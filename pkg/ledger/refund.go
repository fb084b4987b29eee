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
//
//	charge ← refund ← undoing of the refund, which failed
type refunded struct {
	asset  string
	amount int64
	given  int64 // back so far, less what was undone: by others, and by this batch
	// of is what the operation itself gives a part of back, and undoing is set
	// where that is a refund, too.
	of      string
	undoing bool
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
		SELECT o.key, o.asset, o.amount, COALESCE(o.refunds, ''), p.refunds IS NOT NULL
		FROM operations o
		LEFT JOIN operations p ON p.key = o.refunds
		WHERE o.key = ANY($1) AND (o.kind IS NULL OR o.kind IN ('capture', 'final_capture'))
		ORDER BY o.key
		FOR NO KEY UPDATE OF o`, slices.Sorted(maps.Keys(b.refunds))).Query(func(found pgx.Rows) error {
		for key := range b.refunds {
			b.parents.posted[key] = false // it may have been taken back since it was looked at
		}
		for found.Next() {
			var key string
			var r refunded
			if err := found.Scan(&key, &r.asset, &r.amount, &r.of, &r.undoing); err != nil {
				return fmt.Errorf("lock refunded operations: %w", err)
			}
			b.refunds[key], b.parents.posted[key] = &r, true
		}
		return found.Err()
	})
}

// readRefunds reads what others have given back. It is a statement after the locks,
// whose wait would not refresh its snapshot, and after the batch knows which rows
// are its own. What is undone without the lock of its charge only lowers the sum.
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
	found, err := tx.Query(ctx, `
		SELECT r.refunds, sum(r.amount - COALESCE((
		           SELECT sum(u.amount) FROM operations u WHERE u.refunds = r.key AND u.key <> ALL($2)), 0))::bigint
		FROM operations r
		WHERE r.refunds = ANY($1) AND r.key <> ALL($2)
		GROUP BY r.refunds`, slices.Collect(maps.Keys(b.refunds)), own)
	if err != nil {
		return fmt.Errorf("read refunds: %w", err)
	}
	var key string
	var sum int64
	if _, err := pgx.ForEachRow(found, []any{&key, &sum}, func() error { b.refunds[key].given = sum; return nil }); err != nil {
		return fmt.Errorf("read refunds: %w", err)
	}
	return nil
}

// giveBack counts the refunds among a posting's new transfers, all or none.
func (b *Batch) giveBack(fresh []Transfer) error {
	for i, t := range fresh {
		if !t.Refund {
			continue
		}
		if err := b.original(t, fresh).check(t); err != nil {
			b.count(fresh[:i], fresh, -1)
			return err
		}
		b.count(fresh[i:i+1], fresh, 1)
	}
	return nil
}

// count counts the refunds among transfers as given back, or, with sign -1, no
// longer. The undoing of a refund lowers what is given back of the charge.
func (b *Batch) count(transfers, fresh []Transfer, sign int64) {
	for _, t := range transfers {
		if !t.Refund {
			continue
		}
		b.refunds[t.Parent].given += sign * t.Amount
		if charge := b.refunds[b.original(t, fresh).of]; charge != nil {
			charge.given -= sign * t.Amount
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
	var posted *Transfer
	if at := slices.IndexFunc(fresh, func(o Transfer) bool { return o.Operation == t.Parent }); at >= 0 {
		posted = &fresh[at]
	} else if op := b.ops[t.Parent]; op != nil && op.reserved {
		posted = op.posted
	}
	switch {
	case posted == nil:
	case !posted.Kind.moves():
		return refunded{}
	default:
		r.asset, r.amount = posted.Asset, posted.Amount
		if posted.Refund {
			r.of, r.undoing = posted.Parent, b.original(*posted, fresh).of != ""
		}
	}
	return r
}

// check says whether a refund may be given back of r.
func (r refunded) check(t Transfer) error {
	switch {
	case r.amount == 0:
		return fmt.Errorf("%w: %s gives back a part of %q, which does not stand", ErrMissingParent, t.Operation, t.Parent)
	case r.undoing:
		return fmt.Errorf("%w: %s gives back %s, which undoes a refund: post the refund anew", ErrOverRefund, t.Operation, t.Parent)
	case t.Asset != r.asset:
		return fmt.Errorf("%w: %s gives back %s of %s, which is %s", ErrOverRefund, t.Operation, t.Asset, t.Parent, r.asset)
	case t.Amount > r.amount-r.given:
		return fmt.Errorf("%w: %s gives back %d %s of %s, of whose %d are given back %d",
			ErrOverRefund, t.Operation, t.Amount, t.Asset, t.Parent, r.amount, r.given)
	}
	return nil
}

// refunds is the column of that name.
func (t Transfer) refunds() *string {
	if !t.Refund {
		return nil
	}
	return &t.Parent
}

// OverRefunds returns those of some operations of which more is given back than
// their amount, or in another asset, with the sum: a refund less what was undone of
// it counts, and an operation that is not there has no amount. It costs a look at
// each of their refunds.
func OverRefunds(ctx context.Context, q Querier, operations []string) (map[string]int64, error) {
	found, err := q.Query(ctx, `
		SELECT k.key, sum(r.amount - COALESCE(u.amount, 0))::bigint
		FROM (SELECT DISTINCT unnest($1::text[]) AS key) AS k
		LEFT JOIN operations o ON o.key = k.key AND (o.kind IS NULL OR o.kind IN ('capture', 'final_capture'))
		JOIN operations r ON r.refunds = k.key
		LEFT JOIN LATERAL (SELECT sum(amount) AS amount FROM operations WHERE refunds = r.key) AS u ON true
		GROUP BY k.key, o.amount, o.asset
		HAVING sum(r.amount - COALESCE(u.amount, 0)) > COALESCE(o.amount, 0) OR bool_or(r.asset IS DISTINCT FROM o.asset)`, operations)
	if err != nil {
		return nil, fmt.Errorf("compare refunds: %w", err)
	}
	over := make(map[string]int64)
	var key string
	var given int64
	if _, err := pgx.ForEachRow(found, []any{&key, &given}, func() error { over[key] = given; return nil }); err != nil {
		return nil, fmt.Errorf("compare refunds: %w", err)
	}
	return over, nil
}
