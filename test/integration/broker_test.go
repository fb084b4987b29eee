package integration

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/stream/streamtest"
)

// refused wants a 503 that says when to come again.
func refused(t *testing.T, r reply) {
	t.Helper()
	require.Equal(t, http.StatusServiceUnavailable, r.status, "%v", r.err)
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	require.NoError(t, err)
	require.Positive(t, after)
}

func TestUnstoredEventIsNotAcknowledged(t *testing.T) { // case 10
	t.Parallel()
	s := newSystem(t, strings.Replace(quickly, "events_max_bytes: 256MiB", "events_max_bytes: 256KiB", 1)+"receiver: {max_body: 16KiB}\n")
	receiver := s.receiver()
	worker := s.worker()
	want := newBook()

	s.step("while the broker is away", func(t *testing.T) {
		event := charge("evt_A10", "cus_10", 10)
		require.NoError(t, s.stack.NATS.Stop(t.Context()))
		refused(t, s.send(receiver, event))
		require.Error(t, probe(t.Context(), receiver.admin))
		for _, p := range []*program{receiver, worker} {
			s.eventually("it shows", func() bool { return s.metric(p, p.gauge("stream_connected")) == 0 })
		}
		s.restartBroker()
		s.eventually("the receiver is back", func() bool { return probe(t.Context(), receiver.admin) == nil })
		for _, p := range []*program{receiver, worker} {
			s.eventually("its end shows", func() bool { return s.logged(p, "nats is back") == 1 && s.metric(p, p.gauge("stream_connected")) == 1 })
			require.Equal(t, 1, s.logged(p, "nats is away"), p.name)
		}
		require.Empty(t, s.stored(), "nothing was kept in memory to be stored later")
		s.ack(receiver, event)
		want.post("wallet:cus_10", "merchant", 10)
		s.verify(want)
	})
	s.step("while the stream is full", func(t *testing.T) {
		event := charge("evt_full", "cus_10", 11)
		s.drain(worker)                                                // what it has not seen yet is thrown away below
		for _, stuffing := range [][]byte{make([]byte, 16<<10), nil} { // to the last byte
			var err error
			for err == nil {
				_, err = s.js.Publish(t.Context(), "events.shop.stuffing", stuffing)
			}
		}
		refused(t, s.send(receiver, event))
		require.Error(t, probe(t.Context(), receiver.admin))
		require.Equal(t, 1, s.metric(receiver, unavailable, `service="events_full"`))
		events, err := s.js.Stream(t.Context(), stream.Events)
		require.NoError(t, err)
		require.NoError(t, events.Purge(t.Context()))
		s.acked = map[key]int{} // and so is what the steps before stored
		s.ack(receiver, event)
		s.worker()
		s.settled()
		require.Equal(t, "applied", s.row("stripe", "evt_full").Outcome)
		want.post("wallet:cus_10", "merchant", 11)
		s.verifyLedger(want)
		s.eventually("its end shows", func() bool {
			return s.logged(receiver, "EVENTS has room again") == 1 && s.metric(receiver, unavailable) == 0
		})
		require.Equal(t, 1, s.logged(receiver, "EVENTS is full"))
	})
	s.step("while the broker does not answer", func(t *testing.T) {
		event := charge("evt_late", "cus_10", 12)
		require.NoError(t, s.stack.NATS.Pause())
		r := s.send(receiver, event)
		s.eventually("it shows", func() bool { return s.metric(receiver, unavailable, `service="events"`) == 1 })
		require.NoError(t, s.stack.NATS.Resume())
		streamtest.Reach(t, s.js)
		refused(t, r)
		require.Less(t, r.took, 10*time.Second, "before its sender gives up")
		// Whether it was stored is not known; sent again, it is applied once.
		s.eventually("the sender is heard", func() bool { return s.send(receiver, event).accepted() })
		want.post("wallet:cus_10", "merchant", 12)
		s.settled()
		s.verifyStored()
		s.verifyLedger(want)
		s.eventually("its end shows", func() bool {
			return s.logged(receiver, "storing in EVENTS is back") == 1 && s.metric(receiver, unavailable) == 0
		})
		require.Equal(t, 1, s.logged(receiver, "storing in EVENTS is unavailable"))
	})
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0 OR crashes > 0`))
	require.Empty(t, s.letters())
}

// unavailable is the receiver's gauge of what it has to do without.
const unavailable = "onceledger_receiver_service_unavailable"

func TestBrokerKilledUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSystem(t, quickly)
	receivers := []*program{s.receiver(), s.receiver()}
	workers := []*program{s.worker(), s.worker()}
	flood := s.flood(2*time.Millisecond, numbered, receivers...)
	s.eventually("events are applied", func() bool { return s.transfers() >= 300 })

	const outages = 2
	for n := range outages {
		away := flood.count(http.StatusServiceUnavailable)
		require.NoError(t, s.stack.NATS.Kill())
		s.eventually("senders are told", func() bool { return flood.count(http.StatusServiceUnavailable) >= away+200 })
		s.restartBroker()
		reached := flood.count(http.StatusOK) + 300
		s.eventually("events are taken again", func() bool { return flood.count(http.StatusOK) >= reached })
		for _, p := range append(receivers, workers...) { // each in its own time
			s.eventually("all are back", func() bool { return s.logged(p, "nats is back") == n+1 })
		}
	}

	want := newBook()
	var again []delivery
	for _, a := range flood.end() {
		a.postTo(want)
		if a.status != http.StatusOK {
			refused(t, a.reply)
			again = append(again, a.delivery)
		}
	}
	distinct := s.verifyStored()
	require.GreaterOrEqual(t, len(distinct), len(s.acked))
	s.ack(receivers[0], again...) // as their senders do
	s.verify(want)
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0`))
	require.Empty(t, s.letters())
	for _, p := range append(receivers, workers...) {
		require.Equal(t, outages, s.logged(p, "nats is away"), p.name)
		require.Equal(t, outages, s.logged(p, "nats is back"), p.name)
		s.isReady(p)
	}
}
