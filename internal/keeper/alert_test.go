package keeper_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/keeper"
	"github.com/onceledger/onceledger/internal/stream"
)

// lines is a log that a test reads while others write.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

func TestAlerts(t *testing.T) {
	t.Run("from 80 % of EVENTS on until there is room again", func(t *testing.T) {
		s := newSystem(t, "1MiB")
		s.decide(payment("evt_1", "p1", "1"))
		var log lines
		k := s.keep(func(o *keeper.Options) { o.Log = zerolog.New(&log) })
		k.until("a round", func(r round) bool { return r.err == nil })
		shows := func(want float64, began, ended int) {
			t.Helper()
			require.Eventually(t, func() bool {
				return k.metric("alert_events_filling") == want && log.count("EVENTS is filling") == began && log.count("EVENTS has room again") == ended
			}, 20*time.Second, 10*time.Millisecond)
			for range 3 {
				k.until("a round", func(r round) bool { return r.err == nil })
			}
			require.Equal(t, want, k.metric("alert_events_filling"))
			require.Equal(t, []int{began, ended}, []int{log.count("EVENTS is filling"), log.count("EVENTS has room again")}, "it is said once")
		}
		s.fill("a", 180) // nobody decides these: 74 %
		require.Eventually(t, func() bool { return k.metric("events_fill_ratio") > 0.7 }, 20*time.Second, 10*time.Millisecond)
		require.Less(t, k.metric("events_fill_ratio"), 0.8)
		shows(0, 0, 0)
		s.fill("b", 30)
		shows(1, 1, 0)
		require.GreaterOrEqual(t, k.metric("events_fill_ratio"), 0.8)
		s.work() // and what is decided can be removed
		shows(0, 1, 1)
		require.Less(t, k.metric("events_fill_ratio"), 0.8)
	})

	t.Run("while a message waits too long", func(t *testing.T) {
		s := newSystem(t, "64MiB")
		s.decide(payment("evt_1", "p1", "1"))
		var log lines
		change := func(alert time.Duration) func(*keeper.Options) {
			return func(o *keeper.Options) { o.Log, o.Config.BacklogAlert = zerolog.New(&log), alert }
		}
		k := s.keep(change(time.Hour))
		msg, err := payment("evt_2", "p2", "1").Msg()
		require.NoError(t, err)
		msg.Header["Nats-Time-Stamp"] = []string{"2001-01-01T00:00:00Z"} // it cannot make itself older
		s.store(msg)
		k.until("the message", func(r round) bool { return r.err == nil && r.Sum.InFlight == 1 })
		k.until("another round", func(r round) bool { return r.err == nil })
		require.Positive(t, k.metric("backlog_age_seconds"))
		require.Less(t, k.metric("backlog_age_seconds"), 60.0)
		require.Zero(t, k.metric("alert_backlog_age"))
		require.Zero(t, log.count("waited too long"))
		k.stop()

		k = s.keep(change(time.Millisecond))
		require.Eventually(t, func() bool { return k.metric("alert_backlog_age") == 1 }, 20*time.Second, 10*time.Millisecond)
		for range 3 {
			k.until("a round", func(r round) bool { return r.err == nil })
		}
		require.Equal(t, 1, log.count("waited too long"))
		require.Zero(t, log.count("no message waits too long any more"))
		s.work()
		require.Eventually(t, func() bool { return k.metric("alert_backlog_age") == 0 }, 20*time.Second, 10*time.Millisecond)
		require.Zero(t, k.metric("backlog_age_seconds"))
		require.Equal(t, 1, log.count("no message waits too long any more"))
	})
}

// A message without an envelope, and whatever its headers pretend, is trimmed
// and swept like any other.
func TestLiarsHoldNothingUp(t *testing.T) {
	s := newSystem(t, "64MiB")
	for i, header := range []nats.Header{
		{"Status": {"404"}}, {"Nats-Sequence": {"many"}}, {"Nats-Sequence": {"9999"}, "Nats-Time-Stamp": {"2099-01-01T00:00:00Z"}},
	} {
		s.store(&nats.Msg{Subject: "events.stranger", Header: header, Data: []byte("no envelope")})
		s.publish(payment(fmt.Sprint("evt_", i), fmt.Sprint(i), "1"))
	}
	s.decide()
	k := s.keep().leads()
	require.Equal(t, 6, k.clean().Sum.Messages)
	k.stop()
	s.exec(`DELETE FROM events WHERE source = 'unknown'`, oldMark)
	k = s.keep().leads()
	require.Equal(t, 3, k.until("all three parked again", func(r round) bool {
		return r.err == nil && k.metric("sweep_repairs_total", "unreadable") == 3 && r.Clean
	}).Sum.Parked)
	k.stop()
	k = s.keep(func(o *keeper.Options) { o.Config.Trim, o.Config.Keep = "age", time.Nanosecond }).leads()
	k.until("a trim", func(round) bool { return s.state().Msgs == 0 })
	require.Equal(t, uint64(7), s.state().FirstSeq, stream.Events)
}
