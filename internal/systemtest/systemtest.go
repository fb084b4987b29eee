// Package systemtest is the share of a stack that one test has: a database of
// its own, fresh streams, workers with the rules it gives them, and what it needs
// to publish, decide and look.
//
//	s := systemtest.New(t, stack, rules)
//	s.Decide(systemtest.Payment("evt_1", "p1", "bank", "wallet:1", "5"))
//	s.Clean()
package systemtest

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
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/worker"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// Right are the rules of a shop, as they should be.
const Right = `
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

// Wrong are rules that read the amount from where it is not.
var Wrong = strings.Replace(Right, "amount: body.amount", "amount: body.total", 1)

// System is one test's share of a stack. Tests that use one run one after another,
// since the streams' names are fixed.
type System struct {
	T       *testing.T
	URL     string
	Pool    *pgxpool.Pool
	JS      jetstream.JetStream
	Catalog *catalog.Catalog
	Letters letters.Store

	nats, monitor string
}

// New returns a system with empty streams, and rules for it. The stack has NATS
// and Postgres.
func New(t *testing.T, stack *devstack.Stack, yaml string) *System {
	t.Helper()
	s := &System{T: t, URL: pgtest.Migrated(t, stack.DatabaseURL), nats: stack.NATSURL, monitor: stack.NATSMonitorURL}
	s.Pool = pgtest.Open(t, s.URL, postgres.Owner)
	s.Rules(yaml)
	conn, err := stream.Open(t.Context(), s.Catalog.Config.NATS, "test", zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	s.JS = conn.JS
	for _, name := range []string{stream.Events, stream.DLQ} {
		if err := s.JS.DeleteStream(t.Context(), name); err != nil {
			require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
		}
	}
	require.NoError(t, stream.Ensure(t.Context(), s.JS, s.Catalog.Config.NATS))
	s.Letters = letters.Store{Pool: s.Pool, JS: s.JS}
	return s
}

// Rules changes the configuration of the workers that start from now on.
func (s *System) Rules(yaml string) {
	s.T.Helper()
	env := map[string]string{
		"DATABASE_URL": s.URL, "NATS_URL": s.nats, "NATS_MONITOR_URL": s.monitor, "WORKER_ADMIN": "127.0.0.1:0",
	}
	file := filepath.Join(s.T.TempDir(), "onceledger.yaml")
	require.NoError(s.T, os.WriteFile(file, []byte(yaml), 0o600))
	var err error
	s.Catalog, err = catalog.Load(file, func(name string) (string, bool) { value, ok := env[name]; return value, ok })
	require.NoError(s.T, err)
}

// Work runs a worker until the returned stop is called or the test ends.
func (s *System) Work() (stop func()) {
	s.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx, s.Catalog, zerolog.Nop()) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) { // it may have had no time to open
				require.NoError(s.T, err)
			}
		}
	}
	s.T.Cleanup(stop)
	return stop
}

// Decide lets a worker decide what is stored, and then events one after the other: its
// loops would take some of them at once, in any order.
func (s *System) Decide(events ...*envelope.Event) {
	s.T.Helper()
	stop := s.Work()
	for _, e := range events {
		msg, err := e.Msg()
		require.NoError(s.T, err)
		_, err = s.JS.PublishMsg(s.T.Context(), msg)
		require.NoError(s.T, err)
		s.Settle()
	}
	s.Settle()
	stop()
}

// Settle waits until the last stored message is answered.
func (s *System) Settle() {
	s.T.Helper()
	events, err := s.JS.Stream(s.T.Context(), stream.Events)
	require.NoError(s.T, err)
	last := events.CachedInfo().State.LastSeq
	require.Eventually(s.T, func() bool {
		consumer, err := events.Consumer(s.T.Context(), stream.Consumer)
		return err == nil && consumer.CachedInfo().AckFloor.Stream >= last && consumer.CachedInfo().NumAckPending == 0
	}, time.Minute, 10*time.Millisecond)
}

// Stored returns all letters that are stored, oldest first.
func (s *System) Stored() []*dlq.Letter {
	s.T.Helper()
	var list []*dlq.Letter
	require.NoError(s.T, dlq.List(s.T.Context(), s.JS, dlq.Filter{}, func(l *dlq.Letter) error {
		list = append(list, l)
		return nil
	}))
	return list
}

// Standings returns how every stored letter stands.
func (s *System) Standings() []letters.Standing {
	s.T.Helper()
	found, err := s.Letters.Look(s.T.Context(), s.Stored())
	require.NoError(s.T, err)
	list := make([]letters.Standing, len(found))
	for i, l := range found {
		list[i] = l.Standing
	}
	return list
}

// Row returns the event's row; a variant is that of the only conflict.
func (s *System) Row(id string) *dedupe.Row {
	s.T.Helper()
	rows, err := dedupe.Find(s.T.Context(), s.Pool, "shop", id)
	require.NoError(s.T, err)
	require.NotEmpty(s.T, rows)
	return rows[0]
}

// Count returns the number that a query selects.
func (s *System) Count(query string) int {
	s.T.Helper()
	var n int
	require.NoError(s.T, s.Pool.QueryRow(s.T.Context(), query).Scan(&n))
	return n
}

// Transfers counts the ledger's transfers, reversals among them.
func (s *System) Transfers() int { s.T.Helper(); return s.Count(`SELECT count(*) FROM transfers`) }

// Balance is an account's credits less its debits, in all assets together.
func (s *System) Balance(account string) int64 {
	s.T.Helper()
	var balance int64
	require.NoError(s.T, s.Pool.QueryRow(s.T.Context(), `
		SELECT COALESCE(sum(credits_posted - debits_posted), 0)::bigint
		FROM accounts
		WHERE name = $1`, account).Scan(&balance))
	return balance
}

// Clean audits without patience and returns the sum.
func (s *System) Clean() audit.Sum {
	s.T.Helper()
	report, err := audit.Run(s.T.Context(), audit.Options{JS: s.JS, Pool: s.Pool, Meaning: audit.Meaning(s.Catalog), Grace: time.Nanosecond})
	require.NoError(s.T, err)
	require.Empty(s.T, report.Findings)
	return report.Sum
}

// Ada is who acts in tests.
var Ada = dedupe.Action{Actor: "ada", Verb: dedupe.VerbRedrive, Note: "the rule is corrected"}

// Redrive sends letters again and wants it done.
func (s *System) Redrive(list ...*dlq.Letter) []letters.Result {
	s.T.Helper()
	results, err := s.Letters.Redrive(s.T.Context(), list, Ada, nil)
	require.NoError(s.T, err)
	for _, r := range results {
		require.NoError(s.T, r.Err)
	}
	return results
}

// Payment is an event of the shop.
func Payment(id, payment, from, to, amount string) *envelope.Event {
	body := fmt.Sprintf(`{"id":%q,"type":"paid","payment":%q,"from":%q,"to":%q,"amount":%s,"asset":"EUR"}`, id, payment, from, to, amount)
	return &envelope.Event{Source: "shop", ID: id, Type: "paid", Time: time.Unix(1_700_000_000, 0), ContentType: "application/json", Data: []byte(body)}
}
