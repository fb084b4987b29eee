// Package operator does the work of the onceledger command: it finds the
// system, opens what a command needs of it, and prints what it found as a table
// for a person or as JSON for a program.
//
//	s := &operator.Session{Data: ".data", Out: os.Stdout, Env: os.LookupEnv}
//	err := operator.ShowEvent(ctx, s, "stripe", "evt_1")
package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/stream"
)

// connectTimeout bounds the wait for a service: whoever sits at the terminal
// wants to hear that it is away.
const connectTimeout = 5 * time.Second

// Session is one run of a command: where the system is and where to print.
type Session struct {
	// Data is the folder of a stack that `onceledger up` runs; its addresses
	// then win over the environment and the configuration.
	Data string
	// Config is the configuration file; empty: see ConfigPath.
	Config string
	// JSON prints one object, or one a line, instead of a table.
	JSON bool
	// CSV prints CSV instead, where a command can.
	CSV bool
	// Env is os.LookupEnv outside of tests.
	Env func(string) (string, bool)
	// Name is how this program was called; empty means onceledger.
	Name string
	// Out is where results go, and Err what is none: questions and progress.
	Out, Err io.Writer
	// In is the keyboard, and Terminal whether a person sits at it and sees Err.
	In       io.Reader
	Terminal bool

	stack *devstack.Addresses
}

// env is the environment with the addresses of the stack in front.
func (s *Session) env() (func(string) (string, bool), error) {
	if s.Data == "" {
		return s.Env, nil
	}
	stack, err := s.addresses()
	if err != nil {
		return nil, err
	}
	over := map[string]string{
		"NATS_URL":         stack.NATSURL,
		"NATS_MONITOR_URL": stack.NATSMonitorURL,
		"DATABASE_URL":     stack.DatabaseURL,
		"REDIS_URL":        stack.RedisURL,
	}
	return func(name string) (string, bool) {
		if value := over[name]; value != "" {
			return value, true
		}
		return s.Env(name)
	}, nil
}

// addresses reads the stack's addresses once.
func (s *Session) addresses() (*devstack.Addresses, error) {
	if s.stack == nil {
		stack, err := devstack.ReadAddresses(s.Data)
		if err != nil {
			return nil, err
		}
		s.stack = &stack
	}
	return s.stack, nil
}

// ConfigPath returns the configuration file to read: the one that was named, else
// that which the stack runs with, else that of its folder, else onceledger.yaml here.
// There may be none.
func (s *Session) ConfigPath() string {
	if named, _ := s.Env("ONCELEDGER_CONFIG"); s.Config != "" || named != "" {
		return cmp.Or(s.Config, named)
	}
	if s.Data != "" {
		if stack, err := s.addresses(); err == nil && stack.Config != "" { // else whoever needs them says why
			return stack.Config
		}
		path := filepath.Join(s.Data, config.DefaultPath)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return config.DefaultPath
}

// Catalog loads the configuration with its compiled sources.
func (s *Session) Catalog() (*catalog.Catalog, error) {
	env, err := s.env()
	if err != nil {
		return nil, err
	}
	cat, err := catalog.Load(s.ConfigPath(), env)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Usagef("%w; name the file with --config or ONCELEDGER_CONFIG", err)
	}
	return cat, err
}

// settings returns what the configuration file and the environment say together;
// a missing file that nobody named says nothing.
func (s *Session) settings() (*config.Config, error) {
	env, err := s.env()
	if err != nil {
		return nil, err
	}
	path := s.ConfigPath()
	cfg, err := config.Load(path, env)
	var faults config.Faults
	switch {
	case errors.Is(err, fs.ErrNotExist) && path == config.DefaultPath:
		cfg, err = config.FromEnv(env)
		if url, _ := env("NATS_URL"); url == "" {
			cfg.NATS.URL = ""
		}
	case errors.As(err, &faults) && !slices.ContainsFunc(faults, concernsServices):
		err = nil
	}
	return cfg, err
}

// concernsServices reports whether a fault may hide where the services are. A
// secret that is not set in this shell does not.
func concernsServices(f config.Fault) bool {
	return !strings.HasPrefix(f.Path, "sources.")
}

// missing says how to name a service that no setting names.
func missing(what, variable string) error {
	return exit.Usagef("%s is not configured: give --data DIR of a stack that `onceledger up` runs, or set %s, or name a configuration with --config", what, variable)
}

// Database opens the ledger and checks that this program fits its schema.
func (s *Session) Database(ctx context.Context) (*pgxpool.Pool, error) {
	url, err := s.databaseURL()
	if err != nil {
		return nil, err
	}
	pool, err := postgres.Open(ctx, url, postgres.Owner)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := postgres.CheckSchema(ctx, pool); err != nil {
		pool.Close()
		return nil, s.away("postgres", err)
	}
	return pool, nil
}

func (s *Session) databaseURL() (string, error) {
	cfg, err := s.settings()
	if err != nil {
		return "", err
	}
	if cfg.Database.URL.IsZero() {
		return "", missing("the database", "DATABASE_URL")
	}
	return cfg.Database.URL.Reveal(), nil
}

// Stream connects to the broker.
func (s *Session) Stream(ctx context.Context) (*stream.Conn, error) {
	cfg, err := s.settings()
	if err != nil {
		return nil, err
	}
	if cfg.NATS.URL == "" {
		return nil, missing("nats", "NATS_URL")
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := stream.Open(ctx, cfg.NATS, "onceledger", zerolog.Nop())
	if err != nil {
		return nil, s.away("nats", err)
	}
	return conn, nil
}

// away adds to an error of connecting what a person can do about it.
func (s *Session) away(service string, err error) error {
	var refused *pgconn.ConnectError
	var broken net.Error
	if !errors.As(err, &refused) && !errors.As(err, &broken) && !errors.Is(err, nats.ErrNoServers) {
		return err
	}
	if s.Data != "" {
		return fmt.Errorf("%w\nthe %s of the stack in %s cannot be reached; is `onceledger up --data %s` still running?", err, service, s.Data, s.Data)
	}
	return fmt.Errorf("%w\n%s cannot be reached; does it run, and is its address right?", err, service)
}

// command is this program as it was called, and where the flag that names its
// system: what a suggested command needs to be pasted.
func (s *Session) command() string {
	if s.Name == "" {
		return "onceledger"
	}
	return s.Name
}

func (s *Session) where() string {
	if s.Data == "" {
		return ""
	}
	return " --data " + s.Data
}
