package keeper_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/keeper"
)

func TestOneLeads(t *testing.T) {
	s := newSystem(t, "64MiB")
	first := s.keep()
	first.until("a round", func(r round) bool { return r.err == nil })
	second, third := s.keep(), s.keep()
	require.Equal(t, 1.0, first.metric("keeper_leader"))
	require.Equal(t, 0.0, first.metric("audit_unaccounted"))

	t.Run("a lost connection is a lost lead, and another takes over within seconds", func(t *testing.T) {
		require.Equal(t, 0.0, second.metric("keeper_leader")+third.metric("keeper_leader"))
		require.Equal(t, -1.0, second.metric("audit_unaccounted"), "only the leader knows")
		// The others ask every two seconds; the first is held back by its own wait.
		terminated := one[int](s, `
			SELECT count(pg_terminate_backend(l.pid))::int
			FROM pg_locks l
			WHERE l.locktype = 'advisory' AND l.granted
			  AND l.pid IN (SELECT pid FROM pg_stat_activity WHERE application_name = 'onceledger-keeper')`)
		require.Equal(t, 1, terminated)
		began := time.Now()
		require.Eventually(t, func() bool {
			return first.metric("keeper_leader")+second.metric("keeper_leader")+third.metric("keeper_leader") == 1 &&
				(len(second.rounds) > 0 || len(third.rounds) > 0)
		}, 30*time.Second, 10*time.Millisecond)
		t.Logf("taken over after %s", time.Since(began))
	})

	t.Run("a leader that stops hands over", func(t *testing.T) {
		leader, other := second, third
		if third.metric("keeper_leader") == 1 {
			leader, other = third, second
		}
		first.stop()
		leader.stop()
		require.Equal(t, 0.0, leader.metric("keeper_leader"))
		require.Equal(t, -1.0, leader.metric("audit_unaccounted"), "what it knew is old")
		other.until("a round", func(r round) bool { return r.err == nil })
		require.Equal(t, 1.0, other.metric("keeper_leader"))
	})
}

// Two that take themselves for the leader, as after a pause, do no harm: the
// marks are fenced.
func TestErrorsDoNotEndIt(t *testing.T) {
	s := newSystem(t, "64MiB")
	k := s.keep()
	k.until("a round", func(r round) bool { return r.err == nil })
	s.exec(`ALTER TABLE audit_marks RENAME TO audit_marks_away`)
	k.until("an error", func(r round) bool { return r.err != nil })
	s.exec(`ALTER TABLE audit_marks_away RENAME TO audit_marks`)
	k.clean()
}

// deaf loses one answer of the broker, as its death does: the client waits for it
// for as long as it does for any, unless the caller has set a deadline of his own.
type deaf struct {
	jetstream.JetStream
	lose atomic.Bool
}

func (d *deaf) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if !d.lose.CompareAndSwap(true, false) {
		return d.JetStream.Stream(ctx, name)
	}
	if _, own := ctx.Deadline(); !own {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A lost answer costs the wait for that answer, and not the time of a round.
func TestALostAnswerDoesNotHoldUpTheRounds(t *testing.T) {
	s := newSystem(t, "64MiB")
	broker := &deaf{JetStream: s.js}
	k := s.keep(func(o *keeper.Options) { o.JS = broker })
	k.clean()
	broker.lose.Store(true)
	k.until("a lost answer", func(r round) bool { return r.err != nil })
	k.clean()
}
