package worker

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/dedupe"
)

// One worker alone loses Postgres, for two ack waits, with attempts begun.
// The other could take their events over, and would count that as crashes.
func TestDebtsAreKeptFromOthers(t *testing.T) {
	yaml := shop + "\nworker: {ack_wait: 5s}"
	s := newSystem(t, yaml)
	s.payments(0, 20)
	s.expire(20)
	cable := s.behind("DATABASE_URL", s.url, yaml)
	s.start(func(w *worker) {
		w.tuning = Tuning{Batch: 50, Linger: 300 * time.Millisecond} // one batch
		w.between = sync.OnceFunc(cable.cut)
	})
	s.eventually(func() bool { return s.logged("postgres is unavailable") == 1 }, "the worker notices")
	s.eventually(func() bool { return s.sessions() == int(s.pool.Stat().TotalConns()) }, "so does the server: what was under way has ended")
	begun := s.count(`SELECT count(*) FROM events WHERE state = 'processing'`)
	require.Positive(t, begun)

	s.env["DATABASE_URL"] = s.url
	s.cat = s.load(yaml)
	s.start()
	s.pass(11 * time.Second)
	require.Equal(t, begun, s.count(`SELECT count(*) FROM events WHERE state = 'processing'`), "nobody touches them")
	cable.mend()
	s.settled()
	require.Equal(t, 20, s.transfers())
	s.free()
}

// The answer to the marking of redelivered events is lost with the cable: the
// rows say that an attempt has begun, and nobody knows it.
func TestLostAnswersToMarking(t *testing.T) {
	yaml := shop + "\nworker: {ack_wait: 5s}"
	s := newSystem(t, yaml)
	s.payments(0, 50)
	s.expire(50)
	cable := s.behind("DATABASE_URL", s.url, yaml)
	left := cable.loseAnswers(3, "INSERT 0 ")
	s.start()
	s.eventually(func() bool { return left() == 0 }, "answers are lost")
	s.settled()
	require.Equal(t, 50, s.transfers())
	s.free()
}

// A worker that stops while it owes attempts pays them first.
func TestStopPaysDebts(t *testing.T) {
	yaml := shop + "\nworker: {ack_wait: 5s}"
	s := newSystem(t, yaml)
	s.payments(0, 20)
	s.expire(20)
	cable := s.behind("DATABASE_URL", s.url, yaml)
	between := make(chan struct{}, 100)
	stop := s.start(func(w *worker) {
		w.between = func() { cable.cut(); between <- struct{}{} }
	})
	<-between
	s.eventually(func() bool { return s.logged("postgres is unavailable") == 1 }, "the worker notices")
	require.Positive(t, s.count(`SELECT count(*) FROM events WHERE state = 'processing'`))
	time.AfterFunc(500*time.Millisecond, cable.mend)
	stop()
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE state = 'processing'`))

	s.env["DATABASE_URL"] = s.url
	s.cat = s.load(yaml)
	s.start()
	s.decided("evt_000000", dedupe.Completed)
	s.settled()
	s.free()
}
