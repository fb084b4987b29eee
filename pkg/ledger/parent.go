package ledger

import (
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// parents are the operations that transfers of the batch are about. It stays
// empty, and costs nothing, where none names one.
type parents struct {
	// posted says of each whether it is posted by a transaction that has
	// committed. One that another transaction is about to post is not there yet.
	posted map[string]bool
	// children are the postings that were refused for want of it, so far.
	children map[string][]*Posting
}

// name notes a parent; an empty key is none.
func (r *parents) name(key string) {
	if key == "" {
		return
	}
	if r.posted == nil {
		r.posted, r.children = make(map[string]bool), make(map[string][]*Posting)
	}
	r.posted[key] = false
}

// read queues the look at the parents, between operations and accounts: the
// place in the lock order where what is checked against a parent locks it.
func (r *parents) read(q *pgx.Batch) {
	if len(r.posted) == 0 {
		return
	}
	q.Queue(`
		SELECT key
		FROM operations
		WHERE key = ANY($1)`, slices.Sorted(maps.Keys(r.posted))).Query(func(found pgx.Rows) error {
		posted, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("read parents: %w", err)
		}
		for _, key := range posted {
			r.posted[key] = true
		}
		return nil
	})
}

// stands reports whether an operation is posted, by others or by this batch.
func (b *Batch) stands(key string) bool {
	if op := b.ops[key]; op != nil && op.reserved {
		return op.posted != nil // the row that was read is our own
	}
	return b.parents.posted[key]
}

// parentStands reports whether a transfer may do without its parent in its posting.
func (b *Batch) parentStands(t Transfer) bool {
	if t.Kind == KindCapture || t.Kind == KindVoid {
		return b.holdStands(t)
	}
	return b.stands(t.Parent)
}

// orphan returns the first of a posting's new transfers whose parent is neither
// posted nor posted along with it. Those of a posting may be about each other,
// though not in a circle.
func (b *Batch) orphan(fresh []Transfer) (child Transfer, ok bool) {
	for _, child = range fresh {
		for steps := 0; child.Parent != "" && !b.parentStands(child); steps++ {
			at := slices.IndexFunc(fresh, func(t Transfer) bool { return t.Operation == child.Parent })
			if at < 0 || steps == len(fresh) {
				return child, true
			}
			child = fresh[at]
		}
	}
	return Transfer{}, false
}

// await refuses a posting until the parent of child is posted, which a later
// posting of the batch may do.
func (b *Batch) await(p *Posting, child Transfer) error {
	p.Awaits = child.Parent
	b.parents.children[child.Parent] = append(b.parents.children[child.Parent], p)
	return refuse(ErrMissingParent, "%s, which %s is about", named(child.Parent), named(child.Operation))
}

// decideChildren decides again what was refused for want of these transfers, and
// what was refused for want of that.
func (b *Batch) decideChildren(posted []Transfer) {
	if len(b.parents.children) == 0 {
		return
	}
	arrived := slices.Clone(posted)
	for i := 0; i < len(arrived); i++ {
		children := b.parents.children[arrived[i].Operation]
		delete(b.parents.children, arrived[i].Operation)
		for _, p := range children {
			p.Posted, p.Err = b.decide(p)
			arrived = append(arrived, p.Posted...)
		}
	}
}
