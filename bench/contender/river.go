package contender

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	riverqueue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/config"
)

const (
	// riverWorkers is the parallelism of River's own examples: a fetch brings as
	// many jobs as there are idle workers.
	riverWorkers = 100
	// riverInserts and riverPosts are the connections of the handler and of the
	// workers' transactions, apart so that neither waits for the other. More of the
	// latter only wait for the merchant's row. riverOwn are those of the client
	// itself: listening, fetching, completing, maintenance.
	riverInserts, riverPosts, riverOwn = 32, 16, 6
	// riverCooldown bounds how often jobs are fetched; the default of 100 ms bounds
	// the throughput.
	riverCooldown = 5 * time.Millisecond
	riverPoll     = 100 * time.Millisecond
	// riverBatch is the size of an insert of many jobs.
	riverBatch = 1000
	// riverStop bounds the jobs under way at the end.
	riverStop = 20 * time.Second
)

// river inserts a unique job in the request. A worker posts and completes the job
// in one transaction, so that no job is posted twice.
var river = Contender{
	Name: River, Queue: true,
	prepare: prepareRiver,
	fill:    fillRiver,
	watch:   watchRiver,
	open:    openRiver,
}

// Kind names the job.
func (charge) Kind() string { return "charge" }

// InsertOpts makes an event's id unique among the jobs that are kept: for a day
// after their completion, by default.
func (charge) InsertOpts() riverqueue.InsertOpts {
	return riverqueue.InsertOpts{UniqueOpts: riverqueue.UniqueOpts{ByArgs: true}}
}

// riverWorker is what works a job.
type riverWorker struct {
	riverqueue.WorkerDefaults[charge]
	pool *pgxpool.Pool
}

// Work posts a charge and completes its job together.
func (w *riverWorker) Work(ctx context.Context, job *riverqueue.Job[charge]) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		// First, so that the merchant's row is not held meanwhile.
		if _, err := riverqueue.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
			return fmt.Errorf("complete job: %w", err)
		}
		return apply(ctx, tx, job.Args)
	})
}

func openRiver(ctx context.Context, group *errgroup.Group, cfg *config.Config, _ zerolog.Logger, parts Parts) (store, error) {
	if parts.Work {
		if err := workRiver(ctx, group, cfg); err != nil {
			return nil, err
		}
	}
	pool, err := openPool(ctx, cfg, riverInserts)
	if err != nil {
		return nil, err
	}
	closeAfter(ctx, group, pool.Close)
	client, err := inserter(pool)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c charge) error {
		if _, err := client.Insert(ctx, c, nil); err != nil {
			return fmt.Errorf("insert job: %w", err)
		}
		return nil
	}, nil
}

// inserter is a client that works no jobs.
func inserter(pool *pgxpool.Pool) (*riverqueue.Client[pgx.Tx], error) {
	client, err := riverqueue.NewClient(riverpgxv5.New(pool), &riverqueue.Config{Logger: riverLogger()})
	if err != nil {
		return nil, fmt.Errorf("open river: %w", err)
	}
	return client, nil
}

func workRiver(ctx context.Context, group *errgroup.Group, cfg *config.Config) error {
	own, err := openPool(ctx, cfg, riverOwn)
	if err != nil {
		return err
	}
	posts, err := openPool(ctx, cfg, riverPosts)
	if err != nil {
		return err
	}
	workers := riverqueue.NewWorkers()
	riverqueue.AddWorker(workers, &riverWorker{pool: posts})
	client, err := riverqueue.NewClient(riverpgxv5.New(own), &riverqueue.Config{
		Logger:            riverLogger(),
		Queues:            map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: riverWorkers}},
		Workers:           workers,
		FetchCooldown:     riverCooldown,
		FetchPollInterval: riverPoll,
		SoftStopTimeout:   riverStop,
	})
	if err != nil {
		return fmt.Errorf("open river: %w", err)
	}
	if err := client.Start(ctx); err != nil {
		return fmt.Errorf("start river: %w", err)
	}
	group.Go(func() error {
		<-client.Stopped() // ctx stops it
		own.Close()
		posts.Close()
		return nil
	})
	return nil
}

func riverLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func prepareRiver(ctx context.Context, cfg *config.Config) error {
	pool, err := openPool(ctx, cfg, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: riverLogger()})
	if err != nil {
		return fmt.Errorf("open river's migrations: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate river: %w", err)
	}
	return nil
}

func fillRiver(ctx context.Context, cfg *config.Config, charges []charge) error {
	pool, err := openPool(ctx, cfg, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := inserter(pool)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(charges, riverBatch) {
		params := make([]riverqueue.InsertManyParams, len(chunk))
		for i, c := range chunk {
			params[i].Args = c
		}
		if _, err := client.InsertMany(ctx, params); err != nil {
			return fmt.Errorf("insert jobs: %w", err)
		}
	}
	return nil
}

func watchRiver(ctx context.Context, cfg *config.Config) (Left, func(), error) {
	pool, err := openPool(ctx, cfg, 1)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) (left int, err error) {
		err = pool.QueryRow(ctx, `
			SELECT count(*)
			FROM river_job
			WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled')`).Scan(&left)
		if err != nil {
			return 0, fmt.Errorf("count jobs: %w", err)
		}
		return left, nil
	}, pool.Close, nil
}
