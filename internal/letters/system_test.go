package letters_test

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
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/worker"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

var stack *devstack.Stack

func TestMain(m *testing.M) {
	if os.Getenv(childConfigEnv) != "" {
		os.Exit(runChild())
	}
	stacktest.Main(m, &stack, devstack.NATS, devstack.Postgres)
}

// right are the rules as they should be, wrong read the amount from where it is
// not.
const right = `
nats: {events_max_bytes: 256MiB, dlq_max_bytes: 64MiB}
retry: {attempts: 3, age: 1h, base: 50ms, cap: 100ms}
accounts:
  - {match: "purse:*", limit: debits_must_not_exceed_credits, policy: enforce}
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
	t     *testing.T
	url   string
	pool  *pgxpool.Pool
	js    jetstream.JetStream
	cat   *catalog.Catalog
	store letters.Store
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
	s.store = letters.Store{Pool: s.pool, JS: s.js}
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

// standings returns how every stored letter stands.
func (s *system) standings() []letters.Standing {
	s.t.Helper()
	found, err := s.store.Look(s.t.Context(), s.letters())
	require.NoError(s.t, err)
	list := make([]letters.Standing, len(found))
	for i, l := range found {
		list[i] = l.Standing
	}
	return list
}

// row returns the event's row; a variant is that of the only conflict.
func (s *system) row(id string) *dedupe.Row {
	s.t.Helper()
	rows, err := dedupe.Find(s.t.Context(), s.pool, "shop", id)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, rows)
	return rows[0]
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

var ada = dedupe.Action{Actor: "ada", Verb: dedupe.VerbRedrive, Note: "the rule is corrected"}

// redrive sends letters again and wants it done.
func (s *system) redrive(list ...*dlq.Letter) []letters.Result {
	s.t.Helper()
	results, err := s.store.Redrive(s.t.Context(), list, ada, nil)
	require.NoError(s.t, err)
	for _, r := range results {
		require.NoError(s.t, r.Err)
	}
	return results
}

// payment is an event of the shop.
func payment(id, payment, from, to, amount string) *envelope.Event {
	body := fmt.Sprintf(`{"id":%q,"type":"paid","payment":%q,"from":%q,"to":%q,"amount":%s,"asset":"EUR"}`, id, payment, from, to, amount)
	return &envelope.Event{Source: "shop", ID: id, Type: "paid", Time: time.Unix(1_700_000_000, 0), ContentType: "application/json", Data: []byte(body)}
}

// errDied stands for the end of the process at some step.
var errDied = errors.New("died here")

// dying is a broker that ends the process at one step.
type dying struct {
	jetstream.JetStream
	at    string
	asked int  // how often for the stream EVENTS
	exits bool // it does end the process
}

func (d *dying) die() error {
	if d.exits {
		os.Exit(killed)
	}
	return errDied
}

func (d *dying) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if d.at == "before it publishes" {
		return nil, d.die()
	}
	ack, err := d.JetStream.PublishMsg(ctx, msg, opts...)
	if d.at == "before it hears that the message is stored" {
		return nil, d.die()
	}
	return ack, err
}

func (d *dying) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if name == stream.Events {
		d.asked++
	}
	if d.at == "before it records where the message lies" && d.asked == 2 {
		return nil, d.die()
	}
	opened, err := d.JetStream.Stream(ctx, name)
	return &dyingStream{opened, d}, err
}

type dyingStream struct {
	jetstream.Stream
	*dying
}

func (d *dyingStream) DeleteMsg(ctx context.Context, seq uint64) error {
	if d.at == "before it deletes the letter" {
		return d.die()
	}
	err := d.Stream.DeleteMsg(ctx, seq)
	if d.at == "after it deleted the letter" {
		return d.die()
	}
	return err
}

// letterMsg returns a stored letter as a message to store again.
func letterMsg(t *testing.T, s *system, seq uint64) *nats.Msg {
	t.Helper()
	opened, err := s.js.Stream(t.Context(), stream.DLQ)
	require.NoError(t, err)
	raw, err := opened.GetMsg(t.Context(), seq)
	require.NoError(t, err)
	msg := nats.NewMsg(raw.Subject)
	msg.Header, msg.Data = raw.Header, raw.Data
	msg.Header.Del(jetstream.MsgIDHeader)
	return msg
}
