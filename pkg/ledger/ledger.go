// Package ledger keeps double-entry books in Postgres: accounts, operations,
// holds and insert-only transfers.
//
// Guarantee: a business operation is posted once, whichever events report it;
// what a transaction posts is there completely or not at all; balances are the
// sums of the transfers; a limit that is enforced is never passed, by what is posted
// and held together.
//
//	batch := ledger.NewBatch(limits, postings)   // in the order of the stream
//	var first, second pgx.Batch
//	batch.Reserve(&first)                        // lock, sorted
//	err := tx.SendBatch(ctx, &first).Close()
//	err = batch.Decide(ctx, tx)                  // sets every Posting's Posted and Err
//	batch.Write(&second)
//	err = tx.SendBatch(ctx, &second).Close()
//
// It needs nothing but a pgx connection and a schema that has run Migrations, and
// gives its guarantees to any number of programs at one schema that post the same
// money under one key (see OperationKey). Event numbers are the caller's: no two
// events may have one. Beside onceledger's workers take them from dedupe.Numbers, and
// write the event's row as well, which the audit misses otherwise.
//
// Units: amounts, sums and balances are int64 minor units of their asset, positive in
// a transfer; nothing wraps. Times are the database's, in its resolution of 1 µs.
//
// Errors: why an event is refused is in its Posting's Err, and the others of its batch
// go on. An error that is returned says that nothing may be committed: roll back.
// Trying the transaction again helps against ErrRace and SQLSTATE 40001, 40P01 and
// 55P03, and nothing else is to be expected but the driver's errors. Transactions are
// READ COMMITTED.
//
// Accounts open with their first transfer, but those with a limit with the first that
// is asked for: what is locked and judged has to be there. So a posting that is refused
// may leave an account open that has no transfers and a balance of 0.
//
// Programs that post many batches share a Known among them, which spares each account
// that is there a look.
//
// Costs: two round trips a batch, beside BEGIN and COMMIT, and one more each where an
// operation is there already and where something is refunded. Batches of 500 move
// some twelve times as much in a second as transactions of one. Reads say theirs.
package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// What a posting can be refused for. The amount and asset sentinels are in
// money.go.
var (
	// ErrOperationConflict means that the operation was posted with another
	// amount, asset or account.
	ErrOperationConflict = errors.New("the operation stands with another content")
	// ErrInsufficientFunds means that a limit that is enforced refused it; it
	// may pass later.
	ErrInsufficientFunds = errors.New("the account's limit refuses the transfer")
	// ErrMissingParent means that a transfer is about an operation that is not
	// posted; it may pass later.
	ErrMissingParent = errors.New("the parent operation is not there")
	// ErrOverRefund means that the refunds of an operation would exceed its amount; it
	// may pass when one of them fails. Where that is told later in the same batch, it
	// passes when it is tried again. Of a correction, it means what OverRefunds finds.
	ErrOverRefund = errors.New("the refunds would exceed what they are of")
	// ErrRefundInvalid means that a refund, or a total of some, is in another asset than
	// its parent, a total above that, more than is left of a refund that it undoes, or of
	// a parent of which there is none: a total, or what undoes a refund.
	ErrRefundInvalid = errors.New("what it names cannot be refunded so")
	// ErrHoldClosed means that the hold was captured in full or for the last time,
	// voided, or has expired.
	ErrHoldClosed = errors.New("the hold is closed")
	// ErrOverCapture means that a capture is more than is left of its hold, or in
	// another asset.
	ErrOverCapture = errors.New("the captures would exceed the hold")
	// ErrAccountUnknown means that the account has to be opened first, and is not;
	// it may pass later.
	ErrAccountUnknown = errors.New("the account is not open")
	// ErrAccountFrozen means that the account is frozen; it may pass later.
	ErrAccountFrozen = errors.New("the account is frozen")
	// ErrAccountClosed means that the account is closed for good.
	ErrAccountClosed = errors.New("the account is closed")
	// ErrRace means that an operation was neither free nor there; try the
	// transaction again.
	ErrRace = errors.New("an operation changed while it was reserved")
	// ErrExponent means that an asset is declared with another exponent than it
	// was; trying again does not help.
	ErrExponent = errors.New("an exponent cannot change once declared")
)

// Transfer is one movement of money: Amount minor units of Asset leave Debit
// and reach Credit, once for each Operation.
type Transfer struct {
	// Operation is the scoped business key; two transfers with equal keys are one.
	Operation string
	// Kind is empty where money just moves; see the kinds for the others.
	Kind Kind
	// Debit and Credit are account names; they differ. A void has none.
	Debit, Credit string
	// Asset is an ISO 4217 code or a declared asset.
	Asset string
	// Amount is in minor units and positive, and zero for a void.
	Amount int64
	// Unmoved is the part of a refund's Amount that other refunds of Parent have
	// moved before, see KindTotal: so much less is moved. Set by Decide, in Posted.
	Unmoved int64
	// Parent is the key of the operation that this one is about, the charge of a
	// refund or the hold of a capture; empty for none. It must be posted first, and
	// is no part of the content (see Same), but for a void and a total.
	Parent string
	// Refund says that this transfer gives back a part of Parent: all of those
	// together, at most its amount, in its asset. KindTotal implies it.
	Refund bool
	// Expires is how long after it was posted a hold lasts, in microseconds; only
	// for holds.
	Expires time.Duration
	// Final says that a capture is the last of its hold: what is left is released. A
	// void with it is a last capture of nothing, for which a hold may have been captured.
	Final bool
	// Fact says that a capture has happened whatever became of its hold: it is posted
	// and marked where the hold is not there, closed, or less.
	Fact bool
}

// Same reports whether two transfers are the same money: operation, accounts,
// asset and amount, moved or held. The rest is left out: it says when a transfer
// may be posted, not what it moves, so that rules which learn of parents or holds
// later make no conflicts with what they posted before.
func (t Transfer) Same(o Transfer) bool { return t.content() == o.content() }

func (t Transfer) content() Transfer {
	c := Transfer{Operation: t.Operation, Kind: t.Kind, Debit: t.Debit, Credit: t.Credit, Asset: t.Asset, Amount: t.Amount}
	switch t.Kind {
	case KindCapture:
		c.Kind = ""
	case KindVoid, KindTotal: // what it is of is what it says
		c.Parent = t.Parent
	}
	return c
}

// Posting is what one event asks for, and what became of it. It is decided as
// a whole: either all of its transfers are there afterwards, or none is new.
type Posting struct {
	// EventNo is the number of the event that the transfers belong to.
	EventNo int64
	// Transfers are asked for; those whose operation is there already with
	// equal content are skipped.
	Transfers []Transfer
	// Posted are the new ones. Set by Decide.
	Posted []Transfer
	// Overdrawn are accounts that Posted took past a limit which is only
	// recorded, Frozen those it moved although they are frozen, and Uncovered the
	// operations of captures that no hold covered. Set by Post.
	Overdrawn, Frozen, Uncovered []string
	// Err is why the posting was refused: ErrOperationConflict, ErrMissingParent,
	// ErrOverRefund, ErrRefundInvalid, ErrHoldClosed, ErrOverCapture,
	// ErrInsufficientFunds, ErrAccountUnknown, ErrAccountFrozen, ErrAccountClosed or
	// ErrAmountOverflow. Set by Decide.
	Err error
	// Awaits is the operation for want of which Err is ErrMissingParent, if it may
	// yet come: see Wait. Set by Decide.
	Awaits string
}

// Limit is what bounds an account.
type Limit struct {
	// Rule is DebitsMustNotExceedCredits or CreditsMustNotExceedDebits; empty bounds
	// no balance.
	Rule LimitRule
	// Enforce refuses what passes the limit; otherwise it is posted, since a
	// provider's refund or dispute is a fact, and the account shows it.
	Enforce bool
	// Explicit refuses transfers on the account until somebody opens it (see
	// OpenAccount); otherwise it opens with its first transfer, or where Rule is set,
	// with the first that is asked for.
	Explicit bool
}

// LimitRule says which side of an account is bounded by the other.
type LimitRule string

// The limits an account can have; it has at most one.
const (
	DebitsMustNotExceedCredits LimitRule = "debits_must_not_exceed_credits"
	CreditsMustNotExceedDebits LimitRule = "credits_must_not_exceed_debits"
)

// Policy is the limit's policy as the database spells it.
func (l Limit) policy() string {
	if l.Enforce {
		return "enforce"
	}
	return "record"
}

// Querier reads in the caller's transaction: a pgx.Tx, or the connection of a
// transaction that was begun in a batch.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Sender is a Querier that takes several statements at once.
type Sender interface {
	Querier
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// accountKey is an account's identity and place in the lock order.
type accountKey struct {
	name, asset string
}

func (k accountKey) compare(o accountKey) int {
	return cmp.Or(cmp.Compare(k.name, o.name), cmp.Compare(k.asset, o.asset))
}

// Post posts one event's transfers in the caller's transaction: the way of a
// batch of one, with its two round trips or three. The caller reads p.Posted and p.Err. An error with SQLSTATE 40001
// means that an account was frozen or closed meanwhile: try the transaction again.
func Post(ctx context.Context, tx pgx.Tx, limits func(account string) (Limit, bool), p *Posting) error {
	batch := NewBatch(limits, []*Posting{p})
	if err := batch.post(ctx, tx); err != nil {
		return err
	}
	p.Overdrawn, p.Frozen, p.Uncovered = batch.Overdrawn(), batch.Frozen(), batch.Uncovered()
	return nil
}

// post is the whole way of a batch.
func (b *Batch) post(ctx context.Context, tx pgx.Tx) error {
	var reserve, write pgx.Batch
	b.Reserve(&reserve)
	if err := tx.SendBatch(ctx, &reserve).Close(); err != nil {
		return fmt.Errorf("reserve posting: %w", err)
	}
	if err := b.Decide(ctx, tx); err != nil {
		return err
	}
	b.Write(&write)
	if write.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, &write).Close(); err != nil {
		return fmt.Errorf("write posting: %w", err)
	}
	return nil
}

// DeclareAssets records assets outside ISO 4217, with two round trips each. Changing
// the exponent of an asset would change the worth of what is booked, so it is refused:
// ErrExponent. It does not Validate them.
func DeclareAssets(ctx context.Context, tx pgx.Tx, assets []Asset) error {
	for _, a := range assets {
		if _, err := tx.Exec(ctx, `
			INSERT INTO assets (code, exponent)
			VALUES ($1, $2)
			ON CONFLICT (code) DO NOTHING`, a.Code, a.Exponent); err != nil {
			return fmt.Errorf("declare asset %s: %w", a.Code, err)
		}
		// A statement of its own: the wait for another worker's insert does not
		// refresh the snapshot of the one above.
		var exponent int
		if err := tx.QueryRow(ctx, `SELECT exponent FROM assets WHERE code = $1`, a.Code).Scan(&exponent); err != nil {
			return fmt.Errorf("declare asset %s: %w", a.Code, err)
		}
		if exponent != a.Exponent {
			return fmt.Errorf("declare asset %s: exponent %d in the configuration, %d in the ledger; %w", a.Code, a.Exponent, exponent, ErrExponent)
		}
	}
	return nil
}
