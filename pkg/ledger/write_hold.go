package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// finalCapture is the stored kind of a capture that is the last of its hold.
const finalCapture = "final_capture"

// stored are the columns kind and hold of the operation.
func (t Transfer) stored() (kind, hold *string) {
	k := string(t.Kind)
	switch {
	case t.Kind == "":
		return nil, nil
	case t.Kind == KindHold, t.Kind == KindTotal:
		return &k, nil
	case t.Kind == KindCapture && t.Final:
		k = finalCapture
	}
	return &k, &t.Parent
}

// kindOf is what a stored kind says.
func kindOf(stored string) (kind Kind, final bool) {
	if stored == finalCapture {
		return KindCapture, true
	}
	return Kind(stored), false
}

// writeHolds gives back the rows that were reserved for nothing, and writes what
// became of the holds: all of those rows are locked.
func (b *Batch) writeHolds(q *pgx.Batch) {
	var drop []string
	var keys, closed, assets []string
	var captured []int64
	var fresh opened
	for _, key := range slices.Sorted(maps.Keys(b.holds)) {
		h := b.holds[key]
		switch {
		case h.reserved && !h.changed:
			drop = append(drop, key)
		case h.changed:
			keys, closed, assets, captured = append(keys, key), append(closed, h.closed), append(assets, h.asset), append(captured, h.captured)
			if h.opened {
				fresh.add(key, h)
			}
		}
	}
	if len(drop) > 0 {
		q.Queue(`DELETE FROM holds WHERE key = ANY($1)`, drop)
	}
	if len(keys) == 0 {
		return
	}
	q.Queue(`
		UPDATE holds h
		SET asset = NULLIF(k.asset, ''), captured = k.captured, closed = NULLIF(k.closed, '')
		FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[]) AS k (key, asset, captured, closed)
		WHERE h.key = k.key`, keys, assets, captured, closed)
	fresh.write(q)
}

// opened are the columns of new holds.
type opened struct {
	keys, debits, credits     []string
	events, amounts, expiries []int64
}

func (o *opened) add(key string, h *hold) {
	o.keys, o.debits, o.credits = append(o.keys, key), append(o.debits, h.debit), append(o.credits, h.credit)
	o.events, o.amounts = append(o.events, h.event), append(o.amounts, h.amount)
	o.expiries = append(o.expiries, int64(h.expires/time.Microsecond))
}

func (o *opened) write(q *pgx.Batch) {
	if len(o.keys) == 0 {
		return
	}
	q.Queue(`
		UPDATE holds h
		SET event_no = k.event, debit = k.debit, credit = k.credit, amount = k.amount,
		    expires_at = now() + k.expires * interval '1 microsecond'
		FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::bigint[])
		     AS k (key, event, debit, credit, amount, expires)
		WHERE h.key = k.key`, o.keys, o.events, o.debits, o.credits, o.amounts, o.expiries)
}

// writeHeld is writeBalances of a batch with holds. What is released cannot be
// proposed as a new row's balance, which must not be negative: it is looked up, by
// asset and name.
func (b *Batch) writeHeld(q *pgx.Batch, accounts []*account) {
	n, m := len(accounts), columns(accounts)
	heldDebits, heldCredits := make([]int64, n), make([]int64, n)
	released := map[string][2]int64{}
	for i, a := range accounts {
		by := sides{a.add.held.debits - a.released.debits, a.add.held.credits - a.released.credits}
		heldDebits[i], heldCredits[i] = max(by.debits, 0), max(by.credits, 0)
		if by.debits < 0 || by.credits < 0 {
			released[a.asset+" "+a.name] = [2]int64{max(-by.debits, 0), max(-by.credits, 0)}
		}
	}
	q.Queue(`
		INSERT INTO accounts AS a (name, asset, debits_posted, credits_posted, debits_pending, credits_pending, balance_limit, limit_policy)
		SELECT name, asset, debits, credits, held_debits, held_credits, NULLIF(rule, ''), NULLIF(policy, '')
		FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::bigint[])
		     AS moved (name, asset, debits, credits, rule, policy, held_debits, held_credits)
		ON CONFLICT (name, asset) DO UPDATE
		SET debits_posted = a.debits_posted + excluded.debits_posted,
		    credits_posted = a.credits_posted + excluded.credits_posted,
		    debits_pending = a.debits_pending + excluded.debits_pending
		                     - COALESCE(($9::jsonb -> (a.asset || ' ' || a.name) ->> 0)::bigint, 0),
		    credits_pending = a.credits_pending + excluded.credits_pending
		                      - COALESCE(($9 -> (a.asset || ' ' || a.name) ->> 1)::bigint, 0),
		    balance_limit = excluded.balance_limit,
		    limit_policy = excluded.limit_policy`,
		m.names, m.assets, m.debits, m.credits, m.rules, m.policies, heldDebits, heldCredits, released)
}
