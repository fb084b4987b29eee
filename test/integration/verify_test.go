package integration

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/stream/streamtest"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// book is what the ledger must hold in the end, kept without any code of the
// programs: credits minus debits of every account, in cents.
type book struct {
	transfers int
	balances  map[string]int64
}

func newBook() *book { return &book{balances: map[string]int64{}} }

func (b *book) post(from, to string, amount int64) {
	b.transfers++
	b.balances[from] -= amount
	b.balances[to] += amount
}

// row is an event as Postgres has it.
type row struct {
	Source, ID, Variant, State, Outcome, Reason string
	Attempts                                    int
	Letter                                      uint64
}

// terminal reports whether nothing is left to do for the event.
func (r row) terminal() bool {
	return r.State == "completed" || r.State == "discarded" || r.State == "failed" && r.Letter != 0
}

// rows returns every event there is.
func (s *system) rows() []row {
	s.t.Helper()
	found, err := s.pool.Query(s.t.Context(), `
		SELECT source, event_id, variant, state, COALESCE(outcome, ''), COALESCE(reason, ''), attempts, COALESCE(dlq_seq, 0)
		FROM events
		ORDER BY source, event_id, variant`)
	require.NoError(s.t, err)
	rows, err := pgx.CollectRows(found, pgx.RowToStructByPos[row])
	require.NoError(s.t, err)
	return rows
}

// row returns the one row of an event and wants it to be there.
func (s *system) row(source, id string) row {
	s.t.Helper()
	var found []row
	for _, r := range s.rows() {
		if r.Source == source && r.ID == id && r.Variant == "" {
			found = append(found, r)
		}
	}
	require.Len(s.t, found, 1, "%s %s", source, id)
	return found[0]
}

// message is one message of EVENTS.
type message struct {
	seq     uint64
	subject string
	header  nats.Header
	event   *envelope.Event
}

// stored returns everything that EVENTS holds, in order.
func (s *system) stored() []message {
	s.t.Helper()
	ctx := s.t.Context()
	events, err := s.js.Stream(ctx, stream.Events)
	require.NoError(s.t, err)
	consumer, err := events.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	require.NoError(s.t, err)
	reading, err := consumer.Messages()
	require.NoError(s.t, err)
	defer reading.Stop()
	var messages []message
	for want := consumer.CachedInfo().NumPending; uint64(len(messages)) < want; {
		msg, err := reading.Next(jetstream.NextContext(ctx))
		require.NoError(s.t, err)
		meta, err := msg.Metadata()
		require.NoError(s.t, err)
		event, err := envelope.Decode(msg.Headers(), msg.Data())
		require.NoError(s.t, err, "message %d", meta.Sequence.Stream)
		messages = append(messages, message{meta.Sequence.Stream, msg.Subject(), msg.Headers(), event})
	}
	return messages
}

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

// reasons counts the dead letters by reason.
func (s *system) reasons() map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	for _, l := range s.letters() {
		counts[string(l.Reason)]++
	}
	return counts
}

// settled waits until nothing is on its way to a worker or back.
func (s *system) settled() {
	s.t.Helper()
	s.eventually("all deliveries are answered", s.idle)
}

// idle reports whether everything that is stored now was delivered and answered.
func (s *system) idle() bool { return streamtest.Idle(s.t, s.js) }

// verify waits until the system is idle and holds it to its promises: whatever
// was answered 2xx is in the stream, every message of the stream has ended in
// one visible place, and the ledger is want to the cent.
func (s *system) verify(want *book) {
	s.t.Helper()
	s.settled()
	s.verifyEvents()
	s.verifyLetters()
	s.verifyLedger(want)
	s.verifyAudit()
}

// verifyStored holds the receivers alone to their promise.
func (s *system) verifyStored() (distinct map[key]int) {
	s.t.Helper()
	messages := s.stored()
	distinct = make(map[key]int, len(messages))
	for _, m := range messages {
		distinct[key{m.event.Source, m.event.ID}]++
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.acked {
		require.NotZero(s.t, distinct[k], "%+v was answered 2xx and is not in the stream", k)
	}
	return distinct
}

func (s *system) verifyEvents() {
	s.t.Helper()
	distinct := s.verifyStored()
	decided := map[key]bool{}
	for _, r := range s.rows() {
		require.True(s.t, r.terminal(), "%+v", r)
		if r.Variant == "" {
			decided[key{r.Source, r.ID}] = true
		}
	}
	require.Equal(s.t, slices.Sorted(keys(distinct)), slices.Sorted(keys(decided)), "stored and decided are the same events")
}

func keys[V any](m map[key]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k.source + " " + k.id) {
				return
			}
		}
	}
}

// verifyLetters wants one dead letter for each failed event. Letters of events
// that were completed since are stale; others there must not be.
func (s *system) verifyLetters() {
	s.t.Helper()
	type name struct {
		key
		variant string
	}
	type place struct {
		name
		reason string
		seq    uint64
	}
	known, failed, parked := map[name]string{}, map[place]bool{}, map[place]bool{}
	for _, r := range s.rows() {
		n := name{key{r.Source, r.ID}, r.Variant}
		known[n] = r.State
		if r.State == "failed" {
			failed[place{n, r.Reason, r.Letter}] = true
		}
	}
	for _, l := range s.letters() {
		n := name{key{l.Source, l.EventID}, l.Variant}
		require.Contains(s.t, known, n, "a dead letter of no event")
		if known[n] == "failed" {
			parked[place{n, string(l.Reason), l.Seq}] = true
		}
	}
	require.Equal(s.t, failed, parked, "failed events and dead letters")
}

// verifyAudit wants the operator's command to come to the same verdict.
func (s *system) verifyAudit() {
	s.t.Helper()
	code, out := s.run(s.Env(), "onceledger", "audit", "--json", "--config", s.cat.Config.File)
	require.Zero(s.t, code, out)
	var report audit.Report
	require.NoError(s.t, json.Unmarshal([]byte(out), &report), out)
	require.True(s.t, report.Clean, out)
	require.Zero(s.t, report.Sum.InFlight, out)
	require.Zero(s.t, report.Sum.Unaccounted, out)
	require.Len(s.t, s.stored(), report.Sum.Messages, out)
}

func (s *system) verifyLedger(want *book) {
	s.t.Helper()
	require.Equal(s.t, want.transfers, s.transfers(), "transfers")
	balances := maps.Clone(want.balances)
	maps.DeleteFunc(balances, func(_ string, b int64) bool { return b == 0 })
	require.Equal(s.t, balances, s.balances(`SELECT name, credits_posted - debits_posted FROM accounts`), "balances of the accounts")
	require.Equal(s.t, balances, s.balances(`
		SELECT account, sum(amount)::bigint
		FROM (SELECT credit AS account, amount FROM transfers UNION ALL SELECT debit, -amount FROM transfers) AS t
		GROUP BY account`), "balances by their transfers")
	require.Zero(s.t, s.count(`SELECT count(*) FROM transfers t LEFT JOIN events e ON e.no = t.event_no AND e.outcome = 'applied' WHERE e.no IS NULL`),
		"transfers without an applied event")
	require.Zero(s.t, s.count(`SELECT count(*) FROM events e WHERE outcome = 'applied' AND NOT EXISTS (SELECT FROM transfers t WHERE t.event_no = e.no)`),
		"applied events without transfers")
}

// balances reads accounts that are not zero.
func (s *system) balances(query string) map[string]int64 {
	s.t.Helper()
	found, err := s.pool.Query(s.t.Context(), query)
	require.NoError(s.t, err)
	balances := map[string]int64{}
	var name string
	var balance int64
	_, err = pgx.ForEachRow(found, []any{&name, &balance}, func() error {
		if balance != 0 {
			balances[name] += balance
		}
		return nil
	})
	require.NoError(s.t, err)
	return balances
}
