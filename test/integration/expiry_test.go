package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestExpiredDeliveriesStrandNothing holds transactions up for longer than the
// ack wait, so that workers decide deliveries that the broker has given to
// others meanwhile: the answer to such a one ends the other's as well.
func TestExpiredDeliveriesStrandNothing(t *testing.T) {
	t.Parallel()
	s := newSystem(t, base+"worker: {ack_wait: 1s}\n")
	receiver := s.receiver()
	survivor := s.worker()
	doomed := s.worker()
	flood := s.flood(5*time.Millisecond, numbered, receiver)
	s.eventually("events are applied", func() bool { return s.transfers() >= 50 })

	// Within the workers' lock timeout they wait and commit late; beyond it they
	// give everything back.
	for _, slow := range []time.Duration{1300 * time.Millisecond, 1700 * time.Millisecond, 5 * time.Second, 1500 * time.Millisecond} {
		before := s.transfers()
		tx, err := s.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`)
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `LOCK TABLE events IN SHARE MODE`)
		require.NoError(t, err)
		s.pass(slow)
		if slow < 2*time.Second { // one of them never answers
			require.NoError(t, doomed.Kill())
			doomed = s.worker()
		}
		require.NoError(t, tx.Rollback(t.Context()))
		s.eventually("events are applied again", func() bool { return s.transfers() >= before+50 })
	}

	want := newBook()
	for _, a := range s.accepted(flood, receiver) {
		a.postTo(want)
	}
	s.verify(want)
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0`))
	require.Empty(t, s.letters())
	require.Positive(t, s.metric(survivor, "onceledger_worker_deliveries_total", `outcome="redelivered"`), "deliveries expired and were decided all the same")
}
