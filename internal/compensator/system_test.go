package compensator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/worker"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

var stack *devstack.Stack

func TestMain(m *testing.M) { stacktest.Main(m, &stack, devstack.NATS, devstack.Postgres) }

// right are the rules as they should be, wrong read the amount from where it is
// not.
const right = `
nats: {events_max_bytes: 256MiB, dlq_max_bytes: 64MiB}
keeper: {compensate: off}
retry: {attempts: 3, age: 1h, base: 50ms, cap: 100ms}
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

var wrong = strings.Replace(right, "amount: body.amount", "amount: body.total", 1)

// system is one test's share of the stack. Tests of this package run one after
// another, since the streams' names are fixed.
type system struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
	js   jetstream.JetStream
	cat  *catalog.Catalog
	// metrics are those of the last job.
	metrics *prometheus.Registry
}

func newSystem(t *testing.T, yaml string) *system {
	t.Helper()
	s := &system{t: t, url: pgtest.Migrated(t, stack.DatabaseURL)}
	s.pool = pgtest.Open(t, s.url, postgres.Owner)
	s.rules(yaml)
	conn, err := stream.Open(t.Context(), s.cat.Config.NATS, "test", zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	s.js = conn.JS
	for _, name := range []string{stream.Events, stream.DLQ} {
		if err := s.js.DeleteStream(t.Context(), name); err != nil {
			require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
		}
	}
	require.NoError(t, stream.Ensure(t.Context(), s.js, s.cat.Config.NATS))
	return s
}

// rules changes the configuration of the workers that start from now on.
func (s *system) rules(yaml string) {
	s.t.Helper()
	env := map[string]string{
		"DATABASE_URL": s.url, "NATS_URL": stack.NATSURL, "NATS_MONITOR_URL": stack.NATSMonitorURL, "WORKER_ADMIN": "127.0.0.1:0",
	}
	file := filepath.Join(s.t.TempDir(), "onceledger.yaml")
	require.NoError(s.t, os.WriteFile(file, []byte(yaml), 0o600))
	var err error
	s.cat, err = catalog.Load(file, func(name string) (string, bool) { value, ok := env[name]; return value, ok })
	require.NoError(s.t, err)
}

// work runs a worker until the returned stop is called or the test ends.
func (s *system) work() (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx, s.cat, zerolog.Nop()) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) { // it may have had no time to open
				require.NoError(s.t, err)
			}
		}
	}
	s.t.Cleanup(stop)
	return stop
}

// decide publishes events and lets a worker decide everything that is stored.
func (s *system) decide(events ...*envelope.Event) {
	s.t.Helper()
	for _, e := range events {
		msg, err := e.Msg()
		require.NoError(s.t, err)
		_, err = s.js.PublishMsg(s.t.Context(), msg)
		require.NoError(s.t, err)
	}
	stop := s.work()
	s.settle()
	stop()
}

// settle waits until the last stored message is answered.
func (s *system) settle() {
	s.t.Helper()
	events, err := s.js.Stream(s.t.Context(), stream.Events)
	require.NoError(s.t, err)
	last := events.CachedInfo().State.LastSeq
	require.Eventually(s.t, func() bool {
		consumer, err := events.Consumer(s.t.Context(), stream.Consumer)
		return err == nil && consumer.CachedInfo().AckFloor.Stream >= last && consumer.CachedInfo().NumAckPending == 0
	}, 30*time.Second, 10*time.Millisecond)
}

// letters returns all that are stored, oldest first.
func (s *system) letters() []*dlq.Letter {
	s.t.Helper()
	var list []*dlq.Letter
	require.NoError(s.t, dlq.List(s.t.Context(), s.js, dlq.Filter{}, func(l *dlq.Letter) error {
		list = append(list, l)
		return nil
	}))
	return list
}

// row returns the event's row.
func (s *system) row(id string) *dedupe.Row {
	s.t.Helper()
	rows, err := dedupe.Find(s.t.Context(), s.pool, "shop", id)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, rows)
	return rows[0]
}

// state counts the events in a state.
func (s *system) state(state dedupe.State) int {
	s.t.Helper()
	return s.count(`SELECT count(*) FROM events WHERE state = '` + string(state) + `'`)
}

// redrives counts how often events were sent again.
func (s *system) redrives() int { s.t.Helper(); return s.count(`SELECT sum(redrives) FROM events`) }

// exec changes rows past every guard; a duration counts as its seconds.
func (s *system) exec(statement string, arg any) {
	s.t.Helper()
	if d, ok := arg.(time.Duration); ok {
		arg = d.Seconds()
	}
	for _, table := range []string{"events", "actions"} {
		_, err := s.pool.Exec(s.t.Context(), `ALTER TABLE `+table+` DISABLE TRIGGER USER`)
		require.NoError(s.t, err)
	}
	_, err := s.pool.Exec(s.t.Context(), statement, arg)
	require.NoError(s.t, err)
	for _, table := range []string{"events", "actions"} {
		_, err := s.pool.Exec(s.t.Context(), `ALTER TABLE `+table+` ENABLE ALWAYS TRIGGER `+table+`_guard`)
		require.NoError(s.t, err)
	}
}

func (s *system) count(query string) int {
	s.t.Helper()
	var n int
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(), query).Scan(&n))
	return n
}

func (s *system) transfers() int { s.t.Helper(); return s.count(`SELECT count(*) FROM transfers`) }

// clean audits without patience and returns the sum.
func (s *system) clean() audit.Sum {
	s.t.Helper()
	report, err := audit.Run(s.t.Context(), audit.Options{JS: s.js, Pool: s.pool, Meaning: audit.Meaning(s.cat), Grace: time.Nanosecond})
	require.NoError(s.t, err)
	require.Empty(s.t, report.Findings)
	return report.Sum
}

// payment is an event of the shop of 5 cents.
func payment(id string) *envelope.Event {
	return event(id, fmt.Sprintf(`{"id":%q,"type":"paid","payment":%q,"from":"bank","to":"wallet:1","amount":5,"asset":"EUR"}`, id, id))
}

func payments(n int) []*envelope.Event {
	list := make([]*envelope.Event, n)
	for i := range list {
		list[i] = payment(fmt.Sprint("evt_", i))
	}
	return list
}

func event(id, body string) *envelope.Event {
	return &envelope.Event{Source: "shop", ID: id, Type: "paid", Time: time.Unix(1_700_000_000, 0), ContentType: "application/json", Data: []byte(body)}
}
