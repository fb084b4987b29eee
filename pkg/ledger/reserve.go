package ledger

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// reserveOperations queues the insert of these keys, each for its first transfer.
func (b *Batch) reserveOperations(q *pgx.Batch, keys []string) {
	if len(keys) == 0 {
		return
	}
	n := len(keys)
	ops := make([]*operation, n)
	events, amounts := make([]int64, n), make([]int64, n)
	debits, credits, assets := make([]string, n), make([]string, n), make([]string, n)
	for i, key := range keys {
		ops[i] = b.ops[key]
		events[i], amounts[i] = ops[i].event, ops[i].claimed.Amount
		debits[i], credits[i], assets[i] = ops[i].claimed.Debit, ops[i].claimed.Credit, ops[i].claimed.Asset
	}
	insert, args := reserveSQL, []any{keys, events, debits, credits, assets, amounts}
	if b.wide {
		refunds, kinds, holds := make([]*string, n), make([]*string, n), make([]*string, n)
		for i, op := range ops {
			refunds[i] = op.claimed.refunds()
			kinds[i], holds[i] = op.claimed.stored()
		}
		insert, args = reserveWideSQL, append(args, refunds, kinds, holds)
	}
	q.Queue(insert, args...).Query(func(found pgx.Rows) error {
		var key pgtype.DriverBytes
		for i := 0; found.Next(); i++ {
			if err := found.Scan(&key); err != nil {
				return fmt.Errorf("reserve operations: %w", err)
			}
			op := ops[i] // as long as all of them are new
			if op.key != string(key) {
				op = b.ops[string(key)]
			}
			op.reserved = true
		}
		return found.Err()
	})
}

// Batches without kinds and refunds insert no wider rows than they need.
const (
	reserveSQL = `
		INSERT INTO operations (key, event_no, debit, credit, asset, amount)
		SELECT *
		FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[])
		ON CONFLICT (key) DO NOTHING
		RETURNING key`
	reserveWideSQL = `
		INSERT INTO operations (key, event_no, debit, credit, asset, amount, refunds, kind, hold)
		SELECT *
		FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[])
		ON CONFLICT (key) DO NOTHING
		RETURNING key`
)

// lockAccounts opens, where it may, and locks every limited account of the batch,
// credited ones too: a lock taken here must never be waited for in the second trip.
func (b *Batch) lockAccounts(q *pgx.Batch) {
	var limited []*account
	for _, a := range b.accounts {
		if a.limited() {
			limited = append(limited, a)
		}
	}
	if len(limited) == 0 {
		return
	}
	slices.SortFunc(limited, func(a, o *account) int { return a.compare(o.accountKey) })
	b.openAccounts(q, limited)
	n := len(limited)
	names, assets := make([]string, n), make([]string, n)
	for i, a := range limited {
		names[i], assets[i] = a.name, a.asset
	}
	// A statement of its own: the wait inside the one above does not refresh
	// that statement's snapshot.
	q.Queue(`
		SELECT k.n, a.ctid, a.xmin <> pg_current_xact_id()::xid, a.state,
		       a.debits_posted, a.credits_posted, a.debits_pending, a.credits_pending, a.balance_limit, a.limit_policy
		FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (name, asset, n)
		JOIN accounts a USING (name, asset)
		ORDER BY a.name, a.asset
		FOR NO KEY UPDATE OF a`, names, assets).Query(func(found pgx.Rows) error { return b.noteLocked(found, limited) })
}

// openAccounts queues the insert of those of the accounts that may be new.
func (b *Batch) openAccounts(q *pgx.Batch, limited []*account) {
	var names, assets, rules, policies []string
	for _, a := range limited {
		if a.known = b.Known.has(a.accountKey); a.known || a.limit.Explicit {
			continue
		}
		names, assets = append(names, a.name), append(assets, a.asset)
		rules, policies = append(rules, string(a.limit.Rule)), append(policies, a.limit.policy())
	}
	if len(names) == 0 {
		return
	}
	q.Queue(`
		INSERT INTO accounts (name, asset, balance_limit, limit_policy)
		SELECT *
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
		ON CONFLICT (name, asset) DO NOTHING`, names, assets, rules, policies)
}

// noteLocked reads the rows of locked accounts. Those that this transaction has not
// written itself are committed.
func (b *Batch) noteLocked(found pgx.Rows, limited []*account) error {
	var n int64
	var row pgtype.TID
	var committed bool
	var state, rule, policy pgtype.DriverBytes
	var debits, credits int64
	var pending sides
	for found.Next() {
		if err := found.Scan(&n, &row, &committed, &state, &debits, &credits, &pending.debits, &pending.credits, &rule, &policy); err != nil {
			return fmt.Errorf("lock accounts: %w", err)
		}
		a := limited[n-1]
		a.state, a.debits, a.credits, a.pending = stateOf(state), debits, credits, pending
		if string(rule) == string(a.limit.Rule) && string(policy) == a.limit.policy() {
			a.row = row
		}
		if committed && !a.known && !a.limit.Explicit {
			b.Known.learn(a.accountKey)
		}
	}
	if err := found.Err(); err != nil {
		return err
	}
	var gone error
	for _, a := range limited {
		if a.known && a.state == "" {
			b.Known.forget(a.accountKey)
			gone = fmt.Errorf("%w: account %s in %s is not there any more", ErrRace, a.name, a.asset)
		}
	}
	return gone
}
