package ledger

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Write queues the second round trip: what Decide has let through, accounts
// last. It queues nothing where nothing was let through and nothing reserved.
func (b *Batch) Write(q *pgx.Batch) {
	b.settleOperations(q)
	b.writeHolds(q)
	b.writeTotals(q)
	b.writeTransfers(q)
	b.writeBalances(q)
}

// settleOperations gives back what was reserved for postings that were refused,
// and hands over what another posting of the batch has taken since.
func (b *Batch) settleOperations(q *pgx.Batch) {
	var drop, handOver []string
	for _, key := range sortedKeys(b.ops) {
		op := b.ops[key]
		if !op.reserved || op.posted != nil && op.owner == op.event {
			continue
		}
		drop = append(drop, key)
		if op.posted != nil {
			op.claimed, op.event = *op.posted, op.owner
			handOver = append(handOver, key)
		}
	}
	if len(drop) > 0 {
		q.Queue(`DELETE FROM operations WHERE key = ANY($1)`, drop)
	}
	b.reserveOperations(q, handOver)
}

func (b *Batch) writeTransfers(q *pgx.Batch) {
	var (
		events, amounts              []int64
		numbers                      []int16
		ops, debits, credits, assets []string
	)
	for _, p := range b.postings {
		for i, t := range p.Posted {
			if t.moved() == 0 {
				continue
			}
			events, amounts, numbers = append(events, p.EventNo), append(amounts, t.moved()), append(numbers, int16(i))
			ops, debits, credits, assets = append(ops, t.Operation), append(debits, t.Debit), append(credits, t.Credit), append(assets, t.Asset)
		}
	}
	if len(events) == 0 {
		return
	}
	if len(b.uncovered) > 0 {
		uncovered := make([]*int64, len(ops))
		for i, key := range ops {
			if amount, ok := b.uncovered[key]; ok {
				uncovered[i] = &amount
			}
		}
		q.Queue(`
			INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount, uncovered)
			SELECT *
			FROM unnest($1::bigint[], $2::smallint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[])`,
			events, numbers, ops, debits, credits, assets, amounts, uncovered)
		return
	}
	q.Queue(`
		INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount)
		SELECT *
		FROM unnest($1::bigint[], $2::smallint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])`,
		events, numbers, ops, debits, credits, assets, amounts)
}

// writeBalances opens accounts on first use and adds what the batch moved, in
// lock order: the rows of unnest arrive, and are locked, as Go sorted them. The
// limit is always today's, so that a changed configuration takes effect.
func (b *Batch) writeBalances(q *pgx.Batch) {
	keys := slices.SortedFunc(maps.Keys(b.accounts), accountKey.compare)
	keys = slices.DeleteFunc(keys, func(k accountKey) bool { return b.accounts[k].add == delta{} && b.accounts[k].released == sides{} })
	if len(keys) == 0 {
		return
	}
	n := len(keys)
	names, assets, rules, policies := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	debits, credits := make([]int64, n), make([]int64, n)
	for i, k := range keys {
		a := b.accounts[k]
		names[i], assets[i], debits[i], credits[i] = k.name, k.asset, a.add.debits, a.add.credits
		if a.limit != nil {
			rules[i], policies[i] = string(a.limit.Rule), a.limit.policy()
		}
	}
	if len(b.holds) > 0 {
		b.writeHeld(q, keys, names, assets, debits, credits, rules, policies)
		return
	}
	q.Queue(`
		INSERT INTO accounts AS a (name, asset, debits_posted, credits_posted, balance_limit, limit_policy)
		SELECT name, asset, debits, credits, NULLIF(rule, ''), NULLIF(policy, '')
		FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[])
		     AS moved (name, asset, debits, credits, rule, policy)
		ON CONFLICT (name, asset) DO UPDATE
		SET debits_posted = a.debits_posted + excluded.debits_posted,
		    credits_posted = a.credits_posted + excluded.credits_posted,
		    balance_limit = excluded.balance_limit,
		    limit_policy = excluded.limit_policy`,
		names, assets, debits, credits, rules, policies)
}
