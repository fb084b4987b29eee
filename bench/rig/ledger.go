package rig

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/internal/postgres"
)

// Ledger is a recount of the database.
type Ledger struct {
	// Applied counts the events that moved money, Others all other rows.
	Applied, Others int
	// Transfers and Amount are what the ledger holds, in minor units.
	Transfers int
	Amount    int64
	// Unbalanced counts accounts that are not the sum of their transfers.
	Unbalanced int
}

// CountLedger recounts the current database.
func (r *Rig) CountLedger(ctx context.Context) (Ledger, error) {
	conn, err := pgx.Connect(ctx, r.database)
	if err != nil {
		return Ledger{}, fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var l Ledger
	err = conn.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE state = 'completed' AND outcome = 'applied'),
		       count(*) FILTER (WHERE (state = 'completed' AND outcome = 'applied') IS NOT TRUE)
		FROM events`).Scan(&l.Applied, &l.Others)
	if err != nil {
		return Ledger{}, fmt.Errorf("recount events: %w", err)
	}
	err = conn.QueryRow(ctx, `SELECT count(*), COALESCE(sum(amount), 0)::bigint FROM transfers`).Scan(&l.Transfers, &l.Amount)
	if err != nil {
		return Ledger{}, fmt.Errorf("recount transfers: %w", err)
	}
	err = conn.QueryRow(ctx, `
		WITH moved AS (
			SELECT name, asset, sum(debit) AS debits, sum(credit) AS credits
			FROM (
				SELECT debit AS name, asset, amount AS debit, 0 AS credit FROM transfers
				UNION ALL
				SELECT credit, asset, 0, amount FROM transfers
			) AS sides
			GROUP BY name, asset
		)
		SELECT count(*)
		FROM accounts AS a
		FULL JOIN moved AS m USING (name, asset)
		WHERE COALESCE(a.debits_posted, 0) <> COALESCE(m.debits, 0)
		   OR COALESCE(a.credits_posted, 0) <> COALESCE(m.credits, 0)`).Scan(&l.Unbalanced)
	if err != nil {
		return Ledger{}, fmt.Errorf("recount balances: %w", err)
	}
	return l, nil
}

// Open connects to the current database as a worker does.
func (r *Rig) Open(ctx context.Context) (*pgxpool.Pool, error) {
	return postgres.Open(ctx, r.database, postgres.Worker)
}

// CountTransfers counts the transfers alone.
func (r *Rig) CountTransfers(ctx context.Context) (n int, err error) {
	conn, err := pgx.Connect(ctx, r.database)
	if err != nil {
		return 0, fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM transfers`).Scan(&n); err != nil {
		return 0, fmt.Errorf("count transfers: %w", err)
	}
	return n, nil
}
