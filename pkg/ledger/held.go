package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Held is a hold that an event has opened, as it stands, or a void that it has told
// of: what an event did beside its transfers. Amounts are minor units.
type Held struct {
	EventNo int64
	// Transfer is the hold, or the void of Parent. Its Expires is not set.
	Transfer
	// Captured is what was captured of the hold, and Left what it still holds.
	Captured, Left int64
	ExpiresAt      time.Time
	// Ended is how the hold ended: "captured" (all of it), "final" (its last capture),
	// "voided" or "expired"; empty while it holds something, and for a void.
	Ended string
}

// HeldBy returns the holds and voids of events, by event number.
func HeldBy(ctx context.Context, q Querier, events []int64) (map[int64][]*Held, error) {
	found, err := q.Query(ctx, `
		SELECT o.event_no, o.key, o.kind, o.debit, o.credit, o.asset, o.amount, COALESCE(o.hold, ''),
		       COALESCE(h.captured, 0), CASE WHEN h.expires_at > now() THEN h.held ELSE 0 END, h.expires_at,
		       CASE WHEN h.key IS NULL THEN ''
		            WHEN h.closed IS NOT NULL THEN h.closed
		            WHEN h.captured >= h.amount THEN 'captured'
		            WHEN h.expires_at <= now() THEN 'expired'
		            ELSE '' END
		FROM operations o
		LEFT JOIN holds h ON h.key = o.key
		WHERE o.event_no = ANY($1) AND o.kind IN ('hold', 'void')
		ORDER BY o.event_no, o.kind, o.key`, events)
	if err != nil {
		return nil, fmt.Errorf("read holds: %w", err)
	}
	list, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (*Held, error) {
		var h Held
		var expires *time.Time
		err := row.Scan(&h.EventNo, &h.Operation, &h.Kind, &h.Debit, &h.Credit, &h.Asset, &h.Amount, &h.Parent, &h.Captured, &h.Left, &expires, &h.Ended)
		if expires != nil {
			h.ExpiresAt = *expires
		}
		return &h, err
	})
	if err != nil {
		return nil, fmt.Errorf("read holds: %w", err)
	}
	byEvent := make(map[int64][]*Held)
	for _, h := range list {
		byEvent[h.EventNo] = append(byEvent[h.EventNo], h)
	}
	return byEvent, nil
}
