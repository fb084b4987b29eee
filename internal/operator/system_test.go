package operator_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/worker"
	"github.com/onceledger/onceledger/pkg/envelope"
)

var (
	stack  *devstack.Stack
	update = flag.Bool("update", false, "write the golden files anew")
	// testdata is absolute: some tests change the folder.
	testdata string
)

func TestMain(m *testing.M) {
	var err error
	if testdata, err = filepath.Abs("testdata"); err != nil {
		panic(err)
	}
	stacktest.Main(m, &stack, devstack.NATS, devstack.Postgres)
}

const configuration = `
nats: {events_max_bytes: 256MiB, dlq_max_bytes: 64MiB}
retry: {attempts: 1}
assets: [{code: GEMS, exponent: 0}]
accounts:
  - {match: "purse:*", limit: debits_must_not_exceed_credits, policy: record}
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
  stripe:
    provider: stripe
    secret: whsec_of_the_test
  pages:
    provider: github
    secret: secret-of-github
  orders:
    provider: standard-webhooks
    secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
    mode: live
  xml: {provider: wechatpay-v2, secret: key-of-the-merchant}
`

// system is one test's share of the stack: a schema of its own and empty
// streams. Tests of this package that have one run one after another.
type system struct {
	t   *testing.T
	env map[string]string
	cat *catalog.Catalog
	js  jetstream.JetStream
}

func newSystem(t *testing.T) *system {
	t.Helper()
	file := filepath.Join(t.TempDir(), "onceledger.yaml")
	require.NoError(t, os.WriteFile(file, []byte(configuration), 0o600))
	s := &system{t: t, env: map[string]string{
		"DATABASE_URL": pgtest.Migrated(t, stack.DatabaseURL), "NATS_URL": stack.NATSURL, "NATS_MONITOR_URL": stack.NATSMonitorURL,
		"WORKER_ADMIN": "127.0.0.1:0", "ONCELEDGER_CONFIG": file,
	}}
	var err error
	s.cat, err = catalog.Load(file, s.lookup)
	require.NoError(t, err)
	conn, err := stream.Open(t.Context(), s.cat.Config.NATS, "test", zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	s.js = conn.JS
	s.dropStreams()
	require.NoError(t, stream.Ensure(t.Context(), conn.JS, s.cat.Config.NATS))
	return s
}

func (s *system) lookup(name string) (string, bool) { value, ok := s.env[name]; return value, ok }

func (s *system) dropStreams() {
	s.t.Helper()
	for _, name := range []string{stream.Events, stream.DLQ} {
		if err := s.js.DeleteStream(s.t.Context(), name); err != nil {
			require.ErrorIs(s.t, err, jetstream.ErrStreamNotFound)
		}
	}
}

// decide publishes events and lets a worker decide each before the next, and
// before it whatever is stored.
func (s *system) decide(events ...*envelope.Event) {
	s.t.Helper()
	s.work(func() {
		for _, e := range events {
			s.publish(e)
			s.settle()
		}
		s.settle()
	})
}

// decideTogether lets a worker decide many events in its own batches.
func (s *system) decideTogether(events ...*envelope.Event) {
	s.t.Helper()
	for some := range slices.Chunk(events, 500) {
		var batch []*nats.Msg
		for _, e := range some {
			msg, err := e.Msg()
			require.NoError(s.t, err)
			batch = append(batch, msg)
		}
		_, err := jetstreamext.PublishMsgBatch(s.t.Context(), s.js, batch)
		require.NoError(s.t, err)
	}
	s.work(s.settle)
}

// work runs a worker beside f.
func (s *system) work(f func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx, s.cat, zerolog.Nop()) }()
	f()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) { // it may have had no time to open
		require.NoError(s.t, err)
	}
}

func (s *system) publish(e *envelope.Event) {
	s.t.Helper()
	msg, err := e.Msg()
	require.NoError(s.t, err)
	_, err = s.js.PublishMsg(s.t.Context(), msg)
	require.NoError(s.t, err)
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
	}, 60*time.Second, 10*time.Millisecond)
}

func (s *system) balance(account string) int64 {
	s.t.Helper()
	out, err := s.run(true, func(ctx context.Context, o *operator.Session) error {
		return operator.ShowBalance(ctx, o, account, time.Time{})
	})
	require.NoError(s.t, err)
	return lines[operator.Account](s.t, out)[0].Balance
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// renumber numbers events by their messages: which of a worker's loops took
// which event, and so the number, is chance.
func (s *system) renumber() {
	s.t.Helper()
	pgtest.Exec(s.t, s.env["DATABASE_URL"],
		`ALTER TABLE events DISABLE TRIGGER USER`, `ALTER TABLE transfers DISABLE TRIGGER USER`, `ALTER TABLE operations DISABLE TRIGGER USER`,
		`UPDATE transfers t SET event_no = e.seq + 1000000 FROM events e WHERE e.no = t.event_no`,
		`UPDATE transfers SET event_no = event_no - 1000000`,
		`UPDATE operations o SET event_no = e.seq FROM events e WHERE e.no = o.event_no`,
		`UPDATE events SET no = seq + 1000000`, `UPDATE events SET no = seq`)
}

// run gives a command a session and returns what it prints.
func (s *system) run(json bool, command func(context.Context, *operator.Session) error) (string, error) {
	s.t.Helper()
	var out bytes.Buffer
	err := command(s.t.Context(), &operator.Session{Env: s.lookup, Out: &out, JSON: json})
	return out.String(), err
}

// csv is run for a CSV; it returns its records.
func (s *system) csv(command func(context.Context, *operator.Session) error) (string, [][]string) {
	s.t.Helper()
	var out bytes.Buffer
	require.NoError(s.t, command(s.t.Context(), &operator.Session{Env: s.lookup, Out: &out, CSV: true}))
	records, err := csv.NewReader(bytes.NewReader(out.Bytes())).ReadAll() // fails where lines differ in length
	require.NoError(s.t, err)
	return out.String(), records
}

// both compares what a command prints, as table and as JSON, with golden files.
func (s *system) golden(name string, command func(context.Context, *operator.Session) error) {
	s.t.Helper()
	for suffix, json := range map[string]bool{".txt": false, ".json": true} {
		out, err := s.run(json, command)
		require.NoError(s.t, err)
		compare(s.t, name+suffix, out)
	}
}

// what differs from run to run.
var (
	times     = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z`)
	hashes    = regexp.MustCompile(`[0-9a-f]{32,64}`)
	durations = regexp.MustCompile(`\(\d+\.\d s\)|"seconds":[0-9.e-]+`)
)

func compare(t *testing.T, name, have string) {
	t.Helper()
	have = times.ReplaceAllString(have, "YYYY-MM-DD hh:mm:ssZ")
	have = durations.ReplaceAllString(hashes.ReplaceAllString(have, "HASH"), "SECONDS")
	verbatim(t, name, have)
}

// verbatim compares with a golden file, times and all.
func verbatim(t *testing.T, name, have string) {
	t.Helper()
	path := filepath.Join(testdata, name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(have), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), have)
}

func payment(id, payment, amount, asset string) *envelope.Event {
	return event(id, "paid", `{"id":"`+id+`","type":"paid","payment":"`+payment+`","from":"shop:due","to":"purse:a","amount":`+amount+`,"asset":"`+asset+`"}`)
}

func event(id, typ, body string) *envelope.Event {
	return &envelope.Event{Source: "shop", ID: id, Type: typ, Time: time.Unix(1_700_000_000, 0), ContentType: "application/json", Data: []byte(body)}
}

// standIn answers like a receiver: it verifies and counts.
func standIn(t *testing.T, cat *catalog.Catalog, got func(*envelope.Event)) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, err := body.ReadFrom(r.Body)
		source := cat.Sources[filepath.Base(r.URL.Path)]
		request := provider.Post(r.Header, body.Bytes())
		if err != nil || source == nil || source.Verify(r.Context(), request, time.Now()) != nil {
			http.Error(w, "bad signature", http.StatusUnauthorized)
			return
		}
		got(source.Events(request, time.Now())[0])
	}))
	t.Cleanup(server.Close)
	return server
}
