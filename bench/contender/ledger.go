package contender

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/internal/config"
)

// Merchant is the account that every transfer debits.
const Merchant = "stripe:receivable"

// tables are those of all contenders: what anybody would make who is careful with
// money, and no index that nobody needs. Balances are in no index, and pages keep
// room, so that an update stays on its page.
const tables = `
CREATE SCHEMA contender;
CREATE TABLE contender.events (
    id          text COLLATE "C" PRIMARY KEY,
    received_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE contender.transfers (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id   text   COLLATE "C" NOT NULL,
    debit      text   COLLATE "C" NOT NULL,
    credit     text   COLLATE "C" NOT NULL,
    amount     bigint NOT NULL CHECK (amount > 0),
    asset      text   COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE contender.accounts (
    name           text    COLLATE "C" NOT NULL,
    asset          text    COLLATE "C" NOT NULL,
    limited        boolean NOT NULL,
    debits_posted  bigint  NOT NULL DEFAULT 0 CHECK (debits_posted >= 0),
    credits_posted bigint  NOT NULL DEFAULT 0 CHECK (credits_posted >= 0),
    PRIMARY KEY (name, asset),
    CONSTRAINT debits_must_not_exceed_credits CHECK (NOT limited OR debits_posted <= credits_posted)
) WITH (fillfactor = 60);
INSERT INTO contender.accounts (name, asset, limited) VALUES ('` + Merchant + `', 'eur', false);`

const (
	insertEvent    = `INSERT INTO contender.events (id) VALUES ($1)`
	insertTransfer = `
		INSERT INTO contender.transfers (event_id, debit, credit, amount, asset)
		VALUES ($1, $2, $3, $4, $5)`
	creditCustomer = `
		INSERT INTO contender.accounts AS a (name, asset, limited, credits_posted)
		VALUES ($1, $2, true, $3)
		ON CONFLICT (name, asset) DO UPDATE SET credits_posted = a.credits_posted + EXCLUDED.credits_posted`
	debitMerchant = `
		UPDATE contender.accounts
		SET debits_posted = debits_posted + $3
		WHERE name = $1 AND asset = $2`

	uniqueViolation = "23505"
)

func createTables(ctx context.Context, cfg *config.Config) error {
	return withConn(ctx, cfg, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, tables); err != nil {
			return fmt.Errorf("create tables: %w", err)
		}
		return nil
	})
}

// openPool returns connections with the settings of the server.
func openPool(ctx context.Context, cfg *config.Config, size int32) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(cfg.Database.URL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("read database address: %w", err)
	}
	c.MaxConns, c.MinConns = size, size
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return pool, nil
}

// batcher is a pool, where a batch is a transaction of its own, or a transaction.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// post adds the transfer of c to b. The merchant's row, which all want, comes
// last and is held for the shortest time.
func post(b *pgx.Batch, c charge) {
	customer := "wallet:" + c.Customer
	b.Queue(insertTransfer, c.ID, Merchant, customer, c.Amount, c.Currency)
	b.Queue(creditCustomer, customer, c.Currency, c.Amount)
	b.Queue(debitMerchant, Merchant, c.Currency, c.Amount)
}

// apply posts c, whatever was posted before.
func apply(ctx context.Context, to batcher, c charge) error {
	var b pgx.Batch
	post(&b, c)
	if err := to.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("post transfer: %w", err)
	}
	return nil
}

// applyOnce posts c and notes its id in one transaction and one round trip. A
// known id breaks the unique key and with it the whole transaction: c was applied.
func applyOnce(ctx context.Context, pool *pgxpool.Pool, c charge) error {
	var b pgx.Batch
	b.Queue(insertEvent, c.ID)
	post(&b, c)
	err := pool.SendBatch(ctx, &b).Close()
	if refused := new(pgconn.PgError); errors.As(err, &refused) &&
		refused.Code == uniqueViolation && refused.ConstraintName == "events_pkey" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("apply event: %w", err)
	}
	return nil
}

func withConn(ctx context.Context, cfg *config.Config, f func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, cfg.Database.URL.Reveal())
	if err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return f(conn)
}
