package contender

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/internal/config"
)

// Books are what a ledger holds, its own or a contender's.
type Books struct {
	// Transfers are all that were posted, in no order.
	Transfers []Transfer
	// Unbalanced counts accounts that are not the sum of their transfers.
	Unbalanced int
}

// Transfer is one of them.
type Transfer struct {
	// Event is the id that the provider gave it.
	Event string
	// Amount is in minor units.
	Amount int64
}

// Recount reads the books of whichever contender is there; of events that FillTables
// made there are only balances.
func Recount(ctx context.Context, cfg *config.Config) (books Books, err error) {
	err = withConn(ctx, cfg, func(conn *pgx.Conn) error {
		books, err = ReadBooks(ctx, conn,
			`SELECT event_id, amount FROM contender.transfers WHERE NOT starts_with(event_id, '`+filled+`')`, `contender.accounts`, `contender.transfers`)
		return err
	})
	return books, err
}

// ReadBooks reads transfers by a query for event id and amount, and holds the
// balances of a table of accounts against a table of transfers.
func ReadBooks(ctx context.Context, conn *pgx.Conn, query, accounts, transfers string) (books Books, err error) {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return books, fmt.Errorf("recount transfers: %w", err)
	}
	if books.Transfers, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Transfer]); err != nil {
		return books, fmt.Errorf("recount transfers: %w", err)
	}
	err = conn.QueryRow(ctx, fmt.Sprintf(`
		WITH moved AS (
			SELECT name, asset, sum(debit) AS debits, sum(credit) AS credits
			FROM (
				SELECT debit AS name, asset, amount AS debit, 0 AS credit FROM %[2]s
				UNION ALL
				SELECT credit, asset, 0, amount FROM %[2]s
			) AS sides
			GROUP BY name, asset
		)
		SELECT count(*)
		FROM %[1]s AS a
		FULL JOIN moved AS m USING (name, asset)
		WHERE COALESCE(a.debits_posted, 0) <> COALESCE(m.debits, 0)
		   OR COALESCE(a.credits_posted, 0) <> COALESCE(m.credits, 0)`, accounts, transfers)).Scan(&books.Unbalanced)
	if err != nil {
		return books, fmt.Errorf("recount balances: %w", err)
	}
	return books, nil
}
