package review

import (
	"context"
	"maps"
	"slices"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// ofTheRules are the reasons for which rules park an event, so that others may
// decide it; the rest are those of the ledger, of ids and of budgets.
var ofTheRules = map[dlq.Reason]bool{
	dlq.SourceUnknown: true, dlq.BadJSON: true, dlq.AmbiguousJSON: true, dlq.UnstorableText: true, dlq.ModeMismatch: true,
	dlq.Unmatched: true, dlq.RuleError: true, dlq.NoOperation: true, dlq.OperationConflict: true, dlq.AccountUnknown: true,
	dlq.AmountMissing: true, dlq.AmountFormat: true, dlq.AmountPrecision: true, dlq.AmountOverflow: true, dlq.AmountMismatch: true,
	dlq.CurrencyUnknown: true, dlq.CurrencyMismatch: true, dlq.MissingParent: true,
}

// compareAll compares the events of a batch whose own messages are in it.
func (r *reviewer) compareAll(ctx context.Context, messages []stored) error {
	keys := make([]dedupe.Key, len(messages))
	for i, m := range messages {
		keys[i] = dedupe.Key{Source: m.event.Source, ID: m.event.ID}
	}
	rows, err := dedupe.Read(ctx, r.Pool, keys)
	if err != nil {
		return err
	}
	corrected, err := dedupe.Corrected(ctx, r.Pool, keys)
	if err != nil {
		return err
	}
	r.sum.Messages += len(messages)
	var list []*Difference
	var applied []int64
	for i, m := range messages {
		// Where a conflict was let stand, it is what is compared.
		row := dedupe.Stands(rows[keys[i]], corrected[keys[i]])
		if row == nil || row.Seq != m.seq || !row.StreamCreated.Equal(r.created) {
			continue
		}
		if row.State != dedupe.Completed && (row.State != dedupe.Failed || !ofTheRules[dlq.Reason(row.Reason)]) {
			continue
		}
		d := &Difference{Seq: m.seq, Stored: m.at, Row: row}
		d.Decision, _ = r.Catalog.Decide(m.event)
		list = append(list, d)
		for _, each := range append([]*dedupe.Row{rows[keys[i]]}, corrected[keys[i]]...) {
			if each.Outcome == dedupe.Applied {
				d.posters = append(d.posters, each.No)
			}
		}
		applied = append(applied, d.posters...)
	}
	replaced, err := dedupe.Replaced(ctx, r.Pool, applied)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(d *Difference) bool { _, ok := replaced[d.Row.No]; return ok })
	r.sum.Compared += len(list)
	books, err := r.readBooks(ctx, list, applied)
	if err != nil {
		return err
	}
	var differing []*Difference
	for _, d := range list {
		if d.Kind = d.compare(books); d.Kind == "" {
			continue
		}
		r.sum.Differences++
		differing = append(differing, d)
	}
	if err := r.markUncorrectable(ctx, differing); err != nil {
		return err
	}
	if err := r.nameHolders(ctx, differing); err != nil {
		return err
	}
	for _, d := range differing {
		if err := r.each(d); err != nil {
			return err
		}
	}
	return nil
}

// markUncorrectable marks the differences that event correct would refuse to mend.
func (r *reviewer) markUncorrectable(ctx context.Context, differing []*Difference) error {
	applied := slices.DeleteFunc(slices.Clone(differing), func(d *Difference) bool { return d.Row.Outcome != dedupe.Applied })
	var transfers []ledger.Transfer
	for _, d := range applied {
		transfers = append(transfers, d.transfers()...)
	}
	if len(transfers) == 0 {
		return nil
	}
	refused, err := ledger.Uncorrectable(ctx, r.Pool, transfers)
	if err != nil {
		return err
	}
	for _, d := range applied {
		d.Uncorrectable = slices.ContainsFunc(d.transfers(), func(t ledger.Transfer) bool { return refused[t.Operation] })
	}
	return nil
}

// transfers are what stands of the event, and what today's rules ask for.
func (d *Difference) transfers() []ledger.Transfer {
	all := slices.Clone(d.Decision.Transfers)
	for _, e := range d.Standing {
		all = append(all, e.Transfer)
	}
	return all
}

// books are the transfers that stand and matter to a batch.
type books struct {
	// own are the transfers by event, its holds and voids included, refunds with what
	// they told, whatever they moved; posted are those that have an operation, whichever
	// event they are of.
	own    map[int64][]*ledger.Entry
	posted map[string]*ledger.Entry
	// shut are accounts that take nothing, with the reason.
	shut map[accountKey]dlq.Reason
}

// readBooks reads what the events posted, and who holds the operations that
// today's rules ask for beyond that.
func (r *reviewer) readBooks(ctx context.Context, list []*Difference, applied []int64) (*books, error) {
	b := &books{own: map[int64][]*ledger.Entry{}, posted: map[string]*ledger.Entry{}}
	if err := b.read(ctx, r, applied); err != nil {
		return nil, err
	}
	if err := b.readShut(ctx, r, list); err != nil {
		return nil, err
	}
	asked := map[string]bool{}
	for _, d := range list {
		for _, t := range d.Decision.Transfers {
			if find(b.of(d), t.Operation) == nil {
				asked[t.Operation] = true
			}
			if t.Parent != "" {
				asked[t.Parent] = true
			}
		}
	}
	if len(asked) == 0 {
		return b, nil
	}
	owners, err := ledger.Owners(ctx, r.Pool, slices.Collect(maps.Keys(asked)))
	if err != nil {
		return nil, err
	}
	others := map[int64]bool{}
	for _, no := range owners {
		if _, known := b.own[no]; !known {
			others[no] = true
		}
	}
	if err := b.read(ctx, r, slices.Collect(maps.Keys(others))); err != nil {
		return nil, err
	}
	for key, no := range owners {
		if e := find(b.own[no], key); e != nil {
			b.posted[key] = e
		}
	}
	return b, nil
}

func (b *books) read(ctx context.Context, r *reviewer, events []int64) error {
	if len(events) == 0 {
		return nil
	}
	entries, err := ledger.Posted(ctx, r.Pool, events)
	if err != nil {
		return err
	}
	for no, all := range entries {
		b.own[no] = ledger.Standing(all)
	}
	held, err := ledger.HeldBy(ctx, r.Pool, events)
	if err != nil {
		return err
	}
	for no, list := range held {
		for _, h := range list {
			b.own[no] = append(b.own[no], &ledger.Entry{EventNo: no, Transfer: h.Transfer})
		}
	}
	told, err := ledger.ToldBy(ctx, r.Pool, events)
	if err != nil {
		return err
	}
	for no, list := range told {
		for _, t := range list {
			if e := find(b.own[no], t.Operation); e != nil {
				e.Transfer = t
			} else {
				b.own[no] = append(b.own[no], &ledger.Entry{EventNo: no, Transfer: t})
			}
		}
	}
	return nil
}

// of returns the transfers that stand under the id of d.
func (b *books) of(d *Difference) []*ledger.Entry {
	var list []*ledger.Entry
	for _, no := range d.posters {
		list = append(list, b.own[no]...)
	}
	return list
}

// find returns the transfer with this operation, nil if there is none.
func find(entries []*ledger.Entry, operation string) *ledger.Entry {
	for _, e := range entries {
		if e.Operation == operation {
			return e
		}
	}
	return nil
}

// compare says how d differs, and sets what does; empty if it does not.
func (d *Difference) compare(b *books) Kind {
	d.Standing = b.of(d)
	if d.Decision.Parked != "" {
		if d.Row.State == dedupe.Completed {
			return WouldPark
		}
		return ""
	}
	d.Changes = changes(d.Standing, d.Decision.Transfers, b)
	none := len(d.Decision.Transfers) == 0
	if d.Row.State == dedupe.Failed && none {
		return WouldIgnoreParked
	}
	d.refuse(b)
	switch {
	case d.Row.State == dedupe.Failed && d.Refused.Reason != "":
		return "" // it would be parked for that
	case d.Row.State == dedupe.Failed:
		return WouldApply
	case len(d.Changes) == 0:
		return ""
	case d.Row.Outcome != dedupe.Applied:
		return WouldPost
	case none:
		return WouldIgnore
	}
	return WouldPostDifferently
}

// changes compares transfers by their operations: first what is removed or has
// another content, then what is added. What another event has posted with equal
// content is there.
func changes(was []*ledger.Entry, now []ledger.Transfer, b *books) []Change {
	var list []Change
	for _, e := range was {
		at := slices.IndexFunc(now, func(t ledger.Transfer) bool { return t.Operation == e.Operation })
		switch {
		case at < 0:
			list = append(list, Change{Was: e})
		case !e.Same(now[at]):
			list = append(list, Change{Was: e, Now: &now[at]})
		}
	}
	for i, t := range now {
		if find(was, t.Operation) != nil {
			continue
		}
		if other := b.posted[t.Operation]; other == nil || !other.Same(t) {
			list = append(list, Change{Now: &now[i]})
		}
	}
	return list
}
