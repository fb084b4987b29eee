package ledger

import (
	"fmt"
	"math"
	"slices"
)

// touched is an account that a posting books on, as it was before.
type touched struct {
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
			err = t.check(t.was)
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
			*before = append(*before, touched{a, a.add})
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
		if t.moved() == 0 {
			continue
		}
		debitOK := grow(&touch(accountKey{t.Debit, t.Asset}).add.debits, t.moved())
		creditOK := grow(&touch(accountKey{t.Credit, t.Asset}).add.credits, t.moved())
		if !debitOK || !creditOK {
			return refuse(ErrAmountOverflow, "%s: a balance would exceed 64 bits", named(t.Operation))
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
func (a *account) check(was delta) error {
	if err := a.admit(was); err != nil || !a.limited() {
		return err
	}
	debits, credits := a.debits, a.credits
	pending := a.pending
	if !grow(&debits, a.add.debits) || !grow(&credits, a.add.credits) ||
		!grow(&pending.debits, a.add.held.debits) || !grow(&pending.credits, a.add.held.credits) {
		return fmt.Errorf("%w: account %s: the balance would exceed 64 bits", ErrAmountOverflow, a.name)
	}
	boundedBefore, heldBefore, _ := a.against(was)
	bounded, held, bound := a.against(a.add)
	grown := bounded-boundedBefore > heldBefore-held
	if a.limit.Enforce && grown && bounded > bound-held {
		in := func(amount int64) money { return money{amount, a.asset} }
		side, other := "debits", "credits"
		if a.limit.Rule == CreditsMustNotExceedDebits {
			side, other = other, side
		}
		return refuse(ErrInsufficientFunds, "account %s: %s would be %s, with %s held, against %s of %s",
			a.name, side, in(bounded), in(held), other, in(bound))
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
	for _, a := range b.accounts {
		if !a.limited() || a.limit.Enforce || a.add == (delta{}) {
			continue
		}
		if !a.passed(delta{}) && a.passed(a.add) {
			names = append(names, a.name)
		}
	}
	slices.Sort(names)
	return names
}
