package worker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// thin is a source of Stripe's, whose objects are asked for.
const thin = `
nats: {events_max_bytes: 256MiB, dlq_max_bytes: 64MiB}
sources:
  shop:
    provider: stripe
    secret: whsec_1
    fetch: {url: "URL", token: rk_test_1, timeout: 30s}
    rules:
      - when: event.type == "v1.charge.succeeded"
        transfers:
          - {debit: '"stripe"', credit: '"shop"', amount: body.amount - body.amount_refunded, asset: body.currency, operation: 'op("charge", body.id)'}
`

func thinEvent(id, live string) *envelope.Event {
	return &envelope.Event{
		Source: "shop", ID: envelope.GeneratedID(), Fault: string(dlq.NeedsFetch), Type: "v1.charge.succeeded", Mode: map[string]string{"true": "live", "false": "test"}[live],
		Data: []byte(fmt.Sprintf(`{"id":%q,"object":"v2.core.event","type":"v1.charge.succeeded","livemode":%s,"created":"2024-05-01T10:00:00Z","related_object":{"id":"ch_1","type":"charge","url":"/v1/charges/ch_1"}}`, id, live)),
	}
}

// An event that was fetched kills workers, and is parked for it; whoever looks it
// up again dies of it, too.
func TestAHintThatKillsWorkers(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"id":"ch_1","amount":1250,"amount_refunded":0,"currency":"eur"}`)
	}))
	t.Cleanup(api.Close)
	s := newSystem(t, strings.Replace(thin, "URL", api.URL, 1)+"\nworker: {ack_wait: 1s}")
	for hints := 1; hints <= 2; hints++ {
		hint := s.publish(thinEvent("evt_killer", "true"))
		deaths := 0
		done := func() bool { return len(s.letters()) == hints && s.idle() }
		for !done() {
			deaths += s.killedWorker(done)
			// Whoever dies before the hint is answered leaves it to be looked up again, and
			// nobody knows a copy at its first delivery.
			copies := int(s.stored() - hint)
			require.LessOrEqual(t, deaths, crashBudget+1+copies)
		}
		require.GreaterOrEqual(t, deaths, crashBudget)
	}
	for _, l := range s.letters() {
		require.Equal(t, dlq.CrashBudget, l.Reason)
	}
	require.Zero(t, s.transfers())
}

// A thin event says which event it is: once that is completed, what became of its
// object since is not asked for.
func TestAThinEventIsAskedForOnce(t *testing.T) {
	var refunded, asked atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		require.Equal(t, "/v1/charges/ch_1", r.URL.Path)
		require.Equal(t, "Bearer rk_test_1", r.Header.Get("Authorization"))
		fmt.Fprintf(w, `{"id":"ch_1","amount":1250,"amount_refunded":%d,"currency":"eur"}`, refunded.Load())
	}))
	t.Cleanup(api.Close)
	s := newSystem(t, strings.Replace(thin, "URL", api.URL, 1))
	s.start()
	s.publish(thinEvent("evt_1", "true"))
	s.decided("evt_1", dedupe.Completed)
	s.settles()
	require.EqualValues(t, 1250, s.balance("shop"))
	refunded.Store(1000)
	s.publish(thinEvent("evt_1", "true"), thinEvent("evt_1", "true"))
	s.settles()
	require.EqualValues(t, 1, asked.Load())
	require.Equal(t, 1, s.transfers())
	require.Empty(t, s.letters())

	s.publish(thinEvent("evt_2", "false"))
	row := s.decided("test/evt_2", dedupe.Completed)
	require.Equal(t, string(dlq.ModeMismatch), row.Reason)
	require.Equal(t, 1, s.transfers())
}
