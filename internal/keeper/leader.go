package keeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

const (
	// askEvery is how often a process that does not lead asks whether it may,
	// and askJitter what is added so that they do not ask in step.
	askEvery  = 2 * time.Second
	askJitter = time.Second
	// beatEvery is how often the leader looks whether it still is, and
	// beatTimeout how long the answer may take.
	beatEvery   = time.Second
	beatTimeout = 2 * time.Second
)

// errDeposed ends the work of a process that has lost its lock.
var errDeposed = errors.New("keeper: the lock's connection is lost")

// candidate holds a connection of its own and asks for the lock until it has it;
// then it keeps house until the connection is lost or ctx ends. The lock lives
// and dies with the session, so that no clock decides who leads.
func (k *keeper) candidate(ctx context.Context) {
	conn, err := k.connect(ctx)
	if err != nil {
		k.trouble.begin(k.Log.Warn().Err(err), "the upkeep has no connection; it is tried again")
		sleep(ctx, askEvery+rand.N(askJitter)) //nolint:gosec // spreads load, keeps no secret
		return
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), beatTimeout)
		defer cancel()
		_ = conn.Close(closing) // the server ends the session either way
	}()
	for ctx.Err() == nil {
		leads, err := lock(ctx, conn)
		if err != nil {
			sleep(ctx, rand.N(askJitter)) //nolint:gosec // as above
			return
		}
		if leads {
			k.lead(ctx, conn)
			sleep(ctx, askEvery+askJitter) // another's turn comes before
			return
		}
		sleep(ctx, askEvery+rand.N(askJitter)) //nolint:gosec // as above
	}
}

// connect opens the session that holds the lock. The server is to notice soon
// when nobody is at its other end.
func (k *keeper) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg := k.Pool.Config().ConnConfig
	params := cfg.RuntimeParams
	params["application_name"] = "onceledger-keeper"
	params["tcp_keepalives_idle"] = "2"
	params["tcp_keepalives_interval"] = "1"
	params["tcp_keepalives_count"] = "3"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// lock asks for the lock of this database and schema.
func lock(ctx context.Context, conn *pgx.Conn) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	var leads bool
	err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended('onceledger keeper of ' || current_schema(), 0))`).Scan(&leads)
	if err != nil {
		return false, fmt.Errorf("ask for the lock: %w", err)
	}
	return leads, nil
}

// lead keeps house while conn holds the lock. Whatever is under way ends at once
// when it does not.
func (k *keeper) lead(ctx context.Context, conn *pgx.Conn) {
	k.Log.Info().Msg("this worker does the upkeep")
	k.metrics.leader.Set(1)
	defer func() {
		k.metrics.retire()
		k.Log.Info().Msg("this worker no longer does the upkeep")
	}()
	leading, depose := context.WithCancelCause(ctx)
	var group errgroup.Group
	group.Go(func() error {
		beat(leading, conn)
		depose(errDeposed)
		return nil
	})
	group.Go(func() error {
		k.keep(leading)
		depose(nil)
		return nil
	})
	_ = group.Wait() // neither returns one
}

// beat returns when the connection is lost or ctx ends.
func beat(ctx context.Context, conn *pgx.Conn) {
	for {
		sleep(ctx, beatEvery)
		if ctx.Err() != nil {
			return
		}
		asking, cancel := context.WithTimeout(ctx, beatTimeout)
		_, err := conn.Exec(asking, `SELECT 1`)
		cancel()
		if err != nil {
			return
		}
	}
}
