package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Kind says what a transfer does but moving its amount.
type Kind string

// The kinds of transfers; one of no kind just moves money.
const (
	// KindHold reserves its amount on both accounts, and moves nothing: what is held
	// counts against limits. It ends with Expires, by the database's clock.
	KindHold Kind = "hold"
	// KindCapture moves money and takes it out of the hold that Parent names.
	KindCapture Kind = "capture"
	// KindVoid releases what is left of the hold that Parent names. It has no accounts
	// and no amount.
	KindVoid Kind = "void"
	// KindTotal tells how much of Parent has been given back so far, and moves what of
	// that was not: see TotalKey.
	KindTotal Kind = "total"
)

// moves reports whether a transfer of the kind moves money.
func (k Kind) moves() bool { return k == "" || k == KindCapture || k == KindTotal }

// What ended a hold, if not the whole amount was captured.
const (
	closedFinal   = "final" // a capture said that it was the last
	closedVoided  = "voided"
	closedExpired = "expired"
)

// hold is a hold that the batch opens, captures or voids. Its row is locked.
//
//	      ┌── capture, up to the amount ──┐
//	      ▼                               │
//	(open, held = amount − captured) ─────┘
//	      │ the last one, void, expiry
//	      ▼
//	(closed, held = 0)
type hold struct {
	// reserved is set if the row is ours to keep or delete, changed if it is to be
	// written, and opened if that is the hold itself.
	reserved, changed, opened bool

	event         int64
	debit, credit string
	asset         string
	amount        int64 // 0 where the hold is not there yet
	expires       time.Duration
	captured      int64
	closed        string
}

// held is what the hold reserves.
func (h *hold) held() int64 {
	if h.closed != "" || h.captured >= h.amount {
		return 0
	}
	return h.amount - h.captured
}

// holds are those of a batch by key. It stays empty, and costs nothing, where there
// are none.
type holds map[string]*hold

// name notes the hold that a transfer is about.
func (m *holds) name(t Transfer) {
	key := t.Parent
	switch t.Kind {
	case KindHold:
		key = t.Operation
	case KindCapture, KindVoid:
	default:
		return
	}
	if *m == nil {
		*m = holds{}
	}
	(*m)[key] = &hold{}
}

// lockHolds queues the locks of holds, after operations and before accounts: first
// rows for those that may be new, since a capture that is a fact may be there before
// its hold, and the two must not pass each other by.
func (b *Batch) lockHolds(q *pgx.Batch) {
	fresh := map[string]bool{}
	for _, p := range b.postings {
		for _, t := range p.Transfers {
			switch {
			case t.Kind == KindHold:
				fresh[t.Operation] = true
			case t.Kind == KindCapture && t.Fact:
				fresh[t.Parent] = true
			}
		}
	}
	if len(fresh) > 0 {
		q.Queue(`
			INSERT INTO holds (key)
			SELECT unnest($1::text[])
			ON CONFLICT (key) DO NOTHING
			RETURNING key`, slices.Sorted(maps.Keys(fresh))).Query(func(found pgx.Rows) error {
			reserved, err := pgx.CollectRows(found, pgx.RowTo[string])
			if err != nil {
				return fmt.Errorf("reserve holds: %w", err)
			}
			for _, key := range reserved {
				b.holds[key].reserved = true
			}
			return nil
		})
	}
	q.Queue(`
		SELECT key, COALESCE(event_no, 0), COALESCE(debit, ''), COALESCE(credit, ''), COALESCE(asset, ''), COALESCE(amount, 0),
		       captured, COALESCE(closed, ''), held > 0 AND expires_at <= now()
		FROM holds
		WHERE key = ANY($1)
		ORDER BY key
		FOR NO KEY UPDATE`, slices.Sorted(maps.Keys(b.holds))).Query(func(found pgx.Rows) error {
		for found.Next() {
			var key string
			var h hold
			var expired bool
			err := found.Scan(&key, &h.event, &h.debit, &h.credit, &h.asset, &h.amount, &h.captured, &h.closed, &expired)
			if err != nil {
				return fmt.Errorf("lock holds: %w", err)
			}
			h.reserved = b.holds[key].reserved
			b.holds[key] = &h
			if expired {
				b.expired = append(b.expired, &h)
			}
		}
		return found.Err()
	})
}

// lockHeld locks the accounts of a batch with holds: which they are is known only
// now. Then it takes what has expired off what is held.
func (b *Batch) lockHeld(ctx context.Context, tx Sender) error {
	if len(b.holds) > 0 {
		for _, h := range b.holds {
			if h.amount > 0 {
				b.open(accountKey{h.debit, h.asset})
				b.open(accountKey{h.credit, h.asset})
			}
		}
		var lock pgx.Batch
		b.lockAccounts(&lock)
		b.readStates(&lock)
		if err := tx.SendBatch(ctx, &lock).Close(); err != nil {
			return fmt.Errorf("lock accounts of holds: %w", err)
		}
	}
	if err := b.readExpired(ctx, tx); err != nil {
		return err
	}
	for _, h := range b.expired { // whoever comes to it releases it
		b.accounts[accountKey{h.debit, h.asset}].released.debits += h.held()
		b.accounts[accountKey{h.credit, h.asset}].released.credits += h.held()
		h.closed, h.changed = closedExpired, true
	}
	return nil
}

// readExpired takes off what is held on limited accounts what has expired and is
// not released yet. Nobody changes that while the accounts are locked: it is one
// more round trip, for those that have something held.
func (b *Batch) readExpired(ctx context.Context, tx Querier) error {
	var names, assets []string
	for _, a := range b.accounts {
		if a.limited() && (a.pending.debits > 0 || a.pending.credits > 0) {
			names, assets = append(names, a.name), append(assets, a.asset)
		}
	}
	if len(names) == 0 {
		return nil
	}
	found, err := tx.Query(ctx, `
		SELECT k.name, k.asset, `+expiredOf+`
		FROM unnest($1::text[], $2::text[]) AS k (name, asset)`, names, assets)
	if err != nil {
		return fmt.Errorf("read expired holds: %w", err)
	}
	var k accountKey
	var debits, credits int64
	_, err = pgx.ForEachRow(found, []any{&k.name, &k.asset, &debits, &credits}, func() error {
		a := b.accounts[k]
		a.pending.debits -= debits
		a.pending.credits -= credits
		return nil
	})
	if err != nil {
		return fmt.Errorf("read expired holds: %w", err)
	}
	return nil
}

// expiredOf are the sums of what is held on both sides of account k and has expired:
// its row counts that until it is released.
const expiredOf = `
		       (SELECT COALESCE(sum(h.held), 0)::bigint
		        FROM holds h
		        WHERE h.debit = k.name AND h.asset = k.asset AND h.held > 0 AND h.expires_at <= now()),
		       (SELECT COALESCE(sum(h.held), 0)::bigint
		        FROM holds h
		        WHERE h.credit = k.name AND h.asset = k.asset AND h.held > 0 AND h.expires_at <= now())`
