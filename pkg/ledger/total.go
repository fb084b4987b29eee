package ledger

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// TotalKey is the operation of a total: what names it (one name for all the totals
// of its parent), with the amount, since the same name comes with growing amounts.
//
// A provider may tell of refunds one by one (items, which are transfers with Refund),
// by the total that was given back of the charge so far (KindTotal), or both, each
// in any order and repeated. For each charge the ledger keeps
//
//	items   the sum of its distinct items
//	seen    the highest total it was told
//	undone  the sum of what was undone of its items, since they failed
//	posted  max(items, seen) − undone
//
// and moves what an event adds to posted, so that the two kinds never count twice:
//
//   - An item adds its amount to items; it may move less than that (Unmoved), or
//     nothing. All items less what was undone of them are at most the charge.
//   - A total higher than seen raises it; another moves nothing. A total above the
//     charge is ErrRefundInvalid.
//   - Of what one event tells, totals count last.
//   - Either is posted all the same, whatever it moves: its operation stands for what
//     it said, and what repeats it is skipped.
//   - An item that fails is undone by a refund of it, which moves its amount back,
//     whatever the item itself has moved. No more is undone of an item than it was.
//
// So the order does not matter, of failures neither. A total of after a failure does
// not count what failed, and one of before it does, and nothing tells the two apart:
// each is taken for one of before. What that leaves out is moved by the items, once
// they are told.
//
// A total is not undone, and is of no refund. Corrections refuse whatever is about a
// charge with totals (ErrCorrectTotal).
func TotalKey(name string, amount int64) string {
	return string(appendPart([]byte(name), strconv.FormatInt(amount, 10)))
}

// moved is what the transfer moves.
func (t Transfer) moved() int64 {
	if !t.Kind.moves() {
		return 0
	}
	return t.Amount - t.Unmoved
}

// count adds a refund or a total.
func (r *refunded) count(t Transfer) {
	switch {
	case t.Kind != KindTotal:
		r.items += t.Amount
	case t.Amount > r.seen:
		r.seen, r.changed = t.Amount, true
	}
}

// undo takes off what was undone of a refund. With more undone than 64 bits count no
// total is above the items.
func (r *refunded) undo(amount int64) {
	r.items -= amount
	if !grow(&r.undone, amount) {
		r.undone = math.MaxInt64
	}
}

// writeTotals says of refunds what was moved before, and writes what was told: the
// rows of the operations are the batch's own, the others are under their locks.
func (b *Batch) writeTotals(q *pgx.Batch) {
	if len(b.refunds) == 0 {
		return
	}
	var keys []string
	var unmoved []int64
	for _, p := range b.postings {
		for _, t := range p.Posted {
			if t.Unmoved > 0 {
				keys, unmoved = append(keys, t.Operation), append(unmoved, t.Unmoved)
			}
		}
	}
	if len(keys) > 0 {
		q.Queue(`
			UPDATE operations o
			SET unmoved = k.unmoved
			FROM unnest($1::text[], $2::bigint[]) AS k (key, unmoved)
			WHERE o.key = k.key`, keys, unmoved)
	}
	var fresh, changed []string
	var first, seen []int64
	for _, key := range slices.Sorted(maps.Keys(b.refunds)) {
		switch r := b.refunds[key]; {
		case !r.changed:
		case r.stored:
			changed, seen = append(changed, key), append(seen, r.seen)
		default:
			fresh, first = append(fresh, key), append(first, r.seen)
		}
	}
	if len(fresh) > 0 {
		q.Queue(`
			INSERT INTO totals (key, seen)
			SELECT *
			FROM unnest($1::text[], $2::bigint[])`, fresh, first)
	}
	if len(changed) > 0 {
		q.Queue(`
			UPDATE totals t
			SET seen = k.seen
			FROM unnest($1::text[], $2::bigint[]) AS k (key, seen)
			WHERE t.key = k.key`, changed, seen)
	}
}

// ToldBy returns of the refunds that events told of those whose Unmoved is not zero, and
// all totals, by event number, in the order of their operations.
func ToldBy(ctx context.Context, q Querier, events []int64) (map[int64][]Transfer, error) {
	found, err := q.Query(ctx, `
		SELECT event_no, key, COALESCE(kind, ''), debit, credit, asset, amount, COALESCE(unmoved, 0), refunds
		FROM operations
		WHERE event_no = ANY($1) AND (unmoved IS NOT NULL OR kind = 'total')
		ORDER BY event_no, key`, events)
	if err != nil {
		return nil, fmt.Errorf("read refunds of events: %w", err)
	}
	told := make(map[int64][]Transfer)
	var no int64
	t := Transfer{Refund: true}
	_, err = pgx.ForEachRow(found, []any{&no, &t.Operation, &t.Kind, &t.Debit, &t.Credit, &t.Asset, &t.Amount, &t.Unmoved, &t.Parent}, func() error {
		told[no] = append(told[no], t)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read refunds of events: %w", err)
	}
	return told, nil
}

// Total is what the books say of the refunds of an operation, in minor units.
type Total struct {
	Operation string
	// Seen is the highest total that is kept, or 0, and Highest what the totals say.
	Seen, Highest int64
	// Items are its refunds less what was Undone of them, which has at most 64 bits,
	// and Moved is what all of those have moved.
	Items, Undone, Moved int64
}

// WrongTotals returns those of some operations whose refunds have not moved what they
// are to move together, or whose total is not what was told: see TotalKey. It costs a
// look at each of their refunds.
func WrongTotals(ctx context.Context, q Querier, operations []string) ([]Total, error) {
	found, err := q.Query(ctx, `
		SELECT k.key, COALESCE(t.seen, 0), r.highest, r.items, LEAST(r.undone, 9223372036854775807)::bigint, r.moved
		FROM (SELECT DISTINCT unnest($1::text[]) AS key) AS k
		LEFT JOIN totals t ON t.key = k.key
		CROSS JOIN LATERAL (
			SELECT (COALESCE(sum(r.amount) FILTER (WHERE r.kind IS DISTINCT FROM 'total'), 0) - COALESCE(sum(u.amount), 0))::bigint AS items,
			       COALESCE(sum(u.amount), 0) AS undone,
			       COALESCE(max(r.amount) FILTER (WHERE r.kind = 'total'), 0) AS highest,
			       (COALESCE(sum(r.amount - COALESCE(r.unmoved, 0)), 0) - COALESCE(sum(u.amount), 0))::bigint AS moved
			FROM operations r
			LEFT JOIN LATERAL (SELECT sum(amount) AS amount FROM operations WHERE refunds = r.key) AS u ON true
			WHERE r.refunds = k.key) AS r
		WHERE r.moved <> GREATEST(r.items, COALESCE(t.seen, 0) - r.undone)
		   OR COALESCE(t.seen, 0) <> r.highest
		ORDER BY k.key`, operations)
	if err != nil {
		return nil, fmt.Errorf("compare totals: %w", err)
	}
	wrong, err := pgx.CollectRows(found, pgx.RowToStructByPos[Total])
	if err != nil {
		return nil, fmt.Errorf("compare totals: %w", err)
	}
	return wrong, nil
}
