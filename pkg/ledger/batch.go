package ledger

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Batch posts many events in one transaction with two round trips: lock what
// may be contended, decide in Go in the order of the stream, write. Locks are
// taken in three classes, operations before holds before accounts, each sorted, so
// that two batches never wait for each other in a circle. A batch with holds takes
// one more round trip.
type Batch struct {
	postings []*Posting
	limits   func(account string) (Limit, bool)
	ops      map[string]*operation
	parents  parents
	refunds  refunds
	holds    holds
	accounts map[accountKey]*account
	// expired are the holds that have expired and are still counted by their
	// accounts' rows, uncovered what facts have captured beyond their holds, by
	// operation; last is set once no more hold comes.
	expired   []*hold
	uncovered map[string]int64
	last      bool
}

// operation is one key of the batch: reserved by us, or there already.
type operation struct {
	key string
	// claimed is the transfer that the reserved row was inserted for.
	claimed Transfer
	event   int64
	// reserved is set if the row is ours to keep or delete.
	reserved bool
	// posted is the content that stands: another transaction's, or what Decide
	// gave it; owner is the event it belongs to.
	posted *Transfer
	owner  int64
}

// account is one account of the batch with what the batch adds to it.
type account struct {
	limit *Limit
	// explicit accounts are not opened by a posting.
	explicit bool
	// state is empty where no row was found, and where only those are looked for
	// that are not open.
	state   State
	debits  int64 // as locked; zero for an account without limit
	credits int64
	// pending is what is held, but for what has expired; released is of the latter
	// what the batch takes off the account's row.
	pending, released sides
	add               delta
}

// sides are two sums of an account.
type sides struct {
	debits, credits int64
}

// delta is what a batch adds to both sides of an account, posted and held.
type delta struct {
	sides
	held sides
}

// NewBatch prepares postings, which must be in the order of the stream. limits
// tells which accounts are bounded.
func NewBatch(limits func(account string) (Limit, bool), postings []*Posting) *Batch {
	b := &Batch{
		postings: postings,
		limits:   limits,
		ops:      make(map[string]*operation, len(postings)),
		accounts: make(map[accountKey]*account, len(postings)),
	}
	for _, p := range postings {
		for _, t := range p.Transfers {
			if b.ops[t.Operation] == nil {
				b.ops[t.Operation] = &operation{key: t.Operation, claimed: t, event: p.EventNo}
			}
			b.parents.name(t.Parent)
			b.refunds.name(t)
			b.holds.name(t)
			if t.Kind == KindVoid {
				continue // its hold says which accounts
			}
			b.open(accountKey{t.Debit, t.Asset})
			b.open(accountKey{t.Credit, t.Asset})
		}
	}
	return b
}

func (b *Batch) open(k accountKey) {
	if b.accounts[k] != nil {
		return
	}
	a := &account{}
	if limit, ok := b.limits(k.name); ok {
		a.explicit = limit.Explicit
		if limit.Rule != "" {
			a.limit = &limit
		}
	}
	b.accounts[k] = a
}

// Reserve queues the first round trip: operations, their parents, what is given
// back, limited accounts, then a look at the others. Where there are holds, they are
// locked instead of accounts.
func (b *Batch) Reserve(q *pgx.Batch) {
	b.reserveOperations(q, sortedKeys(b.ops))
	b.parents.read(q)
	b.lockRefunded(q)
	if len(b.holds) > 0 {
		b.lockHolds(q)
		return
	}
	b.lockAccounts(q)
	b.readStates(q)
}

func sortedKeys(ops map[string]*operation) []string {
	return slices.Sorted(maps.Keys(ops))
}

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
	if len(b.holds) > 0 {
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

// Batches without holds insert no wider rows than they need.
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

// Skip takes a posting out of the batch, for an event that turned out to be
// there already. It must be called before Decide.
func (b *Batch) Skip(p *Posting) {
	p.Transfers = nil
}

// Decide says of every posting whether it is posted, in the order of the stream,
// but parents before their children. It reads the operations that others have
// posted, if there are any, the refunds of others, if there are any here, and what
// has expired on accounts with something held: one more round trip each.
func (b *Batch) Decide(ctx context.Context, tx Sender) error {
	if err := b.readPosted(ctx, tx); err != nil {
		return err
	}
	if err := b.readRefunds(ctx, tx); err != nil {
		return err
	}
	if err := b.lockHeld(ctx, tx); err != nil {
		return err
	}
	for _, p := range b.postings {
		p.Posted, p.Err = b.decide(p)
		b.decideChildren(p.Posted)
	}
	b.decideFacts()
	return nil
}

func (b *Batch) readPosted(ctx context.Context, tx Querier) error {
	var keys []string
	for _, p := range b.postings {
		for _, t := range p.Transfers { // none of a posting that was skipped
			if !b.ops[t.Operation].reserved {
				keys = append(keys, t.Operation)
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	found, err := tx.Query(ctx, `
		SELECT key, event_no, debit, credit, asset, amount, COALESCE(kind, ''), COALESCE(hold, '')
		FROM operations
		WHERE key = ANY($1)`, keys)
	if err != nil {
		return fmt.Errorf("read operations: %w", err)
	}
	for found.Next() {
		var t Transfer
		var owner int64
		var kind string
		if err := found.Scan(&t.Operation, &owner, &t.Debit, &t.Credit, &t.Asset, &t.Amount, &kind, &t.Parent); err != nil {
			return fmt.Errorf("read operations: %w", err)
		}
		t.Kind, t.Final = kindOf(kind)
		op := b.ops[t.Operation]
		op.posted, op.owner = &t, owner
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("read operations: %w", err)
	}
	for _, key := range keys {
		if b.ops[key].posted == nil {
			return fmt.Errorf("%w: %s", ErrRace, key)
		}
	}
	return nil
}

// decide judges one posting against what stands and what the postings before
// it have taken, and books it if it may stand.
func (b *Batch) decide(p *Posting) ([]Transfer, error) {
	p.Awaits = ""
	fresh := make([]Transfer, 0, len(p.Transfers))
	for _, t := range p.Transfers {
		there, owner := b.ops[t.Operation].posted, b.ops[t.Operation].owner
		if at := slices.IndexFunc(fresh, func(f Transfer) bool { return f.Operation == t.Operation }); at >= 0 {
			there, owner = &fresh[at], p.EventNo
		}
		if there == nil {
			fresh = append(fresh, t)
			continue
		}
		if !there.Same(t) {
			return nil, conflict(*there, t, owner)
		}
	}
	if child, ok := b.orphan(fresh); ok {
		return nil, b.await(p, child)
	}
	if err := b.giveBack(fresh); err != nil {
		return nil, err
	}
	held, undo, err := b.holdsOf(p, fresh)
	if err == nil {
		err = b.book(fresh, held...)
	}
	if err != nil {
		undo()
		b.count(fresh, fresh, -1)
		return nil, err
	}
	for _, t := range fresh {
		op := b.ops[t.Operation]
		op.posted, op.owner = &t, p.EventNo
	}
	return fresh, nil
}

func conflict(there, asked Transfer, owner int64) error {
	return fmt.Errorf("%w: %s: event %d %s, this one asks for %s", ErrOperationConflict, asked.Operation, owner, there.words("posted "), asked.words(""))
}

// words says a transfer in words, with what is said of one that moves money.
func (t Transfer) words(posted string) string {
	switch t.Kind {
	case KindVoid:
		return "a void of " + t.Parent
	case KindHold:
		posted = "a hold of "
	}
	return fmt.Sprintf("%s%d %s from %s to %s", posted, t.Amount, t.Asset, t.Debit, t.Credit)
}

// touched is an account that a posting books on, as it was before.
type touched struct {
	accountKey
	*account
	was delta
}

// book adds transfers, and what they hold or release, to the batch's accounts, all
// or none.
func (b *Batch) book(transfers []Transfer, held ...reservation) error {
	before := make([]touched, 0, 2*len(transfers))
	err := b.move(transfers, held, &before)
	for _, t := range before {
		if err == nil {
			err = t.check(t.accountKey, t.was)
		}
	}
	if err != nil {
		for _, t := range before {
			t.add = t.was
		}
	}
	return err
}

// move adds transfers to their accounts and notes in before how those stood.
func (b *Batch) move(transfers []Transfer, held []reservation, before *[]touched) error {
	touch := func(k accountKey) *account {
		a := b.accounts[k]
		if !slices.ContainsFunc(*before, func(t touched) bool { return t.account == a }) {
			*before = append(*before, touched{k, a, a.add})
		}
		return a
	}
	for _, r := range held {
		debitOK := grow(&touch(r.debit).add.held.debits, r.amount)
		creditOK := grow(&touch(r.credit).add.held.credits, r.amount)
		if !debitOK || !creditOK {
			return fmt.Errorf("%w: what is held would exceed 64 bits", ErrAmountOverflow)
		}
	}
	for _, t := range transfers {
		if !t.Kind.moves() {
			continue
		}
		debitOK := grow(&touch(accountKey{t.Debit, t.Asset}).add.debits, t.Amount)
		creditOK := grow(&touch(accountKey{t.Credit, t.Asset}).add.credits, t.Amount)
		if !debitOK || !creditOK {
			return fmt.Errorf("%w: %s: a balance would exceed 64 bits", ErrAmountOverflow, t.Operation)
		}
	}
	return nil
}

// grow adds amount unless the sum does not fit.
func grow(sum *int64, amount int64) bool {
	if amount > 0 && *sum > math.MaxInt64-amount {
		return false
	}
	*sum += amount
	return true
}

// check says whether the account may take what came on top of was, and still keeps
// its limit. Money that only eases the bounded side is never refused, even on an account
// that was over its limit before it had one.
func (a *account) check(k accountKey, was delta) error {
	if err := a.admit(k, was); err != nil || a.limit == nil {
		return err
	}
	debits, credits := a.debits, a.credits
	pending := a.pending
	if !grow(&debits, a.add.debits) || !grow(&credits, a.add.credits) ||
		!grow(&pending.debits, a.add.held.debits) || !grow(&pending.credits, a.add.held.credits) {
		return fmt.Errorf("%w: account %s: the balance would exceed 64 bits", ErrAmountOverflow, k.name)
	}
	boundedBefore, heldBefore, _ := a.against(was)
	bounded, held, bound := a.against(a.add)
	grown := bounded-boundedBefore > heldBefore-held
	if a.limit.Enforce && grown && bounded > bound-held {
		return fmt.Errorf("%w: account %s (%s, minor units): %s: %d posted and %d held against %d",
			ErrInsufficientFunds, k.name, k.asset, a.limit.Rule, bounded, held, bound)
	}
	return nil
}

// against returns the account's bounded side, what is held on it, and the side
// that bounds it, with add on top of what is locked.
func (a *account) against(add delta) (bounded, held, bound int64) {
	debits, credits := a.debits+add.debits, a.credits+add.credits
	if a.limit.Rule == CreditsMustNotExceedDebits {
		return credits, a.pending.credits + add.held.credits, debits
	}
	return debits, a.pending.debits + add.held.debits, credits
}

// passed reports whether the account is past its limit with add on top.
func (a *account) passed(add delta) bool {
	bounded, held, bound := a.against(add)
	return bounded > bound-held
}

// Overdrawn returns the accounts that the batch took past a limit which is only
// recorded: facts that a person should know of. It is complete after Decide.
func (b *Batch) Overdrawn() []string {
	var names []string
	for k, a := range b.accounts {
		if a.limit == nil || a.limit.Enforce || a.add == (delta{}) {
			continue
		}
		if !a.passed(delta{}) && a.passed(a.add) {
			names = append(names, k.name)
		}
	}
	slices.Sort(names)
	return names
}
