// Package rig runs the real programs on real services for benchmarks, counts
// afterwards what became of every event, and knows what it cost.
//
//	func main() { rig.Main() … } // this process may be one of the programs
//	…
//	r, err := rig.Start(ctx, rig.Options{})
//	defer r.Stop(ctx)
//	receiver, err := r.StartReceiver(ctx, rig.GroupCommit)
//
// NATS, Postgres and Redis run as in production, and the programs refuse to
// start where a server does not sync to disk before it answers.
package rig

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/bench/contender"
	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/stream"
)

// Source is the name of the one webhook source.
const Source = "stripe"

//go:embed config.yaml
var configuration []byte

// Options configures Start.
type Options struct {
	// Dir is the folder below which data is written and removed again; empty:
	// the system's temporary one.
	Dir string
	// Small gives Postgres little memory, for a run that measures nothing.
	Small bool
	// Profile is the folder for profiles of the programs and for what the statements
	// of Postgres cost; empty: none.
	Profile string
}

// Rig is a running set of services.
type Rig struct {
	// Catalog is the configuration the programs run with.
	Catalog *catalog.Catalog

	options   Options
	dir       string
	stack     *devstack.Stack
	conn      *stream.Conn
	redis     *redis.Client
	database  string // URL of the current one
	databases int

	mu       sync.Mutex
	programs map[string]*Program // running, by name
	profiles int
}

// Start starts the services and leaves them empty.
func Start(ctx context.Context, options Options) (*Rig, error) {
	if options.Dir != "" {
		if err := chooseDir(options.Dir); err != nil {
			return nil, fmt.Errorf("choose data folder: %w", err)
		}
	}
	r := &Rig{options: options, programs: map[string]*Program{}}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(err, r.Stop(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// chooseDir makes dir the place of devstack's temporary folder and of ours.
func chooseDir(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { // Postgres's user must pass through
		return err
	}
	return os.Setenv("TMPDIR", dir)
}

func (r *Rig) start(ctx context.Context) (err error) {
	if r.dir, err = os.MkdirTemp("", "onceledger-bench-"); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if r.options.Profile != "" {
		if r.options.Profile, err = filepath.Abs(r.options.Profile); err != nil {
			return fmt.Errorf("find profile folder: %w", err)
		}
		if err := os.MkdirAll(r.options.Profile, 0o755); err != nil {
			return fmt.Errorf("make profile folder: %w", err)
		}
	}
	if r.stack, err = devstack.Start(ctx, devstack.Options{Small: r.options.Small, Statements: r.options.Profile != ""}); err != nil {
		return err
	}
	r.database = r.stack.DatabaseURL
	if r.options.Profile != "" {
		if err := r.exec(ctx, `CREATE EXTENSION pg_stat_statements`); err != nil {
			return err
		}
	}
	if err := os.WriteFile(r.ConfigPath(), configuration, 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if r.Catalog, err = catalog.Load(r.ConfigPath(), r.lookup); err != nil {
		return err
	}
	if r.conn, err = stream.Open(ctx, r.Catalog.Config.NATS, "onceledger-bench", zerolog.Nop()); err != nil {
		return err
	}
	options, err := redis.ParseURL(r.stack.RedisURL)
	if err != nil {
		return fmt.Errorf("read redis address: %w", err)
	}
	r.redis = redis.NewClient(options)
	return r.Reset(ctx)
}

// Stop ends the programs, then the services, and removes what they wrote.
func (r *Rig) Stop(ctx context.Context) error {
	var errs []error
	for _, p := range maps.Clone(r.programs) {
		errs = append(errs, p.Stop(ctx))
	}
	if r.conn != nil {
		r.conn.Close()
	}
	if r.redis != nil {
		errs = append(errs, r.writeStatements(ctx), r.redis.Close())
	}
	if r.stack != nil {
		errs = append(errs, r.stack.Stop(ctx))
	}
	if r.dir != "" {
		errs = append(errs, os.RemoveAll(r.dir))
	}
	return errors.Join(errs...)
}

// ConfigPath is the configuration file of the programs.
func (r *Rig) ConfigPath() string { return filepath.Join(r.dir, "onceledger.yaml") }

// Reset gives whoever is measured next empty streams, an empty database at the
// current schema and an empty Redis. No program may run.
func (r *Rig) Reset(ctx context.Context) error {
	if err := r.writeStatements(ctx); err != nil {
		return err
	}
	for _, name := range []string{stream.Events, stream.DLQ, contender.Stream} {
		if err := r.dropStream(ctx, name); err != nil {
			return err
		}
	}
	if err := stream.Ensure(ctx, r.conn.JS, r.Catalog.Config.NATS); err != nil {
		return err
	}
	if err := r.redis.FlushAll(ctx).Err(); err != nil {
		return fmt.Errorf("empty redis: %w", err)
	}
	if err := r.newDatabase(ctx); err != nil {
		return err
	}
	var err error
	r.Catalog, err = catalog.Load(r.ConfigPath(), r.lookup) // with its address
	return err
}

// newDatabase leaves the last database as it is: dropping it would sync every
// file of it while somebody is measured.
func (r *Rig) newDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, r.stack.DatabaseURL)
	if err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	r.databases++
	name := fmt.Sprintf("bench_%d", r.databases)
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{name}.Sanitize()); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	address, err := url.Parse(r.stack.DatabaseURL)
	if err != nil {
		return fmt.Errorf("read database address: %w", err)
	}
	address.Path = "/" + name
	r.database = address.String()
	_, err = postgres.Migrate(ctx, r.database)
	return err
}

// env is what the programs get besides this process's environment.
func (r *Rig) env() []string {
	addresses := r.stack.Addresses
	addresses.DatabaseURL = r.database
	return addresses.Env()
}

func (r *Rig) lookup(name string) (string, bool) {
	for _, variable := range r.env() {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// Versions are those of the services.
type Versions struct{ NATS, Postgres, Redis string }

// Versions asks the services.
func (r *Rig) Versions(ctx context.Context) (v Versions, err error) {
	v.NATS = r.conn.NC.ConnectedServerVersion()
	conn, err := pgx.Connect(ctx, r.database)
	if err != nil {
		return v, fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := conn.QueryRow(ctx, `SELECT split_part(current_setting('server_version'), ' ', 1)`).Scan(&v.Postgres); err != nil {
		return v, fmt.Errorf("read postgres version: %w", err)
	}
	info, err := r.redis.Info(ctx, "server").Result()
	if err != nil {
		return v, fmt.Errorf("read redis version: %w", err)
	}
	for line := range strings.Lines(info) {
		if version, ok := strings.CutPrefix(line, "redis_version:"); ok {
			v.Redis = strings.TrimSpace(version)
		}
	}
	return v, nil
}
