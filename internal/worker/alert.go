package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/internal/alert"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

const (
	// maxAmounts bounds the amounts that an alert shows of one event.
	maxAmounts = 20
	// maxRecalled bounds the conflicts that a start sends again.
	maxRecalled = 500
	// recallTimeout bounds the search for them.
	recallTimeout = 5 * time.Second
)

// isConflict reports whether a person has to judge between two contents.
func isConflict(r dlq.Reason) bool { return r == dlq.IDConflict || r == dlq.OperationConflict }

// alert tells a person of the item if it is parked as a conflict. It is called
// at every delivery of it; the sender knows which it has sent.
func (w *worker) alert(it *item) {
	if w.alerts == nil || !isConflict(dlq.Reason(it.row.Reason)) {
		return
	}
	c := conflictOf(it.row)
	c.EventType, c.Sequence, c.BodyHash, c.At = it.event.Type, it.seq, it.content.BodyHash, time.Now()
	if it.understood && it.decision.Parked == "" {
		c.Transfers = w.amounts(it.decision.Transfers)
	}
	if it.standing != nil {
		c.Standing, c.StandingTransfers = it.standing.seq, w.amounts(it.standing.transfers)
	}
	w.alerts.Send(c)
}

// standing is what an alert says of the event that came first.
type standing struct {
	seq       uint64
	transfers []ledger.Transfer
}

func conflictOf(row *dedupe.Row) alert.Conflict {
	return alert.Conflict{
		Source: row.Source, EventID: row.ID, EventType: row.Type, Reason: dlq.Reason(row.Reason), BodyHash: row.BodyHash,
		Sequence: row.Seq, Error: row.Error, At: row.Decided,
	}
}

func (w *worker) amounts(transfers []ledger.Transfer) []alert.Amount {
	var amounts []alert.Amount
	for _, t := range transfers[:min(len(transfers), maxAmounts)] {
		asset, _ := w.cat.Assets.Lookup(t.Asset) // one that is no longer declared shows its minor units
		amounts = append(amounts, alert.Amount{Amount: ledger.FormatMinor(t.Amount, asset.Exponent), Asset: t.Asset})
	}
	return amounts
}

// readStanding reads what was posted for the event that came first.
func readStanding(ctx context.Context, tx pgx.Tx, row *dedupe.Row) (*standing, error) {
	found, err := tx.Query(ctx, `
		SELECT asset, amount
		FROM transfers
		WHERE event_no = $1
		ORDER BY n
		LIMIT $2`, row.No, maxAmounts)
	if err != nil {
		return nil, fmt.Errorf("read standing transfers: %w", err)
	}
	transfers, err := pgx.CollectRows(found, func(r pgx.CollectableRow) (t ledger.Transfer, err error) {
		return t, r.Scan(&t.Asset, &t.Amount)
	})
	if err != nil {
		return nil, fmt.Errorf("read standing transfers: %w", err)
	}
	return &standing{row.Seq, transfers}, nil
}

// recallAlerts sends the conflicts again that earlier workers may not have told
// anybody of, because they ended first. Their receiver knows the ids it has seen.
func (w *worker) recallAlerts(ctx context.Context) error {
	if w.alerts == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	rows, err := dedupe.Recent(ctx, w.pool, dedupe.Failed, []string{string(dlq.IDConflict), string(dlq.OperationConflict)}, alert.MaxAge, maxRecalled)
	if err != nil {
		w.log.Warn().Err(err).Msg("conflicts of earlier runs are not recalled, they stand in the dead-letter stream")
		return nil
	}
	for _, row := range rows {
		w.alerts.Send(conflictOf(row))
	}
	return nil
}
