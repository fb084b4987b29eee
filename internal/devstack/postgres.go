package devstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

const (
	databaseName = "onceledger"
	// maxSharedBuffers is the most Postgres gets of a large machine's memory.
	maxSharedBuffers = 4 << 30
	// smallSharedBuffers keeps several test stacks on one machine affordable.
	smallSharedBuffers = 128 << 20
)

func (s *Stack) startPostgres(ctx context.Context) error {
	pg, err := s.cluster(ctx)
	if err != nil {
		return err
	}
	settings, err := s.postgresSettings(ctx, pg)
	if err != nil {
		return err
	}
	s.Postgres, err = s.launch(ctx, func() (Command, error) {
		s.DatabaseURL = s.databaseURL(databaseName)
		maintenance := s.databaseURL("postgres")
		return Command{
			Name:    "postgres",
			Path:    filepath.Join(pg.bin, "postgres"),
			Args:    append([]string{"-D", pg.data, "-p", strconv.Itoa(s.state.PostgresPort)}, settings...),
			Env:     pg.env(),
			Dir:     pg.data,
			LogFile: filepath.Join(s.dir, "logs", "postgres.log"),
			// Fast shutdown: sessions are ended, a checkpoint is written.
			StopSignal: syscall.SIGINT,
			Ready:      func(ctx context.Context) error { return ensureDatabase(ctx, maintenance) },
			lock:       s.lockPath(Postgres),
			account:    pg.account,
			// The lock proves that the process named there, if any, is not ours.
			prepare: func() error { return removeIfThere(filepath.Join(pg.data, "postmaster.pid")) },
		}, nil
	}, &s.state.PostgresPort)
	return err
}

func (s *Stack) databaseURL(database string) string {
	return fmt.Sprintf("postgres://%s:%s@%s:%d/%s?sslmode=disable",
		userName, s.state.Password, loopback, s.state.PostgresPort, database)
}

// postgresSettings are given on the command line, so that they are those of the
// running version of this package, not of the one that made the data.
func (s *Stack) postgresSettings(ctx context.Context, pg postgres) ([]string, error) {
	buffers, maxWAL := int64(smallSharedBuffers), "2GB"
	if !s.options.Small {
		memory, err := memorySize(ctx)
		if err != nil {
			return nil, fmt.Errorf("measure memory: %w", err)
		}
		buffers, maxWAL = min(memory/4, maxSharedBuffers), "16GB"
	}
	settings := []string{
		"listen_addresses=" + loopback,
		"unix_socket_directories=",
		"max_connections=200",
		"fsync=on",
		"full_page_writes=on",
		"synchronous_commit=on",
		fmt.Sprintf("shared_buffers=%dkB", buffers>>10),
		"max_wal_size=" + maxWAL,
		"checkpoint_timeout=30min",
		"wal_compression=" + pg.walCompression(ctx),
		"timezone=UTC",
	}
	if s.options.Statements {
		settings = append(settings, "shared_preload_libraries=pg_stat_statements")
	}
	if s.temporary {
		// Shared memory as files of the data folder: removed with it, even after SIGKILL.
		settings = append(settings, "dynamic_shared_memory_type=mmap")
	}
	var args []string
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args, nil
}

// walCompression is lz4 where this Postgres was built with it, else pglz.
func (pg postgres) walCompression(ctx context.Context) string {
	if _, err := pg.run(ctx, "postgres", "-D", pg.data, "-C", "wal_compression", "-c", "wal_compression=lz4"); err != nil {
		return "on"
	}
	return "lz4"
}

// ensureDatabase is also the readiness probe: a first run killed between start
// and creation is completed by the next.
func ensureDatabase(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var exists bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, databaseName).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, `CREATE DATABASE `+databaseName)
	return err
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
