package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/onceledger/onceledger/internal/alert"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// open connects to everything and refuses what would lose money. Services that
// are not there yet are waited for, since programs start in any order.
func (w *worker) open(ctx context.Context) error {
	cfg := w.cat.Config
	var err error
	if w.alerts, err = alert.New(cfg.Alerts, w.log, w.reg); err != nil {
		return fmt.Errorf("%w: %w", stream.ErrRefused, err)
	}
	if w.pool, err = postgres.Open(ctx, cfg.Database.URL.Reveal(), postgres.Worker); err != nil {
		return err
	}
	w.debts.pool = w.pool
	if err := w.awaitPostgres(ctx); err != nil {
		return err
	}
	if err := w.openRedis(ctx); err != nil {
		return err
	}
	if w.conn, err = stream.Open(ctx, cfg.NATS, "onceledger-worker", w.log); err != nil {
		return err
	}
	w.js = w.conn.JS
	w.metrics.watch(w.reg, w.conn.NC.IsConnected)
	_, err = stream.Prepare(ctx, w.conn, cfg.NATS, w.log, w.openEvents)
	return err
}

func (w *worker) openRedis(ctx context.Context) (err error) {
	url := w.cat.Config.Redis.URL.Reveal()
	if w.tuning.NoRedis || url == "" {
		w.log.Warn().Msg("no redis configured, every duplicate is found in postgres")
		return nil
	}
	redis.SetLogger(silent{})
	w.claims, err = dedupe.NewClaims(url, claimPrefix, func(event string, n int) {
		w.metrics.redis.WithLabelValues(event).Add(float64(max(n, 1)))
	})
	if err != nil {
		return err
	}
	w.claims.Watch(func(err error) {
		if err != nil {
			w.claiming.Down(err)
		} else {
			w.claiming.Up()
		}
	})
	if err := w.claims.CheckVersion(ctx); err != nil {
		return fmt.Errorf("%w: %w", stream.ErrRefused, err)
	}
	return nil
}

// silent keeps the client of Redis from writing a line for each failed dial:
// an outage has one at its start and one at its end.
type silent struct{}

// Printf implements the client's logger.
func (silent) Printf(context.Context, string, ...any) {}

// awaitPostgres waits for a server and then checks, once, that it is the right
// one: durable, and at this program's schema; and declares the assets there.
func (w *worker) awaitPostgres(ctx context.Context) error {
	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(probeFirst), backoff.WithMaxInterval(probeMost), backoff.WithMaxElapsedTime(0))
	err := backoff.Retry(func() error {
		err := w.checkPostgres(ctx)
		if errors.Is(err, postgres.ErrDurability) || errors.Is(err, postgres.ErrSchema) || errors.Is(err, ledger.ErrExponent) {
			return backoff.Permanent(fmt.Errorf("%w: %w", stream.ErrRefused, err))
		}
		if err != nil {
			w.gate.Down(err)
		}
		return err
	}, backoff.WithContext(wait, ctx))
	if err != nil {
		return err
	}
	w.gate.Up()
	return nil
}

func (w *worker) checkPostgres(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := postgres.CheckDurability(ctx, w.pool); err != nil {
		return err
	}
	if err := postgres.CheckSchema(ctx, w.pool); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		return ledger.DeclareAssets(ctx, tx, w.cat.Assets.Declared())
	})
}

// probe says whether Postgres can take a batch again: it has the tables, and it
// lets this role write. Whether it can is for the first batch to find out.
func (w *worker) probe(ctx context.Context) error {
	var readOnly bool
	err := w.pool.QueryRow(ctx, `
		SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool
		FROM (SELECT
		      FROM events, readings, operations, transfers, accounts, waiting
		      LIMIT 0) AS tables
		RIGHT JOIN (SELECT) AS one ON true`).Scan(&readOnly)
	if err == nil && readOnly {
		err = errors.New("postgres is read-only")
	}
	return err
}

// resume is the gate's probe: what outages interrupted is given back before
// anybody goes on. Attempts that somebody holds locked are given back later.
func (w *worker) resume(ctx context.Context) error {
	if err := w.probe(ctx); err != nil {
		return err
	}
	if err := w.debts.pay(ctx); err != nil && verdictOf(err) == unavailable {
		return err
	}
	return nil
}

// ready says whether this worker could work now.
func (w *worker) ready(ctx context.Context) error {
	if !w.conn.NC.IsConnected() {
		return errors.New("nats is away")
	}
	return w.probe(ctx)
}

// openEvents reads which incarnation of the stream sequences belong to.
func (w *worker) openEvents(ctx context.Context) error {
	opened, err := w.js.Stream(ctx, stream.Events)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", stream.Events, err)
	}
	w.events.Store(&events{created(opened)})
	return nil
}

// created is the incarnation of a stream.
func created(s jetstream.Stream) time.Time {
	return stream.Incarnation(s.CachedInfo().Created)
}

// close gives every connection back.
func (w *worker) close() {
	if w.conn != nil {
		_ = w.conn.NC.FlushTimeout(time.Second) // the last answers; a lost one costs a redelivery
		w.conn.Close()
	}
	_ = w.claims.Close() // nothing is left to tell it
	for _, o := range []*telemetry.Outage{w.slow, w.fetching, w.claiming, w.lying, w.letters.Outage} {
		o.Close()
	}
	if w.pool != nil {
		w.pool.Close()
	}
}
