package ledger

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// reserveOperations queues the insert of these keys, each for its first transfer.
func (b *Batch) reserveOperations(q *pgx.Batch, keys []string) {
	if len(keys) == 0 {
		return
	}
	n := len(keys)
	events, amounts := make([]int64, n), make([]int64, n)
	debits, credits, assets := make([]string, n), make([]string, n), make([]string, n)
	refunds := make([]*string, n)
	for i, key := range keys {
		op := b.ops[key]
		events[i], amounts[i], refunds[i] = op.event, op.claimed.Amount, op.claimed.refunds()
		debits[i], credits[i], assets[i] = op.claimed.Debit, op.claimed.Credit, op.claimed.Asset
	}
	insert, args := reserveSQL, []any{keys, events, debits, credits, assets, amounts, refunds}
	if b.kinds {
		kinds, holds := make([]*string, n), make([]*string, n)
		for i, key := range keys {
			kinds[i], holds[i] = b.ops[key].claimed.stored()
		}
		insert, args = reserveKindsSQL, append(args, kinds, holds)
	}
	q.Queue(insert, args...).Query(func(found pgx.Rows) error {
		reserved, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("reserve operations: %w", err)
		}
		for _, key := range reserved {
			b.ops[key].reserved = true
		}
		return nil
	})
}

// Batches without kinds insert no wider rows than they need.
const (
	reserveSQL = `
		INSERT INTO operations (key, event_no, debit, credit, asset, amount, refunds)
		SELECT *
		FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[])
		ON CONFLICT (key) DO NOTHING
		RETURNING key`
	reserveKindsSQL = `
		INSERT INTO operations (key, event_no, debit, credit, asset, amount, refunds, kind, hold)
		SELECT *
		FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[])
		ON CONFLICT (key) DO NOTHING
		RETURNING key`
)

// lockAccounts opens, where it may, and locks every limited account of the batch,
// credited ones too: a lock taken here must never be waited for in the second trip.
func (b *Batch) lockAccounts(q *pgx.Batch) {
	var keys []accountKey
	for k, a := range b.accounts {
		if a.limit != nil {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return
	}
	slices.SortFunc(keys, accountKey.compare)
	n := len(keys)
	names, assets, rules, policies := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	explicit := make([]bool, n)
	for i, k := range keys {
		limit := b.accounts[k].limit
		names[i], assets[i], rules[i], policies[i] = k.name, k.asset, string(limit.Rule), limit.policy()
		explicit[i] = limit.Explicit
	}
	q.Queue(`
		INSERT INTO accounts (name, asset, balance_limit, limit_policy)
		SELECT name, asset, rule, policy
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bool[]) AS k (name, asset, rule, policy, explicit)
		WHERE NOT explicit
		ON CONFLICT (name, asset) DO NOTHING`, names, assets, rules, policies, explicit)
	// A statement of its own: the wait inside the one above does not refresh
	// that statement's snapshot.
	q.Queue(`
		SELECT a.name, a.asset, a.state, a.debits_posted, a.credits_posted, a.debits_pending, a.credits_pending
		FROM unnest($1::text[], $2::text[]) AS k (name, asset)
		JOIN accounts a USING (name, asset)
		ORDER BY a.name, a.asset
		FOR NO KEY UPDATE OF a`, names, assets).Query(func(found pgx.Rows) error {
		for found.Next() {
			var k accountKey
			var state State
			var debits, credits int64
			var pending sides
			if err := found.Scan(&k.name, &k.asset, &state, &debits, &credits, &pending.debits, &pending.credits); err != nil {
				return fmt.Errorf("lock accounts: %w", err)
			}
			a := b.accounts[k]
			a.state, a.debits, a.credits, a.pending = state, debits, credits, pending
		}
		return found.Err()
	})
}
