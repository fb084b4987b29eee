package worker

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// Two deliveries of one event with other bytes are in work at once. The second
// looked for the first one's row before it was there.
func TestRowThatComesMeanwhileIsNoConflict(t *testing.T) {
	s := newSystem(t, shop)
	s.publish(payment("evt_1", "p1", "bank", "wallet:1", 5))
	s.publish(event("evt_1", `{"retry":1,"asset":"EUR","amount":5,"to":"wallet:1","from":"bank","payment":"p1","type":"paid","id":"evt_1"}`))
	w := newWorker(s.cat, s.log, Tuning{})
	require.NoError(t, w.open(t.Context()))
	defer w.close()
	w.work = t.Context()
	consumer, err := stream.WorkerConsumer(t.Context(), s.js, time.Minute)
	require.NoError(t, err)
	batch, err := consumer.Fetch(2)
	require.NoError(t, err)
	first, second := delivery{<-batch.Messages(), w.incarnation()}, delivery{<-batch.Messages(), w.incarnation()}
	it, err := w.decode(second)
	require.NoError(t, err)
	l := &loop{w: w, name: "test"}
	same, err := l.compare(t.Context(), it)
	require.NoError(t, err)
	l.process(t.Context(), []delivery{first})
	row := s.decided("evt_1", dedupe.Completed)
	require.Equal(t, dedupe.Unsure, same(row))

	require.NoError(t, second.Nak())
	s.start()
	s.settled()
	require.Equal(t, 1, s.transfers())
	require.Empty(t, s.letters())
}

// resentUnderNewRules starts a worker whose rules read another member, too, and
// sends the event again in another spelling: equal meaning must stay equal.
func (s *system) resentUnderNewRules() {
	s.t.Helper()
	s.cat = s.load(strings.Replace(shop, `event.type == "paid"`, `event.type == "paid" && !has(body.void)`, 1))
	s.start()
	s.publish(event("evt_1", `{"type":"paid","id":"evt_1","payment":"p1","from":"bank","to":"wallet:1","amount":5,"asset":"EUR"}`))
	s.settled()
	require.Empty(s.t, s.letters())
}

// Another amount is a conflict.
func TestRulesChangedBetween(t *testing.T) {
	s := newSystem(t, shop)
	s.applied(payment("evt_1", "p1", "bank", "wallet:1", 5))
	s.resentUnderNewRules()
	s.publish(payment("evt_1", "p1", "bank", "wallet:1", 6))
	s.settled()
	require.Len(t, s.letters(), 1)
	require.Equal(t, dlq.IDConflict, s.letters()[0].Reason)
}

// The message that is read again may have been published by anybody, with
// headers that look like the broker's.
func TestRulesChangedUnderALiar(t *testing.T) {
	s := newSystem(t, shop)
	stop := s.start()
	msg, err := payment("evt_1", "p1", "bank", "wallet:1", 5).Msg()
	require.NoError(t, err)
	msg.Header["Nats-Sequence"], msg.Header["Nats-Time-Stamp"] = []string{"many"}, []string{"yesterday"}
	_, err = s.js.PublishMsg(t.Context(), msg)
	require.NoError(t, err)
	s.decided("evt_1", dedupe.Completed)
	s.settled()
	stop()

	s.resentUnderNewRules()
	require.Zero(t, s.logged("postgres is unavailable"))
}
