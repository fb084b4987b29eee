package keeper_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/keeper"
	"github.com/onceledger/onceledger/internal/stream"
)

// fill stores payments of about 4 KB each.
func (s *system) fill(name string, n int) {
	s.t.Helper()
	for i := range n {
		id := fmt.Sprintf("%s_%d", name, i)
		e := payment(id, id, "10")
		e.Data = append(e.Data[:len(e.Data)-1], fmt.Sprintf(`,"padding":%q}`, strings.Repeat("x", 4000))...)
		s.publish(e)
	}
}

func (s *system) state() jetstream.StreamState {
	s.t.Helper()
	events, err := s.js.Stream(s.t.Context(), stream.Events)
	require.NoError(s.t, err)
	return events.CachedInfo().State
}

func TestTrim(t *testing.T) {
	const limit = 1 << 20

	t.Run("makes room above 60 %, and what is gone stays accounted for", func(t *testing.T) {
		s := newSystem(t, "1MiB")
		k := s.keep().leads()
		stop := s.work()
		s.fill("a", 100) // some 40 %
		s.settle()
		k.clean()
		require.Equal(t, uint64(1), s.state().FirstSeq, "there is room, and the span is not over")
		s.fill("b", 100)
		s.settle()
		k.until("room", func(round) bool { return s.state().Bytes < limit*6/10 })
		require.Greater(t, s.state().Bytes, uint64(limit*4/10), "no more than needed")
		first := s.state().FirstSeq
		require.Equal(t, fmt.Sprint(first-1), one[string](s, `SELECT detail->>'last_seq' FROM actions WHERE verb = 'trim' ORDER BY no DESC LIMIT 1`))
		require.Eventually(t, func() bool { return k.metric("trimmed_messages_total") == float64(first-1) }, 20*time.Second, 10*time.Millisecond)

		again := payment("a_0", "a_0", "10")
		again.Data = append(again.Data, ' ') // other bytes, the same meaning, and its message is gone
		s.publish(again)
		s.settle()
		r := k.until("the resend", func(r round) bool { return r.err == nil && r.Sum.Messages == 201 && r.Sum.InFlight == 0 })
		require.True(t, r.Clean, "%+v", r.Findings)
		require.Equal(t, 200, r.Sum.Applied)
		require.Equal(t, 1, r.Sum.Duplicates)
		require.Empty(t, s.full().Findings)
		stop()
	})

	t.Run("leaves what is open, and alerts", func(t *testing.T) {
		s := newSystem(t, "1MiB")
		stop := s.work()
		s.fill("a", 30)
		s.settle()
		s.publish(payment("evt_bad", "p", `"many"`))
		s.settle()
		s.fill("b", 30)
		s.settle()
		stop()
		k := s.keep()
		require.Equal(t, 61, k.clean().Sum.Messages, "all of it is accounted for")
		k.stop()
		s.exec(`UPDATE events SET state = 'pending', dlq_seq = NULL, redrives = 1, next_try_at = now() + interval '1 hour' WHERE event_id = 'evt_bad'`)
		s.fill("c", 150) // nobody decides these: 80 %
		k = s.keep(func(o *keeper.Options) {
			o.Grace = time.Hour
			o.Config.BacklogAlert = time.Millisecond
		})
		require.Eventually(t, func() bool { return s.state().FirstSeq == 31 }, 20*time.Second, 10*time.Millisecond, "up to the event that waits")
		for range 3 {
			k.until("a round", func(r round) bool { return r.err == nil })
		}
		require.Equal(t, uint64(31), s.state().FirstSeq)
		require.Equal(t, 1.0, k.metric("alert_backlog_age"))
	})

	t.Run("goes by age where it is told to", func(t *testing.T) {
		s := newSystem(t, "64MiB")
		k := s.keep(func(o *keeper.Options) { o.Config.Trim = "age" }).leads()
		stop := s.work()
		s.fill("a", 20)
		s.settle()
		for range 3 {
			k.clean()
		}
		require.Equal(t, uint64(20), s.state().Msgs, "none is older than the span")
		stop()
		k.stop()
		k = s.keep(func(o *keeper.Options) { o.Config.Trim, o.Config.Keep = "age", time.Nanosecond }).leads()
		s.work()
		k.until("a trim", func(round) bool { return s.state().Msgs == 0 })
		k.clean()
		s.fill("b", 5)
		s.settle()
		require.Equal(t, 25, k.until("the others", func(r round) bool { return r.err == nil && r.Sum.Messages == 25 && r.Sum.InFlight == 0 }).Sum.Applied)
	})
}
