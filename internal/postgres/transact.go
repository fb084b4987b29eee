package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// lostRaces bounds how often Transact tries.
const lostRaces = 5

// Transact runs f in a transaction, and again if it loses a race: f must begin
// anew each time. What workers do has means of its own.
func Transact(ctx context.Context, pool *pgxpool.Pool, f func(pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, pool, f)
		var failed *pgconn.PgError
		if err == nil || try == lostRaces || !errors.As(err, &failed) {
			return err
		}
		switch failed.Code {
		case "40001", "40P01", "55P03", "23505": // lost a race, deadlocked, waited too long for a lock, second with a number
		default:
			return err
		}
	}
}
