package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // goose speaks database/sql
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// ErrSchema is returned where the database is older or newer than the program.
var ErrSchema = errors.New("postgres: database schema and program do not fit")

// migrateTries is how many seconds a process waits for another's migration: it
// asks once a second.
const migrateTries = 300

//go:embed sql/*.sql
var ownSQL embed.FS

// set is one package's numbered SQL with the table that records what has run.
type set struct {
	table string
	files fs.FS
}

// sets are in the order they run: each may use what the ones before it made.
func sets() []set {
	own, err := fs.Sub(ownSQL, "sql")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return []set{
		{"dedupe_migrations", dedupe.Migrations()},
		{"ledger_migrations", ledger.Migrations()},
		{"postgres_migrations", own},
	}
}

// Migrate brings the schema to this program's version. It may be run any number
// of times and by several processes at once: one works, the others wait.
func Migrate(ctx context.Context, url string) (applied int, err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return 0, fmt.Errorf("open database: %w", redact(err))
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, s := range sets() {
		provider, err := newProvider(db, s)
		if err != nil {
			return applied, err
		}
		done, err := provider.Up(ctx)
		applied += len(done)
		if err != nil {
			return applied, fmt.Errorf("migrate %s: %w", s.table, err)
		}
	}
	return applied, nil
}

func newProvider(db *sql.DB, s set) (*goose.Provider, error) {
	store, err := database.NewStore(database.DialectPostgres, s.table)
	if err != nil {
		return nil, fmt.Errorf("open migrations %s: %w", s.table, err)
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, migrateTries))
	if err != nil {
		return nil, fmt.Errorf("open migration lock: %w", err)
	}
	provider, err := goose.NewProvider("", db, s.files, goose.WithStore(store), goose.WithSessionLocker(locker))
	if err != nil {
		return nil, fmt.Errorf("read migrations %s: %w", s.table, err)
	}
	return provider, nil
}

// CheckSchema returns ErrSchema, with what to do, unless the database is at
// exactly this program's version.
func CheckSchema(ctx context.Context, pool *pgxpool.Pool) error {
	for _, s := range sets() {
		want, err := newest(s.files)
		if err != nil {
			return err
		}
		var exists bool
		if err := pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, s.table).Scan(&exists); err != nil {
			return fmt.Errorf("read schema version: %w", err)
		}
		if !exists {
			return fmt.Errorf("%w: the database is empty; run `onceledger migrate` first", ErrSchema)
		}
		var have int64
		if err := pool.QueryRow(ctx, `SELECT max(version_id) FROM `+s.table).Scan(&have); err != nil {
			return fmt.Errorf("read schema version: %w", err)
		}
		switch {
		case have < want:
			return fmt.Errorf("%w: %s is at %d and this program needs %d; run `onceledger migrate` of this release", ErrSchema, s.table, have, want)
		case have > want:
			return fmt.Errorf("%w: %s is at %d and this program knows %d; start a newer release", ErrSchema, s.table, have, want)
		}
	}
	return nil
}

// newest returns the highest number among the files of a set.
func newest(files fs.FS) (int64, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0, fmt.Errorf("list migrations: %w", err)
	}
	var highest int64
	for _, name := range names {
		var n int64
		if _, err := fmt.Sscanf(strings.TrimLeft(name, "0"), "%d_", &n); err != nil {
			return 0, fmt.Errorf("number of migration %s: %w", name, err)
		}
		highest = max(highest, n)
	}
	return highest, nil
}
