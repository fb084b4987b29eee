// Package stage is the system that a torture run is played on: real services
// and the real programs, each a process that can be killed, frozen and started
// again, with proxies between them that can be cut.
//
//	func main() { stage.Main(); … }      // the NATS server is this binary
//	s, err := stage.Open(ctx, stage.Options{Out: dir, Workers: 3, Receivers: 2})
//	defer s.Close(ctx)
//	err = s.Members["worker-1"].Kill()   // a supervisor starts it again
package stage

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/local"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/test/torture/traffic"
)

//go:embed torture.yaml
var configuration string

const (
	// firstPort and lastPort bound where the programs' ports are looked for:
	// below those of stacks and of outgoing connections.
	firstPort, lastPort = 10_000, 19_000
	// stopLimit bounds the end of a program that is told to stop.
	stopLimit = 45 * time.Second
	// AckWait is the programs' worker.ack_wait: a sleep longer than it loses a
	// worker its deliveries.
	AckWait = 6 * time.Second
)

// Options configures Open.
type Options struct {
	// Out is the folder for binaries, logs and orders to fault points.
	Out                string
	Receivers, Workers int
	// Cluster runs NATS as three servers with three copies of each stream.
	Cluster bool
	// Overlay is passed to go build, to break the programs; empty: as they are.
	Overlay string
	// Race builds the programs with the race detector.
	Race bool
	// Say is told what happens.
	Say func(format string, args ...any)
}

// Member is a process that can be harmed.
type Member interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Kill() error
	Pause() error
	Resume() error
}

// Stage is a running system.
type Stage struct {
	// Members are all processes by name: receiver-1, worker-2, nats, postgres, redis.
	Members map[string]Member
	// Proxies are the cables by what they connect: "worker-postgres".
	Proxies map[string]*Proxy
	// URLs are where receivers take webhooks.
	URLs    []string
	Secrets traffic.Secrets
	Catalog *catalog.Catalog
	// Addresses are those of the services themselves, past the proxies.
	Addresses devstack.Addresses

	options  Options
	stack    *devstack.Stack
	nodes    []*node
	programs []*Program
	config   string
	conn     *stream.Conn

	mu   sync.Mutex
	ends []End
}

// End is a program that ended by itself, or at a fault point.
type End struct {
	At    time.Time
	Name  string
	State string
}

// Main makes this process a NATS server if it was started as one.
func Main() { devstack.Main() }

// Open builds the programs and starts everything. The stage is to be closed even
// after an error.
func Open(ctx context.Context, o Options) (*Stage, error) {
	s := &Stage{options: o, Members: map[string]Member{}, Proxies: map[string]*Proxy{}}
	if err := s.build(ctx); err != nil {
		return s, err
	}
	if err := s.startServices(ctx); err != nil {
		return s, err
	}
	if err := s.configure(); err != nil {
		return s, err
	}
	if err := s.prepare(ctx); err != nil {
		return s, err
	}
	return s, s.startPrograms(ctx)
}

func (s *Stage) startServices(ctx context.Context) (err error) {
	options := devstack.Options{Dir: filepath.Join(s.options.Out, "stack"), Small: true}
	if s.options.Cluster {
		if s.nodes, options.NATSURL, err = startCluster(ctx, s.options.Out); err != nil {
			return err
		}
	}
	if s.stack, err = devstack.Start(ctx, options); err != nil {
		return err
	}
	s.Addresses = s.stack.Addresses
	s.Members["postgres"], s.Members["redis"] = s.stack.Postgres, s.stack.Redis
	if s.stack.NATS != nil {
		s.Members["nats"] = s.stack.NATS
	}
	for _, n := range s.nodes {
		s.Members[n.name] = n
	}
	return s.startProxies()
}

// configure writes the configuration, with secrets made up for this run.
func (s *Stage) configure() error {
	key := make([]byte, 24)
	_, _ = rand.Read(key) // never fails
	s.Secrets = traffic.Secrets{Stripe: "whsec_" + rand.Text(), Orders: "whsec_" + base64.StdEncoding.EncodeToString(key)}
	nats := ""
	if s.options.Cluster {
		nats = "replicas: 3, durability: assumed, "
	}
	text := strings.NewReplacer("{{stripe}}", s.Secrets.Stripe, "{{orders}}", s.Secrets.Orders,
		"{{ack_wait}}", AckWait.String(), "{{nats}}", nats).Replace(configuration)
	s.config = filepath.Join(s.options.Out, "onceledger.yaml")
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	var err error
	s.Catalog, err = catalog.Load(s.config, func(string) (string, bool) { return "", false })
	return err
}

// prepare makes the schema and the streams.
func (s *Stage) prepare(ctx context.Context) error {
	if _, err := local.Prepare(ctx, s.Addresses, s.Catalog.Config.NATS); err != nil {
		return err
	}
	cfg := s.Catalog.Config.NATS
	cfg.URL = s.Addresses.NATSURL
	var err error
	s.conn, err = stream.Open(ctx, cfg, "torture", zerolog.Nop())
	return err
}

func (s *Stage) startPrograms(ctx context.Context) error {
	ports, err := ports(2*s.options.Receivers + s.options.Workers)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(s.options.Out, "orders"), 0o700); err != nil {
		return fmt.Errorf("make folder for orders: %w", err)
	}
	for i := range s.options.Receivers + s.options.Workers {
		p := &Program{stage: s, binary: "receiver", name: fmt.Sprintf("receiver-%d", i+1)}
		if i < s.options.Receivers {
			p.env = []string{"RECEIVER_LISTEN=" + ports[0], "RECEIVER_ADMIN=" + ports[1]}
			s.URLs = append(s.URLs, "http://"+ports[0])
			p.admin, ports = ports[1], ports[2:]
		} else {
			p.binary, p.name = "worker", fmt.Sprintf("worker-%d", i+1-s.options.Receivers)
			p.env = []string{"WORKER_ADMIN=" + ports[0]}
			p.admin, ports = ports[0], ports[1:]
		}
		p.env = append(p.env, s.env(p.binary)...)
		s.programs = append(s.programs, p)
		s.Members[p.name] = p
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	for _, p := range s.programs {
		if err := p.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ports returns free addresses, far from where other runs look for theirs.
func ports(n int) ([]string, error) {
	first := firstPort + mathrand.IntN(lastPort-firstPort) //nolint:gosec // a port is no secret
	return new(local.Ports).TakeMany(fmt.Sprintf("127.0.0.1:%d", first), n)
}

// env is what a program is told of the services: the near ends of the proxies.
func (s *Stage) env(kind string) []string {
	near := s.Addresses
	near.NATSURL = s.near(kind+"-nats", near.NATSURL)
	if kind == "worker" {
		near.DatabaseURL = s.near("worker-postgres", near.DatabaseURL)
		near.RedisURL = s.near("worker-redis", near.RedisURL)
	}
	return near.Env()
}

// Ready waits until every program says that it is ready.
func (s *Stage) Ready(ctx context.Context) error {
	for _, p := range s.programs {
		if err := p.awaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Ends returns the programs that ended without being told to.
func (s *Stage) Ends() []End {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]End(nil), s.ends...)
}

// JS is a connection of the stage's own, past the proxies.
func (s *Stage) JS() jetstream.JetStream { return s.conn.JS }

// Redis returns a client past the proxies.
func (s *Stage) Redis() (*redis.Client, error) {
	options, err := redis.ParseURL(s.Addresses.RedisURL)
	if err != nil {
		return nil, fmt.Errorf("read redis address: %w", err)
	}
	return redis.NewClient(options), nil
}

// Postgres returns a connection past the proxies.
func (s *Stage) Postgres(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, s.Addresses.DatabaseURL)
}

// PostgresData is the folder of the database.
func (s *Stage) PostgresData() string { return filepath.Join(s.stack.Dir(), "postgres") }

// PostgresLog is the server's log.
func (s *Stage) PostgresLog() string { return filepath.Join(s.stack.Dir(), "logs", "postgres.log") }

// Remove deletes the data of a stage that is closed; the logs stay.
func (s *Stage) Remove() error {
	var errs []error
	for _, name := range []string{"stack/postgres", "stack/postgres.backup", "stack/nats", "stack/redis", "nats-1", "nats-2", "nats-3", "bin"} {
		errs = append(errs, os.RemoveAll(filepath.Join(s.options.Out, name)))
	}
	return errors.Join(errs...)
}

// Close stops everything, each before what it depends on.
func (s *Stage) Close(ctx context.Context) error {
	var errs []error
	for _, p := range s.programs {
		errs = append(errs, p.close(ctx))
	}
	if s.conn != nil {
		s.conn.Close()
	}
	for _, p := range s.Proxies {
		p.close()
	}
	if s.stack != nil {
		errs = append(errs, s.stack.Stop(ctx))
	}
	for _, n := range s.nodes {
		errs = append(errs, n.Kill())
	}
	return errors.Join(errs...)
}
