package ledger

import (
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
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
	for key, op := range b.ops {
		if !op.reserved || op.posted != nil && op.owner == op.event {
			continue
		}
		drop = append(drop, key)
		if op.posted != nil {
			op.claimed, op.event = op.posted, op.owner
			handOver = append(handOver, key)
		}
	}
	slices.Sort(drop)
	slices.Sort(handOver)
	if len(drop) > 0 {
		q.Queue(`DELETE FROM operations WHERE key = ANY($1)`, drop)
	}
	b.reserveOperations(q, handOver)
}

func (b *Batch) writeTransfers(q *pgx.Batch) {
	n := 0
	for _, p := range b.postings {
		n += len(p.Posted)
	}
	events, amounts, numbers := make([]int64, 0, n), make([]int64, 0, n), make([]int16, 0, n)
	ops, debits, credits, assets := make([]string, 0, n), make([]string, 0, n), make([]string, 0, n), make([]string, 0, n)
	for _, p := range b.postings {
		for i := range p.Posted {
			t := &p.Posted[i]
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

// writeBalances adds what the batch moved: first to accounts that are locked, then
// to the others, which it opens on first use, in lock order: the rows of unnest
// arrive, and are locked, as Go sorted them. The limit is always today's, so that a
// changed configuration takes effect.
func (b *Batch) writeBalances(q *pgx.Batch) {
	var locked, others []*account
	for _, a := range b.accounts {
		switch {
		case a.add == delta{} && a.released == sides{}:
		case a.row.Valid && len(b.holds) == 0:
			locked = append(locked, a)
		default:
			others = append(others, a)
		}
	}
	moveLocked(q, locked)
	slices.SortFunc(others, func(a, o *account) int { return a.compare(o.accountKey) })
	switch {
	case len(others) == 0:
	case len(b.holds) > 0:
		b.writeHeld(q, others)
	default:
		move(q, others)
	}
}

// moveLocked moves accounts whose limit stays as it is, by the places of their rows:
// nobody else can move those while they are locked. Should one not be where it was,
// the statement fails, and with it the transaction: it divides by zero.
func moveLocked(q *pgx.Batch, accounts []*account) {
	if len(accounts) == 0 {
		return
	}
	n := len(accounts)
	rows, debits, credits := make([]pgtype.TID, n), make([]int64, n), make([]int64, n)
	for i, a := range accounts {
		rows[i], debits[i], credits[i] = a.row, a.add.debits, a.add.credits
	}
	q.Queue(`
		WITH moved AS (
			UPDATE accounts a
			SET debits_posted = a.debits_posted + k.debits,
			    credits_posted = a.credits_posted + k.credits
			FROM unnest($1::tid[], $2::bigint[], $3::bigint[]) AS k (row, debits, credits)
			WHERE a.ctid = k.row
			RETURNING true)
		SELECT 1 / (count(*) = $4)::integer
		FROM moved`, rows, debits, credits, n)
}

// moved are the columns of accounts that are moved.
type moved struct {
	names, assets, rules, policies []string
	debits, credits                []int64
}

func columns(accounts []*account) moved {
	n := len(accounts)
	m := moved{make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]int64, n), make([]int64, n)}
	for i, a := range accounts {
		m.names[i], m.assets[i], m.debits[i], m.credits[i] = a.name, a.asset, a.add.debits, a.add.credits
		if a.limited() {
			m.rules[i], m.policies[i] = string(a.limit.Rule), a.limit.policy()
		}
	}
	return m
}

func move(q *pgx.Batch, accounts []*account) {
	m := columns(accounts)
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
		m.names, m.assets, m.debits, m.credits, m.rules, m.policies)
}
