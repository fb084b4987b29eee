package keeper_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/keeper"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/stream/streamtest"
	"github.com/onceledger/onceledger/internal/worker"
	"github.com/onceledger/onceledger/pkg/envelope"
)

var stack *devstack.Stack

func TestMain(m *testing.M) { stacktest.Main(m, &stack, devstack.NATS, devstack.Postgres) }

const shop = `
nats: {events_max_bytes: %s, dlq_max_bytes: 64MiB}
keeper: {interval: 1s, keep: 1h}
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

// system is one test's share of the stack: a schema of its own and empty
// streams. Tests run one after another, since the streams' names are fixed.
type system struct {
	t     *testing.T
	cat   *catalog.Catalog
	owner *pgxpool.Pool
	pool  *pgxpool.Pool // what a worker may
	js    jetstream.JetStream
}

func newSystem(t *testing.T, eventsMaxBytes string) *system {
	t.Helper()
	url := pgtest.Migrated(t, stack.DatabaseURL)
	env := map[string]string{
		"DATABASE_URL": url, "NATS_URL": stack.NATSURL, "NATS_MONITOR_URL": stack.NATSMonitorURL, "WORKER_ADMIN": "127.0.0.1:0",
	}
	file := filepath.Join(t.TempDir(), "onceledger.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, shop, eventsMaxBytes), 0o600))
	cat, err := catalog.Load(file, func(name string) (string, bool) { value, ok := env[name]; return value, ok })
	require.NoError(t, err)

	conn, err := stream.Open(t.Context(), cat.Config.NATS, "test", zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	for _, name := range []string{stream.Events, stream.DLQ} {
		if err := conn.JS.DeleteStream(t.Context(), name); err != nil {
			require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
		}
	}
	require.NoError(t, stream.Ensure(t.Context(), conn.JS, cat.Config.NATS))
	return &system{t: t, cat: cat, owner: pgtest.Open(t, url, postgres.Owner), pool: pgtest.Open(t, url, postgres.Worker), js: conn.JS}
}

// kept is one keeper that a test runs.
type kept struct {
	t   *testing.T
	reg *prometheus.Registry
	// rounds holds what each round found; the first is waited for in next.
	rounds chan round
	cancel context.CancelFunc
	ended  chan struct{}
	once   sync.Once
}

type round struct {
	*audit.Progress
	err error
}

// keep runs a keeper without patience, with other options where change says so.
func (s *system) keep(change ...func(*keeper.Options)) *kept {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	k := &kept{t: s.t, reg: prometheus.NewRegistry(), rounds: make(chan round, 1000), cancel: cancel, ended: make(chan struct{})}
	o := keeper.Options{
		Pool: s.pool, JS: s.js, Config: s.cat.Config.Keeper, Meaning: audit.Meaning(s.cat), Log: zerolog.New(zerolog.NewTestWriter(s.t)), Registry: k.reg,
		Grace: time.Millisecond, LongOverdue: time.Hour,
		Observe: func(p *audit.Progress, err error) { k.rounds <- round{p, err} },
	}
	o.Config.Interval = 50 * time.Millisecond
	for _, c := range change {
		c(&o)
	}
	go func() {
		defer close(k.ended)
		_ = keeper.Run(ctx, o)
	}()
	s.t.Cleanup(k.stop)
	return k
}

// leads waits until it does: a worker that begins later waits for its turn.
func (k *kept) leads() *kept {
	k.t.Helper()
	require.Eventually(k.t, func() bool { return k.metric("keeper_leader") == 1 }, 20*time.Second, 5*time.Millisecond)
	return k
}

func (k *kept) stop() {
	k.once.Do(k.cancel)
	<-k.ended
}

// until waits for a round that a test wants to see.
func (k *kept) until(want string, enough func(round) bool) round {
	k.t.Helper()
	late := time.After(30 * time.Second)
	var last round
	for {
		select {
		case r := <-k.rounds:
			if enough(r) {
				return r
			}
			last = r
		case <-late:
			if last.Progress != nil {
				require.Fail(k.t, "no round with "+want, "%v %+v %+v %+v open %d", last.err, last.Stream, last.Sum, last.Findings, last.Open)
			}
			require.Fail(k.t, "no round with "+want, "%v", last.err)
		}
	}
}

// clean waits for a round that found everything in order and nothing open. Rounds
// that began before the call do not count.
func (k *kept) clean() round {
	k.t.Helper()
	for len(k.rounds) > 0 {
		<-k.rounds
	}
	k.until("what had begun", func(round) bool { return true })
	return k.until("everything in order", func(r round) bool {
		return r.err == nil && r.Clean && r.Sum.InFlight == 0
	})
}

// metric reads one of the keeper's metrics; -1 where it is absent.
func (k *kept) metric(name string, labels ...string) float64 {
	k.t.Helper()
	families, err := k.reg.Gather()
	require.NoError(k.t, err)
	for _, f := range families {
		if f.GetName() != "onceledger_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(labels) > 0 && m.GetLabel()[0].GetValue() != labels[0] {
				continue
			}
			if m.GetGauge() != nil {
				return m.GetGauge().GetValue()
			}
			return m.GetCounter().GetValue()
		}
	}
	return -1
}

// work runs a worker until the returned stop is called or the test ends.
func (s *system) work() (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx, s.cat, zerolog.Nop()) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(s.t, <-ended)
	})
	s.t.Cleanup(stop)
	return stop
}

// decide lets a worker decide everything that is stored, one message before the
// next where events are given.
func (s *system) decide(events ...*envelope.Event) {
	s.t.Helper()
	stop := s.work()
	for _, e := range events {
		s.publish(e)
		s.settle()
	}
	s.settle()
	stop()
}

func (s *system) settle() {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return streamtest.Idle(s.t, s.js) }, 30*time.Second, 10*time.Millisecond)
}

func (s *system) publish(e *envelope.Event) uint64 {
	s.t.Helper()
	msg, err := e.Msg()
	require.NoError(s.t, err)
	return s.store(msg)
}

func (s *system) store(msg *nats.Msg) uint64 {
	s.t.Helper()
	ack, err := s.js.PublishMsg(s.t.Context(), msg)
	require.NoError(s.t, err)
	return ack.Sequence
}

var tables = []string{"events", "transfers", "operations", "accounts", "actions"}

// exec changes the database as its owner, past every guard.
func (s *system) exec(statements ...string) {
	s.t.Helper()
	for _, table := range tables {
		_, err := s.owner.Exec(s.t.Context(), `ALTER TABLE `+table+` DISABLE TRIGGER USER`)
		require.NoError(s.t, err)
	}
	for _, statement := range statements {
		_, err := s.owner.Exec(s.t.Context(), statement)
		require.NoError(s.t, err, statement)
	}
	for _, table := range tables {
		_, err := s.owner.Exec(s.t.Context(), `ALTER TABLE `+table+` ENABLE ALWAYS TRIGGER USER`)
		if err != nil { // there is no such form for all at once
			_, err = s.owner.Exec(s.t.Context(), `ALTER TABLE `+table+` ENABLE TRIGGER USER`)
		}
		require.NoError(s.t, err)
	}
}

// full is a whole audit, which must find nothing.
func (s *system) full() *audit.Report {
	s.t.Helper()
	report, err := audit.Run(s.t.Context(), audit.Options{JS: s.js, Pool: s.pool, Meaning: audit.Meaning(s.cat), Grace: time.Nanosecond})
	require.NoError(s.t, err)
	require.Empty(s.t, report.Findings)
	return report
}

// one returns the value of a query.
func one[T any](s *system, query string, args ...any) T {
	s.t.Helper()
	var v T
	require.NoError(s.t, s.owner.QueryRow(s.t.Context(), query, args...).Scan(&v), query)
	return v
}

func payment(id, payment string, amount string) *envelope.Event {
	return event(id, "paid", fmt.Sprintf(`{"id":%q,"type":"paid","payment":%q,"from":"shop:due","to":"purse:a","amount":%s,"asset":"EUR"}`, id, payment, amount))
}

func event(id, typ, body string) *envelope.Event {
	return &envelope.Event{Source: "shop", ID: id, Type: typ, Time: time.Unix(1_700_000_000, 0), ContentType: "application/json", Data: []byte(body)}
}
