package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ReleaseExpired takes up to n holds that have expired off the rows of their
// accounts, in the caller's transaction, and returns how many those were. No limit
// counts them since they expired; this only spares whoever moves the accounts a look
// at each. It may be run at any time, by several at once.
func ReleaseExpired(ctx context.Context, tx pgx.Tx, limits func(account string) (Limit, bool), n int) (int, error) {
	found, err := tx.Query(ctx, `
		SELECT key
		FROM holds
		WHERE held > 0 AND expires_at <= now()
		ORDER BY expires_at
		LIMIT $1`, n)
	if err != nil {
		return 0, fmt.Errorf("find expired holds: %w", err)
	}
	keys, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return 0, fmt.Errorf("find expired holds: %w", err)
	}
	if len(keys) == 0 {
		return 0, nil
	}
	b := NewBatch(limits, nil)
	b.holds = make(holds, len(keys))
	for _, key := range keys {
		b.holds[key] = &hold{}
	}
	if err := b.post(ctx, tx); err != nil {
		return 0, err
	}
	return len(b.expired), nil
}

// releaseHeld takes what has expired of an account's holds off the rows of its
// accounts and of those on the other side: then the account's row says what is pending.
// The limits that the rows have stay. Accounts are locked as batches do, the account's
// own in every asset among them: those with a limit first, each part in order.
func releaseHeld(ctx context.Context, tx pgx.Tx, name, asset string) error {
	found, err := tx.Query(ctx, `
		SELECT key
		FROM holds
		WHERE (debit = $1 OR credit = $1) AND ($2 = '' OR asset = $2) AND held > 0 AND expires_at <= now()
		ORDER BY key
		FOR NO KEY UPDATE`, name, asset)
	if err != nil {
		return fmt.Errorf("lock expired holds: %w", err)
	}
	keys, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("lock expired holds: %w", err)
	}
	if len(keys) == 0 {
		return nil
	}
	const both = `
		WHERE (name, asset) IN (SELECT debit, asset FROM holds WHERE key = ANY($1) UNION SELECT credit, asset FROM holds WHERE key = ANY($1))`
	var q pgx.Batch
	q.Queue(`
		SELECT
		FROM accounts`+both+` OR name = $2 AND ($3 = '' OR asset = $3)
		ORDER BY balance_limit IS NULL, name, asset
		FOR NO KEY UPDATE`, keys, name, asset)
	q.Queue(`
		UPDATE accounts a
		SET debits_pending = a.debits_pending - (
		        SELECT COALESCE(sum(h.held), 0)::bigint FROM holds h WHERE h.key = ANY($1) AND h.debit = a.name AND h.asset = a.asset),
		    credits_pending = a.credits_pending - (
		        SELECT COALESCE(sum(h.held), 0)::bigint FROM holds h WHERE h.key = ANY($1) AND h.credit = a.name AND h.asset = a.asset)`+both, keys)
	q.Queue(`
		UPDATE holds
		SET closed = 'expired'
		WHERE key = ANY($1)`, keys)
	if err := tx.SendBatch(ctx, &q).Close(); err != nil {
		return fmt.Errorf("release expired holds: %w", err)
	}
	return nil
}
