package ledger

import (
	"context"
	"fmt"
	"maps"
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
//	posted  max(items, seen)
//
// and moves what an event adds to posted, so that the two kinds never count twice:
//
//   - An item adds its amount to items; it may move less than that (Unmoved), or
//     nothing. All items together are at most the charge.
//   - A total higher than seen raises it; another moves nothing. A total above the
//     charge is ErrOverRefund.
//   - Of what one event tells, totals count last.
//   - Either is posted all the same, whatever it moves: its operation stands for what
//     it said, and what repeats it is skipped. So of items and totals that only come
//     in, the order does not matter.
//   - An item that fails is undone by a refund of it. It lowers items and seen (not
//     below zero) by its amount and moves exactly that back, since posted is at least
//     items. No more is undone of an item than it was.
//   - seen is what was told in the order of arrival: a total from before a failure
//     that comes after it counts as a new one, and a total that was told before the
//     failure and is reached again is a repeat. Where that matters the name of the
//     total needs a part that tells the two apart; whoever tells of items too needs
//     none.
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
	if t.Kind != KindTotal {
		r.items += t.Amount
		return
	}
	r.seen = max(r.seen, t.Amount)
	r.told, r.changed = true, true
}

// undo takes off what was undone of a refund.
func (r *refunded) undo(amount int64) {
	r.items -= amount
	if r.told {
		r.seen, r.changed = max(0, r.seen-amount), true
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
	// Seen is the highest total told, lowered by what was undone since, and Told is
	// whether there is one.
	Seen int64
	Told bool
	// Items are its refunds less what was Undone of them, Highest is the highest
	// total of all, and Moved is what all of those have moved.
	Items, Undone, Highest, Moved int64
}

// WrongTotals returns those of some operations whose refunds have not moved what they
// are to move together, or whose total is not what was told: see TotalKey. It costs a
// look at each of their refunds.
func WrongTotals(ctx context.Context, q Querier, operations []string) ([]Total, error) {
	found, err := q.Query(ctx, `
		SELECT k.key, COALESCE(t.seen, 0), t.key IS NOT NULL, r.items, r.undone, r.highest, r.moved
		FROM (SELECT DISTINCT unnest($1::text[]) AS key) AS k
		LEFT JOIN totals t ON t.key = k.key
		CROSS JOIN LATERAL (
			SELECT COALESCE(sum(r.amount) FILTER (WHERE r.kind IS DISTINCT FROM 'total'), 0)::bigint - COALESCE(sum(u.amount), 0)::bigint AS items,
			       COALESCE(sum(u.amount), 0)::bigint AS undone,
			       COALESCE(max(r.amount) FILTER (WHERE r.kind = 'total'), 0) AS highest,
			       COALESCE(sum(r.amount - COALESCE(r.unmoved, 0)), 0)::bigint - COALESCE(sum(u.amount), 0)::bigint AS moved
			FROM operations r
			LEFT JOIN LATERAL (SELECT sum(amount) AS amount FROM operations WHERE refunds = r.key) AS u ON true
			WHERE r.refunds = k.key) AS r
		WHERE r.moved <> GREATEST(r.items, COALESCE(t.seen, 0))
		   OR (t.key IS NULL) <> (r.highest = 0)
		   OR t.seen NOT BETWEEN r.highest - r.undone AND r.highest
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
