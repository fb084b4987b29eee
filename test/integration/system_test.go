package integration

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/stream/streamtest"
)

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

// system is one test's own onceledger.
type system struct {
	t *testing.T
	devstack.Addresses
	// stack runs this test's broker, and what else it has for itself.
	stack *devstack.Stack
	dir   string
	cat   *catalog.Catalog
	pool  *pgxpool.Pool
	js    jetstream.JetStream

	client   *http.Client
	programs []*program

	mu    sync.Mutex
	acked map[key]int // deliveries answered 2xx, of events that have an id
}

// key names an event.
type key struct{ source, id string }

// newSystem prepares a migrated database, a broker with its streams and a Redis
// database. The named services are the test's own, to be stopped at will; its
// broker always is. Nothing of onceledger runs yet.
func newSystem(t *testing.T, yaml string, own ...devstack.Kind) *system {
	t.Helper()
	s := &system{t: t, dir: t.TempDir(), acked: map[key]int{}}
	var err error
	s.stack, err = devstack.Start(t.Context(), devstack.Options{Small: true, Only: append(own, devstack.NATS)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.stack.Stop(context.Background())) })
	s.Addresses = s.stack.Addresses
	if s.DatabaseURL == "" {
		s.DatabaseURL = sharedDatabase(t)
	}
	if s.RedisURL == "" {
		s.RedisURL = sharedRedis(t)
	}

	_, err = postgres.Migrate(t.Context(), s.DatabaseURL)
	require.NoError(t, err)
	s.pool, err = postgres.Open(t.Context(), s.DatabaseURL, postgres.Owner)
	require.NoError(t, err)
	t.Cleanup(s.pool.Close)
	s.load(yaml)
	conn, err := stream.Open(t.Context(), s.cat.Config.NATS, "test", zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	s.js = conn.JS
	require.NoError(t, stream.Ensure(t.Context(), s.js, s.cat.Config.NATS))

	s.client = &http.Client{
		Timeout:       15 * time.Second, // a patient provider
		Transport:     &http.Transport{MaxIdleConnsPerHost: 256},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("redirected") },
	}
	t.Cleanup(s.client.CloseIdleConnections)
	t.Cleanup(s.stopAll)
	return s
}

// load writes the configuration for the programs that start from now on.
func (s *system) load(yaml string) {
	s.t.Helper()
	file := filepath.Join(s.dir, "onceledger.yaml")
	require.NoError(s.t, os.WriteFile(file, []byte(yaml), 0o600))
	env := map[string]string{}
	for _, pair := range s.Env() {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	var err error
	s.cat, err = catalog.Load(file, func(name string) (string, bool) { value, ok := env[name]; return value, ok })
	require.NoError(s.t, err)
}

// sharedDatabase makes an empty database on the shared server.
func sharedDatabase(t *testing.T) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	admin := func(statement string) {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, shared.DatabaseURL)
		require.NoError(t, err)
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, statement)
		require.NoError(t, err)
	}
	admin("CREATE DATABASE " + name)
	t.Cleanup(func() { admin("DROP DATABASE " + name + " WITH (FORCE)") })
	u, err := url.Parse(shared.DatabaseURL)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

// redisNumbers are the databases of the shared Redis that no test uses now.
var redisNumbers = func() chan int {
	numbers := make(chan int, 15)
	for n := range cap(numbers) {
		numbers <- n + 1
	}
	return numbers
}()

// sharedRedis takes an empty database of the shared server.
func sharedRedis(t *testing.T) string {
	t.Helper()
	n := <-redisNumbers
	u, err := url.Parse(shared.RedisURL)
	require.NoError(t, err)
	u.Path = fmt.Sprintf("/%d", n)
	t.Cleanup(func() {
		withRedis(t, u.String(), func(ctx context.Context, r *redis.Client) { require.NoError(t, r.FlushDB(ctx).Err()) })
		redisNumbers <- n
	})
	return u.String()
}

func withRedis(t *testing.T, url string, f func(context.Context, *redis.Client)) {
	t.Helper()
	options, err := redis.ParseURL(url)
	require.NoError(t, err)
	client := redis.NewClient(options)
	defer client.Close()
	f(context.Background(), client)
}

// redis does something to this test's Redis.
func (s *system) redis(f func(context.Context, *redis.Client)) { withRedis(s.t, s.RedisURL, f) }

// eventually waits until holds returns true.
func (s *system) eventually(what string, holds func() bool) {
	s.t.Helper()
	poll, late := time.NewTicker(20*time.Millisecond), time.After(patience)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-late:
			require.FailNow(s.t, "waited in vain: "+what)
		}
	}
}

// pass lets an outage last.
func (s *system) pass(d time.Duration) {
	s.t.Helper()
	select {
	case <-time.After(d):
	case <-s.t.Context().Done():
	}
}

// restartBroker brings the broker back and waits until this test sees it; the
// programs find it in their own time.
func (s *system) restartBroker() {
	s.t.Helper()
	require.NoError(s.t, s.stack.NATS.Start(s.t.Context()))
	streamtest.Reach(s.t, s.js)
}

// count returns what a query counts, or -1 while Postgres does not answer.
func (s *system) count(query string, args ...any) int {
	n := -1
	if s.pool.QueryRow(s.t.Context(), query, args...).Scan(&n) != nil {
		return -1
	}
	return n
}

func (s *system) transfers() int { return s.count(`SELECT count(*) FROM transfers`) }

// step runs a subtest on the system as its predecessors left it. The first that
// fails ends the test.
func (s *system) step(name string, f func(t *testing.T)) {
	s.t.Helper()
	outer := s.t
	defer func() { s.t = outer }()
	passed := outer.Run(name, func(t *testing.T) {
		s.t = t
		f(t)
	})
	require.True(outer, passed, name)
}
