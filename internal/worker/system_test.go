package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/stream/streamtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

var stack *devstack.Stack

func TestMain(m *testing.M) {
	devstack.Main()
	if os.Getenv(pausedWorkerEnv) != "" {
		os.Exit(runPausedWorker())
	}
	if os.Getenv(killedWorkerEnv) != "" {
		os.Exit(runKilledWorker())
	}
	if os.Getenv(childWorkerEnv) != "" {
		os.Exit(runChildWorker())
	}
	stacktest.Main(m, &stack)
}

// shop is a source without modes; its rules read body.amount and friends.
const shop = `
nats: {events_max_bytes: 256MiB, dlq_max_bytes: 64MiB}
retry: {attempts: 3, age: 1h, base: 50ms, cap: 100ms}
accounts:
  - {match: "purse:*", limit: debits_must_not_exceed_credits, policy: enforce}
  - {match: "open:*", limit: debits_must_not_exceed_credits, policy: record}
sources:
  shop:
    provider: hmac
    secret: secret-of-the-shop
    hmac: {header: X-Signature, encoding: hex, algorithm: sha256}
    id: body:id
    type: body:type
    rules:
      - when: event.type == "paid"
        transfers:
          - {debit: body.from, credit: body.to, amount: body.amount, asset: body.asset, operation: 'op("payment", body.payment)'}
`

// system is one test's share of the stack: a schema of its own, empty streams
// and an empty Redis. Tests of this package run one after another.
type system struct {
	t    *testing.T
	cat  *catalog.Catalog
	pool *pgxpool.Pool
	js   jetstream.JetStream
	url  string
	env  map[string]string // replaces what the stack says
	log  zerolog.Logger
	out  *lockedBuffer // what was logged
}

func newSystem(t *testing.T, yaml string) *system {
	t.Helper()
	ctx := t.Context()
	schema := "t" + randomHex(t)
	s := &system{t: t, url: inSchema(t, stack.DatabaseURL, schema), env: map[string]string{}, out: &lockedBuffer{}}
	s.log = zerolog.New(io.MultiWriter(zerolog.NewTestWriter(t), s.out))

	admin, err := pgx.Connect(ctx, stack.DatabaseURL)
	require.NoError(t, err)
	_, err = admin.Exec(ctx, "CREATE SCHEMA "+schema)
	require.NoError(t, err)
	require.NoError(t, admin.Close(ctx))
	_, err = postgres.Migrate(ctx, s.url)
	require.NoError(t, err)
	s.pool, err = postgres.Open(ctx, s.url, postgres.Owner)
	require.NoError(t, err)
	t.Cleanup(s.pool.Close)

	s.cat = s.load(yaml)
	conn, err := stream.Open(ctx, s.cat.Config.NATS, "test", s.log)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	s.js = conn.JS
	for _, name := range []string{stream.Events, stream.DLQ} {
		if err := s.js.DeleteStream(ctx, name); err != nil {
			require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
		}
	}
	waitFor(patience, func() bool { // a cluster may have no leader yet
		err = stream.Ensure(ctx, s.js, s.cat.Config.NATS)
		return err == nil
	})
	require.NoError(t, err)
	s.redis(func(r *redis.Client) { require.NoError(t, r.FlushDB(ctx).Err()) })
	return s
}

// load compiles a configuration whose services are the stack's.
func (s *system) load(yaml string) *catalog.Catalog {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "onceledger.yaml")
	require.NoError(s.t, os.WriteFile(file, []byte(yaml), 0o600))
	env := map[string]string{
		"DATABASE_URL": s.url, "NATS_URL": stack.NATSURL, "NATS_MONITOR_URL": stack.NATSMonitorURL, "REDIS_URL": stack.RedisURL,
		"WORKER_ADMIN": "127.0.0.1:0",
	}
	maps.Copy(env, s.env)
	cat, err := catalog.Load(file, func(name string) (string, bool) { value, ok := env[name]; return value, ok })
	require.NoError(s.t, err)
	return cat
}

// start runs a worker until the test ends or the returned stop is called.
func (s *system) start(adjust ...func(*worker)) (stop func()) {
	s.t.Helper()
	stop, _ = s.startTold(adjust...)
	return stop
}

// startTold is start, with what tells the worker to stop and does not wait for it.
func (s *system) startTold(adjust ...func(*worker)) (stop, tell func()) {
	s.t.Helper()
	w := newWorker(s.cat, s.log, Tuning{})
	for _, f := range adjust {
		f(w)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(s.t, <-ended)
	}
	s.t.Cleanup(stop)
	return stop, cancel
}

// hasty lets a worker come back soon from an outage that a test repeats.
func hasty(w *worker) {
	w.gate.most, w.debts.delay = probeFirst, probeFirst
	w.letters.hold, w.letterDelay = 2*time.Second, time.Second
}

// payment is an event of the shop.
func payment(id, payment, from, to string, amount int64) *envelope.Event {
	return event(id, fmt.Sprintf(`{"id":%q,"type":"paid","payment":%q,"from":%q,"to":%q,"amount":%d,"asset":"EUR"}`, id, payment, from, to, amount))
}

func event(id, body string) *envelope.Event {
	return &envelope.Event{Source: "shop", ID: id, Type: "paid", Time: time.Unix(1_700_000_000, 0), ContentType: "application/json", Data: []byte(body)}
}

// publish stores events one after another and returns the last sequence.
func (s *system) publish(events ...*envelope.Event) uint64 {
	s.t.Helper()
	var last uint64
	for _, e := range events {
		msg, err := e.Msg()
		require.NoError(s.t, err)
		ack, err := s.js.PublishMsg(s.t.Context(), msg)
		require.NoError(s.t, err)
		last = ack.Sequence
	}
	return last
}

// settled waits until no delivery is outstanding or waiting.
func (s *system) settled() {
	s.t.Helper()
	s.eventually(s.idle, "the consumer settles")
}

// idle reports whether everything that is stored now was delivered and answered.
func (s *system) idle() bool { return streamtest.Idle(s.t, s.js) }

// logged counts the lines that say text.
func (s *system) logged(text string) int { return strings.Count(s.out.String(), text) }

// away is the gauge of a service's outage.
func away(w *worker, service string) bool {
	return testutil.ToFloat64(w.metrics.away.WithLabelValues(service)) == 1
}

// free checks that what happened cost no event an attempt, a crash or a place
// in the dead-letter stream.
func (s *system) free() {
	s.t.Helper()
	require.Zero(s.t, s.count(`SELECT count(*) FROM events WHERE attempts > 0`), "no attempt is spent")
	require.Zero(s.t, s.count(`SELECT count(*) FROM events WHERE crashes > 0`), "no crash is counted")
	require.Zero(s.t, s.count(`SELECT count(*) FROM events WHERE state <> 'completed'`))
	require.Empty(s.t, s.letters())
}

// payments publishes n payments of 1 to wallet:1, numbered from first.
func (s *system) payments(first, n int) {
	s.t.Helper()
	const most = 500
	for ; n > 0; n -= most {
		batch := make([]*nats.Msg, min(n, most))
		for i := range batch {
			id := fmt.Sprintf("evt_%06d", first)
			var err error
			batch[i], err = payment(id, "p_"+id, "bank", "wallet:1", 1).Msg()
			require.NoError(s.t, err)
			first++
		}
		_, err := jetstreamext.PublishMsgBatch(s.t.Context(), s.js, batch)
		require.NoError(s.t, err)
	}
}

// patience is how long a test waits for what must happen: longer than the ack wait.
const patience = 3 * time.Minute

// eventually waits, in the test's own goroutine, since conditions may fail the test.
func (s *system) eventually(condition func() bool, what string) {
	s.t.Helper()
	require.True(s.t, waitFor(patience, condition), what)
}

// waitFor reports whether condition comes true within a time.
func waitFor(limit time.Duration, condition func() bool) bool {
	for late := time.After(limit); !condition(); {
		select {
		case <-late:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}

// row returns the row of an event, or nil.
func (s *system) row(id string) *dedupe.Row {
	s.t.Helper()
	key := dedupe.Key{Source: "shop", ID: id}
	rows, err := dedupe.Read(s.t.Context(), s.pool, []dedupe.Key{key})
	require.NoError(s.t, err)
	return rows[key]
}

// decided waits until the event's row has a state and returns it.
func (s *system) decided(id string, state dedupe.State) *dedupe.Row {
	s.t.Helper()
	var row *dedupe.Row
	s.eventually(func() bool { row = s.row(id); return row != nil && row.State == state }, id+" is "+string(state))
	return row
}

// balance returns credits minus debits of an account, in minor units.
func (s *system) balance(account string) int64 {
	s.t.Helper()
	var sum int64
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(),
		`SELECT COALESCE(sum(credits_posted - debits_posted), 0)::bigint FROM accounts WHERE name = $1`, account).Scan(&sum))
	return sum
}

// count returns the number of rows that a query counts.
func (s *system) count(query string, args ...any) int {
	s.t.Helper()
	var n int
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(), query, args...).Scan(&n))
	return n
}

func (s *system) transfers() int { return s.count(`SELECT count(*) FROM transfers`) }

// letters returns all dead letters, oldest first.
func (s *system) letters() []*dlq.Letter {
	s.t.Helper()
	var letters []*dlq.Letter
	require.NoError(s.t, dlq.List(s.t.Context(), s.js, dlq.Filter{}, func(l *dlq.Letter) error {
		letters = append(letters, l)
		return nil
	}))
	return letters
}

func (s *system) redis(f func(*redis.Client)) {
	s.t.Helper()
	options, err := redis.ParseURL(stack.RedisURL)
	require.NoError(s.t, err)
	client := redis.NewClient(options)
	f(client)
	require.NoError(s.t, client.Close())
}

func inSchema(t *testing.T, database, schema string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

func randomHex(t *testing.T) string {
	t.Helper()
	b := make([]byte, 6)
	_, err := rand.Read(b)
	require.NoError(t, err)
	return hex.EncodeToString(b)
}
