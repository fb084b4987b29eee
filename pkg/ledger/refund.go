package ledger

import (
	"context"
	"fmt"
	"maps"
	"math"
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
	// items are the refunds of it, less what was undone of them, and seen is the
	// highest total told: by others, and by this batch.
	items, undone, seen int64
	// stored is set where the row of seen is there, and changed where it is to be
	// written.
	stored, changed bool
	// of is what the operation itself gives a part of back, and undoing is set
	// where that is a refund, too; total where the operation is a total.
	of             string
	undoing, total bool
}

// given is what is given back: what the refunds of it have moved together.
func (r *refunded) given() int64 { return max(r.items, r.seen-r.undone) }

// refunds are those operations by key. It stays empty, and costs nothing, where
// nothing is given back.
type refunds map[string]*refunded

// name notes what a transfer gives a part of back.
func (r *refunds) name(t Transfer) {
	if !t.givesBack() || t.Parent == "" {
		return
	}
	if *r == nil {
		*r = refunds{}
	}
	(*r)[t.Parent] = &refunded{}
}

// givesBack reports whether a transfer is a refund, or the total of some.
func (t Transfer) givesBack() bool { return t.Refund || t.Kind == KindTotal }

// lockRefunded queues the lock of what is given back, after the operations that are
// reserved and before accounts. What another transaction is about to post is not
// there yet.
func (b *Batch) lockRefunded(q *pgx.Batch) {
	if len(b.refunds) == 0 {
		return
	}
	q.Queue(`
		SELECT o.key, o.asset, o.amount, COALESCE(o.refunds, ''), p.refunds IS NOT NULL, o.kind IS NOT DISTINCT FROM 'total'
		FROM operations o
		LEFT JOIN operations p ON p.key = o.refunds
		WHERE o.key = ANY($1) AND (o.kind IS NULL OR o.kind IN ('capture', 'final_capture', 'total'))
		ORDER BY o.key
		FOR NO KEY UPDATE OF o`, slices.Sorted(maps.Keys(b.refunds))).Query(func(found pgx.Rows) error {
		for key := range b.refunds {
			b.parents.posted[key] = false // it may have been taken back since it was looked at
		}
		for found.Next() {
			var key string
			var r refunded
			if err := found.Scan(&key, &r.asset, &r.amount, &r.of, &r.undoing, &r.total); err != nil {
				return fmt.Errorf("lock refunded operations: %w", err)
			}
			b.refunds[key], b.parents.posted[key] = &r, true
		}
		return found.Err()
	})
}

// readRefunds reads what others have given back. It is a statement after the locks,
// whose wait would not refresh its snapshot, and after the batch knows which rows
// are its own. What is undone without the lock of its charge only lowers what is
// given back, and what that leaves to give back is the same.
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
		SELECT r.refunds, COALESCE(sum(r.amount - COALESCE(u.amount, 0)) FILTER (WHERE r.kind IS DISTINCT FROM 'total'), 0)::bigint,
		       LEAST(COALESCE(sum(u.amount), 0), 9223372036854775807)::bigint,
		       (SELECT t.seen FROM totals t WHERE t.key = r.refunds)
		FROM operations r
		LEFT JOIN LATERAL (SELECT sum(u.amount) AS amount FROM operations u WHERE u.refunds = r.key AND u.key <> ALL($2)) AS u ON true
		WHERE r.refunds = ANY($1) AND r.key <> ALL($2)
		GROUP BY r.refunds`, slices.Collect(maps.Keys(b.refunds)), own)
	if err != nil {
		return fmt.Errorf("read refunds: %w", err)
	}
	var key string
	var items, undone int64
	var seen *int64
	_, err = pgx.ForEachRow(found, []any{&key, &items, &undone, &seen}, func() error {
		r := b.refunds[key]
		r.items, r.undone = items, undone
		if seen != nil {
			r.seen, r.stored = *seen, true
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read refunds: %w", err)
	}
	return nil
}

// giveBack counts the refunds among a posting's new transfers, all or none, and sets
// what of them is moved already. undo takes all of that back.
func (b *Batch) giveBack(fresh []Transfer) (undo func(), err error) {
	undo = func() {}
	if !slices.ContainsFunc(fresh, Transfer.givesBack) {
		return undo, nil
	}
	was := map[*refunded]refunded{}
	undo = func() {
		for r, before := range was {
			*r = before
		}
	}
	for _, i := range counted(fresh) {
		t := fresh[i]
		original := b.original(t, fresh)
		if err := original.check(t, stays(t, fresh)); err != nil {
			undo()
			return undo, err
		}
		r, charge := b.refunds[t.Parent], b.refunds[original.of]
		for _, each := range []*refunded{r, charge} {
			if _, noted := was[each]; each != nil && !noted {
				was[each] = *each
			}
		}
		before := r.given()
		r.count(t)
		fresh[i].Unmoved = t.Amount - (r.given() - before)
		if charge != nil {
			charge.undo(t.Amount)
		}
	}
	return undo, nil
}

// counted returns the places of the refunds among a posting's new transfers in the
// order in which they count: as they stand, but a refund before what undoes it, and
// totals last, which tell of the posting's own refunds, too.
func counted(fresh []Transfer) (order []int) {
	var add func(i int)
	add = func(i int) {
		if !fresh[i].givesBack() || slices.Contains(order, i) {
			return
		}
		if at := slices.IndexFunc(fresh, func(o Transfer) bool { return o.Operation == fresh[i].Parent }); at >= 0 {
			add(at)
		}
		order = append(order, i)
	}
	for _, totals := range []bool{false, true} {
		for i, t := range fresh {
			if (t.Kind == KindTotal) == totals {
				add(i)
			}
		}
	}
	return order
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
		r.asset, r.amount, r.total = posted.Asset, posted.Amount, posted.Kind == KindTotal
		if posted.givesBack() {
			r.of, r.undoing = posted.Parent, b.original(*posted, fresh).of != ""
		}
	}
	return r
}

// stays is what of a refund its own posting does not undo: an event may tell of one
// along with its failure.
func stays(t Transfer, fresh []Transfer) int64 {
	amount := t.Amount
	for _, o := range fresh {
		if o.Refund && o.Parent == t.Operation {
			amount -= min(amount, o.Amount)
		}
	}
	return amount
}

// check says whether a refund of which stays is left may be given back of r, and if
// not, whether it may later: another refund of r may fail, and even one above r may
// be told again along with its failure. Nothing else of r changes.
func (r refunded) check(t Transfer, stays int64) error {
	before := r.items
	if t.Kind == KindTotal {
		before = 0
	}
	switch {
	case r.amount == 0:
		return refuse(ErrMissingParent, "%s gives back a part of %s, which does not stand", named(t.Operation), named(t.Parent))
	case r.total:
		return refuse(ErrRefundInvalid, "%s gives back %s, which is a total: name the refund itself", named(t.Operation), named(t.Parent))
	case r.undoing:
		return refuse(ErrRefundInvalid, "%s gives back %s, which undoes a refund: post the refund anew", named(t.Operation), named(t.Parent))
	case r.of != "" && t.Kind == KindTotal:
		return refuse(ErrRefundInvalid, "%s is a total of %s, which is a refund: undo that by its amount", named(t.Operation), named(t.Parent))
	case t.Asset != r.asset:
		return refuse(ErrRefundInvalid, "%s gives back %s of %s, which is %s", named(t.Operation), t.Asset, named(t.Parent), r.asset)
	case t.Kind == KindTotal && t.Amount > r.amount:
		return refuse(ErrRefundInvalid, "%s says that %s of %s are given back so far, which is %s",
			named(t.Operation), t.money(), named(t.Parent), money{r.amount, t.Asset})
	case t.Amount > math.MaxInt64-before:
		return refuse(ErrAmountOverflow, "%s: the refunds of %s would exceed 64 bits", named(t.Operation), named(t.Parent))
	case stays > r.amount-before:
		over := ErrOverRefund
		if r.of != "" {
			over = ErrRefundInvalid // what is undone of a refund only grows
		}
		return refuse(over, "%s gives back %s of %s, of whose %s are given back %s",
			named(t.Operation), t.money(), named(t.Parent), money{r.amount, t.Asset}, money{before, t.Asset})
	}
	return nil
}

// refunds is the column of that name.
func (t Transfer) refunds() *string {
	if !t.givesBack() {
		return nil
	}
	return &t.Parent
}

// OverRefunds returns those of some operations of which more is given back than
// their amount, or in another asset, with that sum or, if it is more, the highest
// total: a refund less what was undone of it counts, and an operation that is not
// there has no amount. It costs a look at each of their refunds.
func OverRefunds(ctx context.Context, q Querier, operations []string) (map[string]int64, error) {
	found, err := q.Query(ctx, `
		SELECT key, given
		FROM (
			SELECT k.key, o.amount, bool_or(r.asset IS DISTINCT FROM o.asset) AS other,
			       GREATEST(sum(r.amount - COALESCE(u.amount, 0)) FILTER (WHERE r.kind IS DISTINCT FROM 'total'), max(r.amount) FILTER (WHERE r.kind = 'total'))::bigint AS given
			FROM (SELECT DISTINCT unnest($1::text[]) AS key) AS k
			LEFT JOIN operations o ON o.key = k.key AND (o.kind IS NULL OR o.kind IN ('capture', 'final_capture'))
			JOIN operations r ON r.refunds = k.key
			LEFT JOIN LATERAL (SELECT sum(amount) AS amount FROM operations WHERE refunds = r.key) AS u ON true
			GROUP BY k.key, o.amount) AS k
		WHERE given > COALESCE(amount, 0) OR other`, operations)
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
