package worker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/fetch"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// psp is the shop with rules for what Mollie's API tells.
const psp = `
nats: {events_max_bytes: 256MiB, dlq_max_bytes: 64MiB}
retry: {attempts: 3, age: 1h, base: 50ms, cap: 100ms}
sources:
  shop:
    provider: hmac
    secret: secret-of-the-shop
    hmac: {header: X-Signature, encoding: hex, algorithm: sha256}
    id: body:id
    type: body:type
    rules:
      - when: event.type == "payment.paid"
        transfers:
          - {debit: '"psp"', credit: '"shop"', amount: 'major(body.amount.value, body.amount.currency)', asset: body.amount.currency, operation: 'op("payment", body.id)'}
      - when: event.type == "refund.refunded"
        transfers:
          - {debit: '"shop"', credit: '"psp"', amount: 'major(body.amount.value, body.amount.currency)', asset: body.amount.currency, operation: 'op("refund", body.id)', parent: 'op("payment", body.paymentId)'}
  other:
    provider: hmac
    secret: secret-of-the-other
    hmac: {header: X-Signature, encoding: hex, algorithm: sha256}
    id: body:id
    type: body:type
    rules:
      - when: event.type == "paid"
        transfers:
          - {debit: body.from, credit: body.to, amount: body.amount, asset: body.asset, operation: 'op("payment", body.payment)'}
`

// patientPSP is psp with a budget that no test spends: a refund may be decided
// before its payment.
var patientPSP = strings.Replace(psp, "attempts: 3", "attempts: 1000", 1)

// mollieAPI stands for Mollie's API.
type mollieAPI struct {
	*httptest.Server
	mu       sync.Mutex
	payments map[string]string // by id; absent: 404
	status   int               // answers everything, unless 0
	held     chan struct{}     // nothing is answered before it is closed, unless nil
	asked    int
}

func newMollieAPI(t *testing.T) *mollieAPI {
	t.Helper()
	m := &mollieAPI{payments: map[string]string{}}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.asked++
		status, held := m.status, m.held
		body, ok := m.payments[strings.TrimPrefix(r.URL.Path, "/v2/payments/")]
		m.mu.Unlock()
		if held != nil {
			<-held
		}
		switch {
		case status != 0:
			w.WriteHeader(status)
		case !ok:
			http.NotFound(w, r)
		default:
			_, _ = w.Write([]byte(body))
		}
	}))
	t.Cleanup(m.Close)
	return m
}

// pays makes a payment of 10 EUR known, with the given refunds.
func (m *mollieAPI) pays(id, status string, refunds ...string) {
	var list []string
	for _, refund := range refunds {
		list = append(list, fmt.Sprintf(`{"resource":"refund","id":%q,"paymentId":%q,"status":"refunded","amount":{"currency":"EUR","value":"1.00"}}`, refund, id))
	}
	m.set(func() {
		m.payments[id] = fmt.Sprintf(`{"resource":"payment","id":%q,"mode":"live","status":%q,"amount":{"currency":"EUR","value":"10.00"},`+
			`"amountRefunded":{"currency":"EUR","value":"%d.00"},"_embedded":{"refunds":[%s]}}`, id, status, len(refunds), strings.Join(list, ","))
	})
}

func (m *mollieAPI) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *mollieAPI) questions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

// asks lets the shop's hints be looked up at the API. A slow machine is no API that
// is away.
func (s *system) asks(m *mollieAPI, timeout time.Duration) {
	s.t.Helper()
	client, faults := fetch.New(config.Source{
		Name: config.Text{Value: "shop"}, Provider: config.Text{Value: "mollie-classic"},
		Fetch: &config.Fetch{URL: config.Text{Value: m.URL}, Token: config.NewSecret("test_key"), Timeout: timeout},
	}, 1<<20)
	require.Empty(s.t, faults)
	s.cat.Sources["shop"].Fetch = client
}

func hint(payment string) *envelope.Event {
	return &envelope.Event{
		Source: "shop", ID: envelope.GeneratedID(), Fault: string(dlq.NeedsFetch), Time: time.Unix(1_700_000_000, 0),
		ContentType: "application/x-www-form-urlencoded", Data: []byte("id=" + payment),
	}
}

// stored is how many messages there are.
func (s *system) stored() uint64 {
	s.t.Helper()
	events, err := s.js.Stream(s.t.Context(), stream.Events)
	require.NoError(s.t, err)
	return events.CachedInfo().State.LastSeq
}

// settles waits until nothing is left, also of what hints have led to.
func (s *system) settles() {
	s.t.Helper()
	s.eventually(s.idle, "what hints lead to settles")
}

func looked(w *worker, outcome string) int {
	return int(testutil.ToFloat64(w.metrics.lookups.WithLabelValues("shop", outcome)))
}

func TestAHintIsLookedUp(t *testing.T) {
	s := newSystem(t, patientPSP)
	m := newMollieAPI(t)
	m.pays("tr_1", "paid")
	s.asks(m, time.Minute)
	var w *worker
	s.start(func(started *worker) { w = started })

	first := hint("tr_1")
	s.publish(first)
	row := s.decided("tr_1:paid", dedupe.Completed)
	require.Equal(t, dedupe.Applied, row.Outcome)
	require.Equal(t, "payment.paid", row.Type)
	s.settles()
	require.EqualValues(t, 1000, s.balance("shop"))
	row = s.row(first.ID)
	require.Equal(t, dedupe.Completed, row.State)
	require.Equal(t, dedupe.Ignored, row.Outcome)
	require.Equal(t, string(dlq.Fetched), row.Reason)

	t.Run("the event has what the API says, and names its hint", func(t *testing.T) {
		m, err := envelope.ReadOne(t.Context(), s.js, stream.Events, 2)
		require.NoError(t, err)
		e, err := envelope.Decode(m.Header, m.Data)
		require.NoError(t, err)
		require.Equal(t, first.ID, e.Hint)
		require.Equal(t, "application/json", e.ContentType)
		require.Equal(t, "live", e.Mode)
		require.Contains(t, string(e.Data), `"amountRefunded"`)
	})
	t.Run("a hint at what is known stores nothing", func(t *testing.T) {
		before := s.stored()
		s.publish(hint("tr_1"), hint("tr_1"))
		s.settles()
		require.Equal(t, before+2, s.stored())
		require.Equal(t, 2, looked(w, lookupKnown))
		require.Equal(t, 1, s.transfers())
	})
	t.Run("a later state is an event of its own", func(t *testing.T) {
		m.pays("tr_1", "paid", "re_1", "re_2")
		before := s.stored()
		s.publish(hint("tr_1"))
		s.settles()
		require.Equal(t, before+1+2, s.stored())
		require.Equal(t, dedupe.Applied, s.decided("tr_1:re_2:refunded", dedupe.Completed).Outcome)
		require.EqualValues(t, 800, s.balance("shop"))
	})
	t.Run("all that happened meanwhile is found, in its order", func(t *testing.T) {
		m.pays("tr_2", "paid", "re_3")
		s.publish(hint("tr_2"))
		s.settles()
		require.EqualValues(t, 1700, s.balance("shop"))
	})
	t.Run("a kind that is not looked up is one that no rule matches", func(t *testing.T) {
		other := hint("ord_1")
		s.publish(other)
		row := s.decided(other.ID, dedupe.Completed)
		require.Equal(t, dedupe.Ignored, row.Outcome)
		require.Equal(t, string(dlq.Unmatched), row.Reason)
	})
	s.settles()
	require.Empty(t, s.letters())
}

func TestWithoutAFetcherAHintIsParkedAtOnce(t *testing.T) {
	s := newSystem(t, psp)
	s.start()
	parked := hint("tr_1")
	s.publish(parked)
	row := s.decided(parked.ID, dedupe.Failed)
	require.Equal(t, string(dlq.NeedsFetch), row.Reason)
	require.Zero(t, row.Attempts)
	s.settled()
	require.Len(t, s.letters(), 1)
}

func TestUnmatchedHintsAreParkedWhereTheSourceSaysSo(t *testing.T) {
	s := newSystem(t, strings.Replace(psp, "type: body:type", "type: body:type\n    unmatched: park", 1))
	s.asks(newMollieAPI(t), time.Second)
	s.start()
	parked := hint("ord_1")
	s.publish(parked)
	row := s.decided(parked.ID, dedupe.Failed)
	require.Equal(t, string(dlq.NeedsFetch), row.Reason)
	require.Zero(t, row.Attempts)
}

// What the API does not know, or does not let us see, may be there later: the
// event's budget is spent first.
func TestWhatTheAPIRefusesIsTriedWithinTheBudget(t *testing.T) {
	s := newSystem(t, psp)
	m := newMollieAPI(t)
	s.asks(m, time.Minute)
	stop := s.start()
	lost, late := hint("tr_404"), hint("tr_late")
	s.publish(lost)
	row := s.decided(lost.ID, dedupe.Failed)
	require.Equal(t, string(dlq.NeedsFetch), row.Reason)
	require.Equal(t, 3, row.Attempts)
	require.Contains(t, row.Error, "404")
	require.Equal(t, 3, m.questions())
	s.settled()
	require.Len(t, s.letters(), 1)
	stop()

	s.cat = s.load(patientPSP)
	s.asks(m, time.Minute)
	s.start()
	s.publish(late)
	s.eventually(func() bool { row := s.row(late.ID); return row != nil && row.Attempts > 0 }, "it waits")
	m.pays("tr_late", "paid")
	s.decided("tr_late:paid", dedupe.Completed)
	s.decided(late.ID, dedupe.Completed)
}

// An API that is away costs nothing, and holds up nobody: neither the events of
// other sources, nor the shop's own that need no look-up.
func TestAnAPIThatIsAwayHoldsUpNobody(t *testing.T) {
	for name, away := range map[string]func(*mollieAPI){
		"answering 503": func(m *mollieAPI) { m.status = http.StatusServiceUnavailable },
		"mute":          func(m *mollieAPI) { m.held = make(chan struct{}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, psp+"\nworker: {ack_wait: 2s}")
			m := newMollieAPI(t)
			m.set(func() { away(m) })
			s.asks(m, time.Second)
			var w *worker
			s.start(func(started *worker) {
				w = started
				w.lanes["shop"].delay = time.Second
				w.lanes["shop"].breaker = newBreaker(w.lanes["shop"].breaker.Outage, time.Second, 50*time.Millisecond, time.Second)
			})
			const hints = 3 * laneQueue
			for i := range hints {
				id := fmt.Sprintf("tr_%d", i)
				m.pays(id, "paid")
				s.publish(hint(id))
			}
			s.eventually(func() bool { return testutil.ToFloat64(w.metrics.away.WithLabelValues("fetch-shop")) == 1 }, "it shows")
			for i := range 50 {
				e := payment(fmt.Sprintf("evt_%d", i), fmt.Sprintf("p_%d", i), "bank", "wallet:1", 1)
				e.Source = "other"
				s.publish(e)
			}
			s.eventually(func() bool { return s.transfers() == 50 }, "the others go on")
			require.Zero(t, s.count(`SELECT count(*) FROM events WHERE source = 'shop' AND attempts > 0`))
			require.Less(t, m.questions(), hints, "the breaker keeps from asking")
			m.set(func() {
				m.status = 0
				if m.held != nil {
					close(m.held)
					m.held = nil
				}
			})
			s.eventually(func() bool { return s.transfers() == 50+hints }, "they are looked up once it is back")
			s.settles()
			s.free()
			require.EqualValues(t, 1000*hints, s.balance("shop"))
		})
	}
}

// A stop gives back what waits, and another worker looks it up.
func TestAStopGivesHintsBack(t *testing.T) {
	s := newSystem(t, psp)
	m := newMollieAPI(t)
	m.set(func() { m.held = make(chan struct{}) })
	s.asks(m, time.Minute)
	stop, tell := s.startTold()
	const hints = 2 * laneWorkers
	for i := range hints {
		id := fmt.Sprintf("tr_%d", i)
		m.pays(id, "paid")
		s.publish(hint(id))
	}
	s.eventually(func() bool { return m.questions() == laneWorkers }, "some are asked for, the others wait")
	tell()
	m.set(func() { close(m.held); m.held = nil })
	stop()
	require.LessOrEqual(t, m.questions(), laneWorkers, "nothing new is asked for")
	s.start()
	s.eventually(func() bool { return s.transfers() == hints }, "another worker looks them up")
	s.settles()
	s.free()
}

// Who dies after an event was stored and before its hint is answered leaves a hint
// that comes again.
func TestAHintThatComesAgainChangesNothing(t *testing.T) {
	s := newSystem(t, patientPSP)
	m := newMollieAPI(t)
	m.pays("tr_1", "paid", "re_1")
	s.asks(m, time.Minute)
	w := newWorker(s.cat, s.log, Tuning{})
	require.NoError(t, w.open(t.Context()))
	defer w.close()
	e := hint("tr_1")
	for range 2 {
		require.NoError(t, w.lanes["shop"].lookUp(t.Context(), &item{event: e}))
	}
	require.EqualValues(t, 4, s.stored())
	s.start()
	s.settles()
	s.publish(e)
	s.settles()
	require.EqualValues(t, 900, s.balance("shop"))
	require.Equal(t, 2, s.transfers())
	require.EqualValues(t, 5, s.stored(), "it is all known by then")
	require.Empty(t, s.letters())
}

func TestPostgresAwayWhileHintsWait(t *testing.T) {
	s := newSystem(t, psp)
	m := newMollieAPI(t)
	m.pays("tr_1", "paid")
	s.asks(m, time.Minute)
	s.start()
	s.publish(hint("tr_1"))
	s.settles()
	require.NoError(t, stack.Postgres.Stop(t.Context()))
	for range 20 {
		s.publish(hint("tr_1"))
	}
	m.pays("tr_2", "paid")
	s.publish(hint("tr_2"))
	s.eventually(func() bool { return s.logged("postgres is unavailable") > 0 }, "it shows")
	require.NoError(t, stack.Postgres.Start(t.Context()))
	s.eventually(func() bool { return s.pool.Ping(t.Context()) == nil }, "the server is back")
	s.eventually(func() bool { return s.transfers() == 2 }, "the new one is looked up")
	s.settles()
	s.free()
}

func TestAFetcherThatPanicsHasRefused(t *testing.T) {
	require.ErrorIs(t, new(lane).lookUp(t.Context(), &item{}), fetch.ErrRefused)
}
