package ledger

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// State says whether an account may be moved.
type State string

// The states of an account.
const (
	// StateOpen accounts take debits and credits.
	StateOpen State = "open"
	// StateFrozen accounts take neither, with one exception: what a limit that is
	// only recorded would let pass has happened, and is posted.
	StateFrozen State = "frozen"
	// StateClosed is final: nothing is posted any more, not even a fact.
	StateClosed State = "closed"
)

// stateOf is a state as the database has it, without a copy of one that is known.
func stateOf(stored []byte) State {
	if string(stored) == string(StateOpen) {
		return StateOpen
	}
	return State(stored)
}

// readStates queues the look at the accounts that are not locked, since they have
// no limit. Those of them that open with a transfer are looked for among the few
// that are not open; those that do not, one by one. An account that is frozen
// after that is refused by the database when its balance is written.
func (b *Batch) readStates(q *pgx.Batch) {
	var opening, names, assets []string
	for _, a := range b.accounts {
		switch {
		case a.limited(): // read with its lock
		case a.limit.Explicit:
			names, assets = append(names, a.name), append(assets, a.asset)
		default:
			opening = append(opening, a.name)
		}
	}
	if len(opening) > 0 {
		q.Queue(`
			SELECT name, asset, state
			FROM accounts
			WHERE state <> 'open' AND name = ANY($1::text[])`, opening).Query(b.noteStates)
	}
	if len(names) > 0 {
		q.Queue(`
			SELECT a.name, a.asset, a.state
			FROM unnest($1::text[], $2::text[]) AS k (name, asset)
			JOIN accounts a USING (name, asset)`, names, assets).Query(b.noteStates)
	}
}

func (b *Batch) noteStates(found pgx.Rows) error {
	var k accountKey
	var state State
	_, err := pgx.ForEachRow(found, []any{&k.name, &k.asset, &state}, func() error {
		if a := b.accounts[k]; a != nil { // else it is in another asset
			a.state = state
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read states of accounts: %w", err)
	}
	return nil
}

// admit says whether the account's state lets pass what came on top of was.
func (a *account) admit(was delta) error {
	var reason error
	switch {
	case a.add.debits == was.debits && a.add.credits == was.credits &&
		a.add.held.debits <= was.held.debits && a.add.held.credits <= was.held.credits:
		return nil // it is only released
	case a.state == StateClosed:
		reason = ErrAccountClosed
	case a.state == StateFrozen && !a.fact(was):
		reason = ErrAccountFrozen
	case a.state == "" && a.limit.Explicit:
		reason = ErrAccountUnknown
	default:
		return nil
	}
	return fmt.Errorf("%w: %s in %s", reason, a.name, a.asset)
}

// fact reports whether what came on top of was is only what the account's limit
// bounds and lets pass all the same: what a provider tells has happened, whatever
// became of the account since.
func (a *account) fact(was delta) bool {
	switch {
	case !a.limited() || a.limit.Enforce:
		return false
	case a.limit.Rule == CreditsMustNotExceedDebits:
		return a.add.debits == was.debits && a.add.held.debits <= was.held.debits
	}
	return a.add.credits == was.credits && a.add.held.credits <= was.held.credits
}

// frozen refuses what moves a frozen account at all: a correction is a person's
// word, no fact.
func (b *Batch) frozen(moves []Transfer) error {
	for _, t := range moves {
		for _, k := range []accountKey{{t.Debit, t.Asset}, {t.Credit, t.Asset}} {
			if b.accounts[k].state == StateFrozen {
				return fmt.Errorf("%w: %s in %s", ErrAccountFrozen, k.name, k.asset)
			}
		}
	}
	return nil
}

// Frozen returns the accounts that the batch moved although they are frozen:
// facts that a person should know of. It is complete after Decide.
func (b *Batch) Frozen() []string {
	var names []string
	for _, a := range b.accounts {
		grown := a.add.sides != (sides{}) || a.add.held.debits > 0 || a.add.held.credits > 0
		if a.state == StateFrozen && grown {
			names = append(names, a.name)
		}
	}
	slices.Sort(names)
	return names
}
