package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
)

// What a correction can be refused for, beside what a posting can.
var (
	// ErrTransfers means that an event has as many transfers as can be numbered.
	ErrTransfers = errors.New("the event has too many transfers")
	// ErrCorrectHold means that a correction would open, capture or void a hold, or
	// take one of those back.
	ErrCorrectHold = errors.New("holds, captures and voids are not corrected: void the hold, or refund the capture")
	// ErrCorrectTotal means that a correction would change a refund of an operation
	// whose running total was told, see KindTotal, or that operation.
	ErrCorrectTotal = errors.New("refunds with a running total are not corrected: undo the refund")
	// errUnchanged means that everything stands as it is asked for.
	errUnchanged = errors.New("nothing differs")
	// ErrDamaged means that an operation and its transfer do not say the same.
	ErrDamaged = errors.New("an operation and its transfer differ; run the audit")
)

// Correction says what is to stand in place of what events have posted. Nothing
// is edited: what no longer holds is reversed as a whole, and what holds instead
// is posted.
type Correction struct {
	// EventNo is the event that the new transfers belong to.
	EventNo int64
	// Transfers are what is to stand. One that stands with equal content stays.
	Transfers []Transfer
	// Replaces are the events whose standing transfers are reversed, apart from
	// those that Transfers asks for.
	Replaces []int64
	// Over reverses also what other events have posted, with another content, for
	// an operation of Transfers. Without it that is ErrOperationConflict.
	Over bool
	// Overdraw posts the correction where a limit that is enforced would refuse it:
	// Overdrawn then names the account. A frozen account refuses it all the same.
	Overdraw bool

	// Reversed are the transfers that were taken back, Posted those that are new,
	// Overdrawn the accounts that went past their limit. Set by Correct.
	Reversed  []*Entry
	Posted    []Transfer
	Overdrawn []string
}

// Correct makes c.Transfers stand, in the caller's transaction: all of it or,
// with an error, nothing, if the caller rolls back then. The caller holds the
// rows of its events, so that nobody corrects them at the same time. It costs about
// ten round trips, and looks at each refund of what it touches.
//
// Errors: ErrCorrectHold, ErrCorrectTotal, ErrOperationConflict, ErrMissingParent, ErrOverRefund, ErrInsufficientFunds, ErrAccountUnknown,
// ErrAccountFrozen, ErrAccountClosed, ErrAmountOverflow, ErrRace, ErrTransfers, ErrDamaged, and those of the
// database.
func Correct(ctx context.Context, tx pgx.Tx, limits func(account string) (Limit, bool), c *Correction) error {
	c.Reversed, c.Posted, c.Overdrawn = nil, nil, nil // it may be tried again
	enforced := limits
	if c.Overdraw {
		limits = recorded(limits)
	}
	x := &correction{Correction: c, enforced: enforced, batch: NewBatch(limits, []*Posting{{EventNo: c.EventNo, Transfers: c.Transfers}})}
	for _, step := range []func(context.Context, pgx.Tx) error{x.lock, x.refuse, x.takeBack, x.settle, x.write, x.checkRefunds} {
		switch err := step(ctx, tx); {
		case errors.Is(err, errUnchanged):
			return nil
		case err != nil:
			return fmt.Errorf("correct event %d: %w", c.EventNo, err)
		}
	}
	c.Overdrawn = x.batch.Overdrawn()
	return nil
}

// recorded turns limits that refuse into limits that only tell.
func recorded(limits func(string) (Limit, bool)) func(string) (Limit, bool) {
	return func(account string) (Limit, bool) {
		limit, ok := limits(account)
		limit.Enforce = false
		return limit, ok
	}
}

// correction is one run of Correct.
type correction struct {
	*Correction
	batch *Batch
	// enforced are the limits as they are, where the batch only tells of them.
	enforced func(account string) (Limit, bool)
	// standing are the transfers of the replaced events that count, and held
	// the operations as they were, by key.
	standing []*Entry
	held     map[string]*Entry
}

// lock reserves the operations that are new, locks all that are there, and reads
// what stands.
func (x *correction) lock(ctx context.Context, tx pgx.Tx) error {
	keys := sortedKeys(x.batch.ops)
	if len(keys) < len(x.Transfers) {
		return errors.New("two transfers have one operation")
	}
	var reserve pgx.Batch
	x.batch.reserveOperations(&reserve, keys)
	x.batch.parents.read(&reserve)
	if err := tx.SendBatch(ctx, &reserve).Close(); err != nil {
		return fmt.Errorf("reserve operations: %w", err)
	}
	if err := x.readStanding(ctx, tx); err != nil {
		return err
	}
	for _, e := range x.standing {
		keys = append(keys, e.Operation)
	}
	keys = append(keys, slices.Collect(maps.Keys(x.batch.refunds))...)
	found, err := tx.Query(ctx, `
		SELECT key, event_no, debit, credit, asset, amount
		FROM operations
		WHERE key = ANY($1::text[]
		                || ARRAY(SELECT refunds FROM operations WHERE key = ANY($1) AND refunds IS NOT NULL)
		                || ARRAY(SELECT p.refunds FROM operations o JOIN operations p ON p.key = o.refunds WHERE o.key = ANY($1) AND p.refunds IS NOT NULL))
		ORDER BY key
		FOR UPDATE`, keys)
	if err != nil {
		return fmt.Errorf("lock operations: %w", err)
	}
	x.held = make(map[string]*Entry, len(keys))
	for found.Next() {
		var e Entry
		if err := found.Scan(&e.Operation, &e.EventNo, &e.Debit, &e.Credit, &e.Asset, &e.Amount); err != nil {
			return fmt.Errorf("lock operations: %w", err)
		}
		x.held[e.Operation] = &e
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("lock operations: %w", err)
	}
	// Again, now that nobody can take them back: another event's correction may
	// have done so while the lock was waited for.
	return x.readStanding(ctx, tx)
}

// readStanding reads the transfers of the replaced events that count.
func (x *correction) readStanding(ctx context.Context, tx pgx.Tx) error {
	posted, err := Posted(ctx, tx, x.Replaces)
	if err != nil {
		return err
	}
	x.standing = nil
	for _, no := range x.Replaces {
		x.standing = append(x.standing, Standing(posted[no])...)
	}
	return nil
}

// takeBack decides what is reversed and what is posted.
func (x *correction) takeBack(ctx context.Context, tx pgx.Tx) error {
	wanted := make(map[string]Transfer, len(x.Transfers))
	for _, t := range x.Transfers {
		wanted[t.Operation] = t
	}
	for _, e := range x.standing {
		held, ours := x.held[e.Operation], x.batch.ops[e.Operation]
		if held == nil || held.EventNo != e.EventNo || !held.Same(e.Transfer) || ours != nil && ours.reserved {
			return damaged(e)
		}
		if !e.Same(wanted[e.Operation]) {
			x.Reversed = append(x.Reversed, e)
		}
	}
	for _, t := range x.Transfers {
		there := x.held[t.Operation]
		switch {
		case x.batch.ops[t.Operation].reserved:
		case there == nil:
			return fmt.Errorf("%w: %s", ErrRace, t.Operation)
		case there.Same(t):
			continue // it stands, whoever posted it
		case slices.Contains(x.Replaces, there.EventNo): // reversed above
		case !x.Over:
			return conflict(there.Transfer, t, there.EventNo)
		default:
			theirs, err := standingFor(ctx, tx, there)
			if err != nil {
				return err
			}
			x.Reversed = append(x.Reversed, theirs)
		}
		x.Posted = append(x.Posted, t)
	}
	return x.checkParents()
}

// checkParents refuses what is about an operation that does not stand afterwards.
func (x *correction) checkParents() error {
	given := make(map[string]bool, len(x.Reversed))
	for _, e := range x.Reversed {
		given[e.Operation] = true
	}
	for _, t := range x.Posted {
		delete(given, t.Operation)
	}
	for _, t := range x.Posted {
		if t.Parent != "" && (given[t.Parent] || !x.batch.parents.posted[t.Parent]) {
			return refuse(ErrMissingParent, "%s, which %s is about", named(t.Parent), named(t.Operation))
		}
	}
	return nil
}

// standingFor returns the transfer that stands for an operation.
func standingFor(ctx context.Context, tx pgx.Tx, operation *Entry) (*Entry, error) {
	posted, err := Posted(ctx, tx, []int64{operation.EventNo})
	if err != nil {
		return nil, err
	}
	for _, e := range Standing(posted[operation.EventNo]) {
		if e.Same(operation.Transfer) {
			return e, nil
		}
	}
	return nil, damaged(operation)
}

func damaged(e *Entry) error {
	return refuse(ErrDamaged, "operation %s of %s", named(e.Operation), eventNo(e.EventNo))
}

// settle locks the accounts that are bounded, looks at the others, and books
// everything at once: what is taken back may be what the new transfers need.
func (x *correction) settle(ctx context.Context, tx pgx.Tx) error {
	moves := make([]Transfer, 0, len(x.Reversed)+len(x.Posted))
	for _, e := range x.Reversed {
		moves = append(moves, back(e.Transfer))
	}
	moves = append(moves, x.Posted...)
	for _, t := range moves {
		x.batch.open(accountKey{t.Debit, t.Asset})
		x.batch.open(accountKey{t.Credit, t.Asset})
	}
	var lock pgx.Batch
	x.batch.lockAccounts(&lock)
	x.batch.readStates(&lock)
	if lock.Len() > 0 {
		if err := tx.SendBatch(ctx, &lock).Close(); err != nil {
			return fmt.Errorf("lock accounts: %w", err)
		}
	}
	if err := x.batch.frozen(moves); err != nil {
		return err
	}
	return x.batch.book(moves)
}

// back is t the other way.
func back(t Transfer) Transfer {
	t.Debit, t.Credit = t.Credit, t.Debit
	return t
}

// write stores the reversals first: they are what lets operations change.
func (x *correction) write(ctx context.Context, tx pgx.Tx) error {
	next, err := x.numbers(ctx, tx)
	if err != nil {
		return err
	}
	var q pgx.Batch
	insert := func(event int64, t Transfer, reverses *int16) {
		q.Queue(`
			INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount, reverses)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, event, next[event], t.Operation, t.Debit, t.Credit, t.Asset, t.Amount, reverses)
		next[event]++
	}
	posted := make(map[string]bool, len(x.Posted))
	for _, t := range x.Posted {
		posted[t.Operation] = true
	}
	for _, e := range x.Reversed {
		insert(e.EventNo, back(e.Transfer), &e.N)
		if !posted[e.Operation] {
			q.Queue(`DELETE FROM operations WHERE key = $1`, e.Operation)
		}
	}
	for _, t := range x.Posted {
		if !x.batch.ops[t.Operation].reserved {
			q.Queue(`
				UPDATE operations
				SET event_no = $2, debit = $3, credit = $4, asset = $5, amount = $6, refunds = $7
				WHERE key = $1`, t.Operation, x.EventNo, t.Debit, t.Credit, t.Asset, t.Amount, t.refunds())
		}
		insert(x.EventNo, t, nil)
	}
	x.batch.writeBalances(&q)
	if x.Overdraw {
		x.restoreLimits(&q)
	}
	if q.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, &q).Close(); err != nil {
		return fmt.Errorf("write correction: %w", err)
	}
	return nil
}

// checkRefunds refuses what leaves an operation with more refunds than its amount:
// a new refund, an original that is less, or gone, or the end of an undoing. It
// looks at what stands now; the caller rolls back.
func (x *correction) checkRefunds(ctx context.Context, tx pgx.Tx) error {
	over, err := OverRefunds(ctx, tx, append(slices.Collect(maps.Keys(x.held)), sortedKeys(x.batch.ops)...))
	if err != nil || len(over) == 0 {
		return err
	}
	key := slices.Min(slices.Collect(maps.Keys(over)))
	return refuse(ErrOverRefund, "%s, of which %s would be given back", named(key), money{over[key], x.assetOf(key)})
}

// assetOf is the asset of an operation as it would stand.
func (x *correction) assetOf(key string) string {
	if at := slices.IndexFunc(x.Transfers, func(t Transfer) bool { return t.Operation == key }); at >= 0 {
		return x.Transfers[at].Asset
	}
	return x.held[key].Asset
}

// restoreLimits enforces again what was only told of while the balances were
// written: a limit that is passed refuses what comes next.
func (x *correction) restoreLimits(q *pgx.Batch) {
	for k := range x.batch.accounts {
		if limit, ok := x.enforced(k.name); ok && limit.Enforce {
			q.Queue(`UPDATE accounts SET limit_policy = $3 WHERE name = $1 AND asset = $2`, k.name, k.asset, limit.policy())
		}
	}
}

// numbers returns the next transfer number of each event that gets transfers.
func (x *correction) numbers(ctx context.Context, tx pgx.Tx) (map[int64]int16, error) {
	more := map[int64]int{x.EventNo: len(x.Posted)}
	for _, e := range x.Reversed {
		more[e.EventNo]++
	}
	next := make(map[int64]int16, len(more))
	for event, n := range more {
		var first int
		err := tx.QueryRow(ctx, `SELECT COALESCE(max(n) + 1, 0) FROM transfers WHERE event_no = $1`, event).Scan(&first)
		if err != nil {
			return nil, fmt.Errorf("number transfers: %w", err)
		}
		if first+n > math.MaxInt16 {
			return nil, refuse(ErrTransfers, "%s", eventNo(event))
		}
		next[event] = int16(first) //nolint:gosec // checked above
	}
	return next, nil
}
