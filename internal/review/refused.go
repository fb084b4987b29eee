package review

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// Refusal is why the ledger would refuse what today's rules ask for, as the books
// stand: whoever sends or corrects the event now gets nothing done.
type Refusal struct {
	// Reason is OperationConflict, MissingParent, AccountUnknown or AccountClosed;
	// empty where nothing is known to be in the way. Limits are not looked at.
	Reason dlq.Reason
	// Operation is what another event has posted otherwise, or what is not posted.
	Operation string
	// Holder is the event that has posted it; nil where nobody has.
	Holder *dedupe.Row
	// Account and Asset say which account it is.
	Account, Asset string

	holder int64
}

// accountKey is an account in one asset.
type accountKey struct{ name, asset string }

// refuse sets what is in the way of d's changes.
func (d *Difference) refuse(b *books) {
	for _, c := range d.Changes {
		if d.Refused = b.refuses(c, d.Decision.Transfers); d.Refused.Reason != "" {
			return
		}
	}
}

// refuses says what is in the way of one change; along is posted with it.
func (b *books) refuses(c Change, along []ledger.Transfer) Refusal {
	if c.Now != nil {
		if other := b.posted[c.Now.Operation]; c.Was == nil && other != nil {
			return Refusal{Reason: dlq.OperationConflict, Operation: c.Now.Operation, holder: other.EventNo}
		}
		if !b.has(*c.Now, along) {
			return Refusal{Reason: dlq.MissingParent, Operation: c.Now.Parent}
		}
	}
	for _, t := range c.moves() {
		for _, k := range []accountKey{{t.Debit, t.Asset}, {t.Credit, t.Asset}} {
			if reason := b.shut[k]; reason != "" {
				return Refusal{Reason: reason, Account: k.name, Asset: k.asset}
			}
		}
	}
	return Refusal{}
}

// moves are the transfers of a change that name accounts.
func (c Change) moves() []ledger.Transfer {
	var list []ledger.Transfer
	if c.Was != nil {
		list = append(list, c.Was.Transfer)
	}
	if c.Now != nil {
		list = append(list, *c.Now)
	}
	return slices.DeleteFunc(list, func(t ledger.Transfer) bool { return t.Kind == ledger.KindVoid })
}

// has reports whether what a transfer is about is posted, or would be along with it;
// a capture that is a fact needs no hold.
func (b *books) has(t ledger.Transfer, along []ledger.Transfer) bool {
	return t.Parent == "" || t.Kind == ledger.KindCapture && t.Fact || b.posted[t.Parent] != nil ||
		slices.ContainsFunc(along, func(o ledger.Transfer) bool { return o.Operation == t.Parent })
}

// readShut reads which accounts of the events, old and new, are closed, or are to be
// opened first and are not.
func (b *books) readShut(ctx context.Context, r *reviewer, list []*Difference) error {
	b.shut = map[accountKey]dlq.Reason{}
	var names []string
	for _, d := range list {
		d.Standing = b.of(d)
		for _, t := range d.transfers() {
			for _, name := range []string{t.Debit, t.Credit} {
				if name == "" {
					continue
				}
				names = append(names, name)
				if limit, _ := r.Catalog.Limit(name); limit.Explicit {
					b.shut[accountKey{name, t.Asset}] = dlq.AccountUnknown
				}
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	found, err := r.Pool.Query(ctx, `
		SELECT name, asset, state
		FROM accounts
		WHERE name = ANY($1)`, slices.Compact(names))
	if err != nil {
		return fmt.Errorf("read states of accounts: %w", err)
	}
	var k accountKey
	var state ledger.State
	_, err = pgx.ForEachRow(found, []any{&k.name, &k.asset, &state}, func() error {
		delete(b.shut, k)
		if state == ledger.StateClosed {
			b.shut[k] = dlq.AccountClosed
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read states of accounts: %w", err)
	}
	return nil
}

// nameHolders reads the events that have posted what others ask for.
func (r *reviewer) nameHolders(ctx context.Context, differing []*Difference) error {
	conflicts := slices.DeleteFunc(slices.Clone(differing), func(d *Difference) bool { return d.Refused.Reason != dlq.OperationConflict })
	if len(conflicts) == 0 {
		return nil
	}
	numbers := make([]int64, len(conflicts))
	for i, d := range conflicts {
		numbers[i] = d.Refused.holder
	}
	rows, err := dedupe.Numbered(ctx, r.Pool, numbers)
	if err != nil {
		return err
	}
	for _, d := range conflicts {
		d.Refused.Holder = rows[d.Refused.holder]
	}
	return nil
}
