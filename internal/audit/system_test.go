package audit_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/stream/streamtest"
	"github.com/onceledger/onceledger/internal/worker"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
)

var stack *devstack.Stack

func TestMain(m *testing.M) {
	if os.Getenv(childConfigEnv) != "" {
		os.Exit(runChild())
	}
	stacktest.Main(m, &stack, devstack.NATS, devstack.Postgres)
}

const shop = `
nats: {events_max_bytes: 256MiB, dlq_max_bytes: 64MiB}
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
// streams. Tests of this package run one after another, since the streams'
// names are fixed.
type system struct {
	t    *testing.T
	cat  *catalog.Catalog
	pool *pgxpool.Pool
	js   jetstream.JetStream
}

func newSystem(t *testing.T, yaml ...string) *system {
	t.Helper()
	url := pgtest.Migrated(t, stack.DatabaseURL)
	env := map[string]string{
		"DATABASE_URL": url, "NATS_URL": stack.NATSURL, "NATS_MONITOR_URL": stack.NATSMonitorURL, "WORKER_ADMIN": "127.0.0.1:0",
	}
	file := filepath.Join(t.TempDir(), "onceledger.yaml")
	require.NoError(t, os.WriteFile(file, []byte(append(yaml, shop)[0]), 0o600))
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
	s := &system{t: t, cat: cat, pool: pgtest.Open(t, url, postgres.Owner), js: conn.JS}
	s.lead()
	return s
}

// lead keeps the workers of the test from auditing, too.
func (s *system) lead() {
	s.t.Helper()
	conn, err := pgx.ConnectConfig(s.t.Context(), s.pool.Config().ConnConfig)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	_, err = conn.Exec(s.t.Context(), `SELECT pg_advisory_lock(hashtextextended('onceledger keeper of ' || current_schema(), 0))`)
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
	require.Eventually(s.t, func() bool { return streamtest.Idle(s.t, s.js) }, time.Minute, 10*time.Millisecond)
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

// exec changes the database as its owner, past every guard.
func (s *system) exec(statements ...string) {
	s.t.Helper()
	for _, table := range []string{"events", "transfers", "operations", "holds", "totals", "accounts"} {
		_, err := s.pool.Exec(s.t.Context(), `ALTER TABLE `+table+` DISABLE TRIGGER USER`)
		require.NoError(s.t, err)
	}
	for _, statement := range statements {
		tag, err := s.pool.Exec(s.t.Context(), statement)
		require.NoError(s.t, err, statement)
		require.NotZero(s.t, tag.RowsAffected(), statement)
	}
}

// audit runs the audit without patience: whatever is answered must be decided.
func (s *system) audit() *audit.Report {
	s.t.Helper()
	return s.auditAfter(time.Nanosecond)
}

func (s *system) auditAfter(grace time.Duration) *audit.Report {
	s.t.Helper()
	report, err := audit.Run(s.t.Context(), audit.Options{JS: s.js, Pool: s.pool, Meaning: audit.Meaning(s.cat), Grace: grace})
	require.NoError(s.t, err)
	sum := report.Sum
	require.Equal(s.t, sum.Messages, sum.Applied+sum.Ignored+sum.DuplicateOperation+sum.Duplicates+
		sum.Parked+sum.Discarded+sum.Redriven+sum.InFlight+sum.Unaccounted, "the terms add up")
	for _, f := range report.Findings { // commands take events by source and id
		require.NotContains(s.t, f.Detail, "event number")
		if f.Asset != "" {
			require.NotContains(s.t, f.Detail, "minor units")
		}
		if f.EventNo != nil && f.Source == "" && f.Kind != audit.NoOperation { // it comes with a NoEvent
			require.Contains(s.t, f.Detail, "is not there")
		}
	}
	return report
}

func (s *system) clean() *audit.Report {
	s.t.Helper()
	report := s.audit()
	require.Empty(s.t, report.Findings)
	require.True(s.t, report.Clean)
	return report
}

// kinds returns the kinds of a report's findings, in their order.
func kinds(r *audit.Report) []audit.Kind {
	var list []audit.Kind
	for _, f := range r.Findings {
		list = append(list, f.Kind)
	}
	return list
}

// payment is an event of the shop; more is further members of its body.
func payment(id, payment string, amount string, more string) *envelope.Event {
	return event(id, "paid", fmt.Sprintf(`{"id":%q,"type":"paid","payment":%q,"from":"shop:due","to":"purse:a","amount":%s,"asset":"EUR"%s}`,
		id, payment, amount, more))
}

func event(id, typ, body string) *envelope.Event {
	return &envelope.Event{Source: "shop", ID: id, Type: typ, Time: time.Unix(1_700_000_000, 0), ContentType: "application/json", Data: []byte(body)}
}

// hash is the SHA-256 of a stored message's body.
func (s *system) hash(seq uint64) [32]byte {
	s.t.Helper()
	events, err := s.js.Stream(s.t.Context(), stream.Events)
	require.NoError(s.t, err)
	raw, err := events.GetMsg(s.t.Context(), seq)
	require.NoError(s.t, err)
	return sha256.Sum256(raw.Data)
}

// backUp copies what the broker has on disk; restore gives it back.
func (s *system) backUp() (folder string) {
	s.t.Helper()
	folder = filepath.Join(s.t.TempDir(), "backup")
	s.whileAway(func(data string) { require.NoError(s.t, os.CopyFS(folder, os.DirFS(data))) })
	return folder
}

func (s *system) restore(backup string) {
	s.t.Helper()
	s.whileAway(func(data string) {
		require.NoError(s.t, os.RemoveAll(data))
		require.NoError(s.t, os.CopyFS(data, os.DirFS(backup)))
	})
}

// whileAway does something to the broker's data while it is stopped.
func (s *system) whileAway(do func(data string)) {
	s.t.Helper()
	require.NoError(s.t, stack.NATS.Stop(s.t.Context()))
	do(filepath.Join(stack.Dir(), "nats", "jetstream"))
	require.NoError(s.t, stack.NATS.Start(s.t.Context()))
	streamtest.Reach(s.t, s.js)
}

// acknowledge takes note of what is gone, as an operator does.
func (s *system) acknowledge() audit.Acknowledged {
	s.t.Helper()
	events, err := s.js.Stream(s.t.Context(), stream.Events)
	require.NoError(s.t, err)
	done, err := audit.Acknowledge(s.t.Context(), s.pool, events.CachedInfo().Created, dedupe.Action{Actor: "ada", Note: "the senders were asked"})
	require.NoError(s.t, err)
	return done
}
