package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Batch posts many events in one transaction with two round trips: lock what
// may be contended, decide in Go in the order of the stream, write. Locks are
// taken in three classes, operations before holds before accounts, each sorted, so
// that two batches never wait for each other in a circle. A batch with holds takes
// one more round trip.
type Batch struct {
	// Known, if it is set before Reserve, spares accounts that are there already the
	// look whether they have to be opened. It may be shared by batches.
	Known *Known

	postings []*Posting
	limits   func(account string) (Limit, bool)
	ops      map[string]*operation
	parents  parents
	refunds  refunds
	holds    holds
	accounts map[accountKey]*account
	// spare is memory for accounts: one piece instead of many.
	spare []account
	// expired are the holds that have expired and are still counted by their
	// accounts' rows, uncovered what facts have captured beyond their holds, by
	// operation; last is set once no more hold comes.
	expired   []*hold
	uncovered map[string]int64
	last      bool
	// wide is set where operations have kinds, or are refunds.
	wide bool
}

// operation is one key of the batch: reserved by us, or there already.
type operation struct {
	key string
	// claimed is the transfer that the reserved row was inserted for.
	claimed *Transfer
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
	accountKey
	// limit is what bounds it, and says whether a posting may open it.
	limit Limit
	// known is set where the account was not opened, since it is there already.
	known bool
	// row is where a locked account's row is until the transaction ends; not valid
	// where the row says another limit, and there is none without a limit.
	row pgtype.TID
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
	n := 0
	for _, p := range postings {
		n += len(p.Transfers)
	}
	b := &Batch{
		postings: postings,
		limits:   limits,
		ops:      make(map[string]*operation, n),
		accounts: make(map[accountKey]*account, n),
		spare:    make([]account, n),
	}
	ops := make([]operation, 0, n) // one piece of memory instead of n
	for _, p := range postings {
		for i := range p.Transfers {
			t := &p.Transfers[i]
			if b.ops[t.Operation] == nil {
				ops = append(ops, operation{key: t.Operation, claimed: t, event: p.EventNo})
				b.ops[t.Operation] = &ops[len(ops)-1]
			}
			b.name(t)
		}
	}
	return b
}

// name notes what a transfer is about.
func (b *Batch) name(t *Transfer) {
	b.parents.name(t.Parent)
	b.refunds.name(*t)
	b.holds.name(*t)
	b.wide = b.wide || t.Kind != "" || t.Refund
	if t.Kind == KindVoid {
		return // its hold says which accounts
	}
	b.open(accountKey{t.Debit, t.Asset})
	b.open(accountKey{t.Credit, t.Asset})
}

func (b *Batch) open(k accountKey) {
	if b.accounts[k] != nil {
		return
	}
	if len(b.spare) == 0 {
		b.spare = make([]account, max(len(b.postings), 2))
	}
	a := &b.spare[0]
	b.spare = b.spare[1:]
	a.accountKey = k
	if limit, ok := b.limits(k.name); ok {
		a.limit = limit
	}
	b.accounts[k] = a
}

// limited reports whether a balance of the account is bounded.
func (a *account) limited() bool { return a.limit.Rule != "" }

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
		SELECT key, event_no, debit, credit, asset, amount, COALESCE(kind, ''), COALESCE(hold, CASE WHEN kind = 'total' THEN refunds END, '')
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
		op := b.ops[t.Operation]
		there, owner := op.posted, op.owner
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
	forget, err := b.giveBack(fresh)
	if err != nil {
		return nil, err
	}
	held, undo, err := b.holdsOf(p, fresh)
	if err == nil {
		err = b.book(fresh, held...)
	}
	if err != nil {
		undo()
		forget()
		return nil, err
	}
	for i := range fresh {
		op := b.ops[fresh[i].Operation]
		op.posted, op.owner = &fresh[i], p.EventNo
	}
	return fresh, nil
}

func conflict(there, asked Transfer, owner int64) error {
	did := map[Kind]string{KindHold: "made ", KindVoid: "made ", KindTotal: "told of "}[there.Kind]
	stands, has := there.words()
	asks, wants := asked.words()
	args := append(append([]any{named(asked.Operation), eventNo(owner)}, has...), wants...)
	return refuse(ErrOperationConflict, "%s: %s "+cmp.Or(did, "posted ")+stands+", this one asks for "+asks, args...)
}

// words says a transfer in words: a format and what it takes.
func (t Transfer) words() (format string, args []any) {
	switch t.Kind {
	case KindVoid:
		return "a void of %s", []any{named(t.Parent)}
	case KindHold:
		format = "a hold of "
	case KindTotal:
		format = "a total of "
	}
	return format + "%s from %s to %s", []any{t.money(), t.Debit, t.Credit}
}
