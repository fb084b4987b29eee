package ledger

import (
	"errors"
	"slices"
)

// reservation is a change of what is held on two accounts.
type reservation struct {
	debit, credit accountKey
	amount        int64 // negative: released
}

// holdsOf applies a posting's new transfers to their holds: those that it opens
// first. undo takes all of that back. changed is what becomes of the accounts.
func (b *Batch) holdsOf(p *Posting, fresh []Transfer) (changed []reservation, undo func(), err error) {
	undo = func() {}
	if len(b.holds) == 0 {
		return nil, undo, nil
	}
	was := map[string]hold{}
	undo = func() {
		for key, h := range was {
			*b.holds[key] = h
		}
		for _, t := range fresh {
			delete(b.uncovered, t.Operation)
		}
	}
	for _, opening := range []bool{true, false} {
		for _, t := range fresh {
			if t.Kind == "" || t.Kind == KindTotal || (t.Kind == KindHold) != opening {
				continue
			}
			key := t.Parent
			if opening {
				key = t.Operation
			}
			h := b.holds[key]
			if _, ok := was[key]; !ok {
				was[key] = *h
			}
			before := h.held()
			if err := b.apply(h, t, p.EventNo); err != nil {
				undo()
				return nil, undo, err
			}
			h.changed = true
			if by := h.held() - before; by != 0 {
				changed = append(changed, reservation{accountKey{h.debit, h.asset}, accountKey{h.credit, h.asset}, by})
			}
		}
	}
	return changed, undo, nil
}

// apply is what a transfer does to its hold.
func (b *Batch) apply(h *hold, t Transfer, event int64) error {
	switch t.Kind {
	case KindHold:
		if h.captured > 0 && h.asset != t.Asset {
			return refuse(ErrOverCapture, "%s holds %s, and was captured in %s before", named(t.Operation), t.Asset, h.asset)
		}
		h.event, h.debit, h.credit, h.asset, h.amount, h.expires = event, t.Debit, t.Credit, t.Asset, t.Amount, t.Expires
		h.opened = true
		return nil
	case KindVoid:
		return h.void(t)
	}
	covered, err := h.capture(t)
	if err != nil {
		return err
	}
	if covered < t.Amount {
		if b.uncovered == nil {
			b.uncovered = map[string]int64{}
		}
		b.uncovered[t.Operation] = t.Amount - covered
	}
	return nil
}

// capture takes a capture out of the hold and returns the part that it covers: all
// of it, but for a fact.
func (h *hold) capture(t Transfer) (covered int64, err error) {
	left := h.held()
	switch {
	case h.amount == 0 && !t.Fact:
		return 0, missingHold(t)
	case h.asset != "" && h.asset != t.Asset:
		if t.Fact {
			return 0, nil // it says nothing of what is left
		}
		return 0, refuse(ErrOverCapture, "%s captures %s of %s, which holds %s", named(t.Operation), t.Asset, named(t.Parent), h.asset)
	case left == 0 && !t.Fact:
		return 0, refuse(ErrHoldClosed, "%s captures of %s, which is %s", named(t.Operation), named(t.Parent), h.end())
	case t.Amount > left && !t.Fact:
		return 0, refuse(ErrOverCapture, "%s captures %s of %s, which has %s left of %s",
			named(t.Operation), t.money(), named(t.Parent), money{left, t.Asset}, money{h.amount, t.Asset})
	}
	if !grow(&h.captured, t.Amount) {
		return 0, refuse(ErrAmountOverflow, "%s: the captures of %s would exceed 64 bits", named(t.Operation), named(t.Parent))
	}
	h.asset = t.Asset
	if t.Final && h.closed == "" {
		h.closed = closedFinal
	}
	return min(left, t.Amount), nil
}

// void releases what is left. A hold that has expired, or was voided before, is
// released already; to a last capture of nothing, one that was captured is, too.
func (h *hold) void(t Transfer) error {
	switch {
	case h.amount == 0:
		return missingHold(t)
	case !t.Final && (h.closed == closedFinal || h.closed == "" && h.held() == 0):
		return refuse(ErrHoldClosed, "%s voids %s, which is %s", named(t.Operation), named(t.Parent), h.end())
	case h.closed == "":
		h.closed = closedVoided
	}
	return nil
}

// end says in words how the hold ended.
func (h *hold) end() string {
	if h.closed == "" || h.closed == closedFinal {
		return "captured"
	}
	return h.closed
}

func missingHold(t Transfer) error {
	return refuse(ErrMissingParent, "%s, which %s is about, is no hold", named(t.Parent), named(t.Operation))
}

// holdStands reports whether the hold of a capture or a void is there. A fact needs
// none, but where the batch may still open one it comes after that.
func (b *Batch) holdStands(t Transfer) bool {
	if b.holds[t.Parent].amount > 0 {
		return true
	}
	op := b.ops[t.Parent]
	return t.isFact() && (b.last || op == nil || op.posted != nil)
}

func (t Transfer) isFact() bool { return t.Kind == KindCapture && t.Fact }

// decideFacts decides again what was to wait for holds that the batch did not open
// after all, and can do without.
func (b *Batch) decideFacts() {
	if len(b.holds) == 0 || len(b.parents.children) == 0 {
		return
	}
	b.last = true
	for _, p := range b.postings {
		if !errors.Is(p.Err, ErrMissingParent) || !slices.ContainsFunc(p.Transfers, Transfer.isFact) {
			continue
		}
		for key, waiting := range b.parents.children {
			b.parents.children[key] = slices.DeleteFunc(waiting, func(o *Posting) bool { return o == p })
		}
		p.Posted, p.Err = b.decide(p)
		b.decideChildren(p.Posted)
	}
}

// Uncovered returns the operations of captures that were posted as facts, although
// no hold covered them, or not all of them: a person should know of those. It is
// complete after Decide.
func (b *Batch) Uncovered() []string {
	var operations []string
	for key := range b.uncovered {
		operations = append(operations, key)
	}
	slices.Sort(operations)
	return operations
}
