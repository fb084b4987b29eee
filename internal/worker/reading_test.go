package worker

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// respelled is an event whose meaning is e's and whose bytes are not.
func respelled(e *envelope.Event) *envelope.Event {
	other := *e
	other.Data = append(bytes.Clone(e.Data), ' ')
	return &other
}

// applied lets a worker apply an event, and stops it.
func (s *system) applied(e *envelope.Event) {
	s.t.Helper()
	stop := s.start()
	s.publish(e)
	s.decided(e.ID, dedupe.Completed)
	s.settled()
	stop()
}

// givenBack lets one delivery come back n times, as outages do.
func (s *system) givenBack(n int) {
	s.t.Helper()
	consumer, err := stream.WorkerConsumer(s.t.Context(), s.js, s.cat.Config.Worker.AckWait)
	require.NoError(s.t, err)
	for range n {
		batch, err := consumer.Fetch(1)
		require.NoError(s.t, err)
		require.NoError(s.t, (<-batch.Messages()).Nak())
	}
}

// An outage gives a delivery back as often as it likes: a resend in another
// spelling stays a resend.
func TestOutagesMakeNoConflict(t *testing.T) {
	s := newSystem(t, shop)
	e := payment("evt_1", "p1", "bank", "wallet:1", 5)
	s.applied(e)
	s.publish(respelled(e))
	s.givenBack(300)
	s.start()
	s.settled()
	require.Empty(t, s.letters())
	require.Equal(t, 1, s.transfers())
	require.Zero(t, s.count(`SELECT count(*) FROM readings`))
}

// A content kills whoever reads it, and another content stands under its id.
func TestReadingThatKillsWorkers(t *testing.T) {
	s := newSystem(t, shop+"\nworker: {ack_wait: 1s}")
	e := payment("evt_killer", "p1", "bank", "wallet:1", 5)
	s.applied(e)
	for range 2 { // in batches with others, which complete
		s.payments(0, 10)
		s.publish(respelled(e))
	}
	deaths := 0
	parked := func() bool { return s.count(`SELECT count(*) FROM events WHERE state = 'failed'`) > 0 }
	for !parked() {
		deaths += s.killedWorker(parked)
		require.LessOrEqual(t, deaths, crashBudget+2)
	}
	letters := s.letters()
	require.Len(t, letters, 1)
	require.Equal(t, dlq.CrashBudget, letters[0].Reason)
	require.NotEmpty(t, letters[0].Variant)
	require.Equal(t, 11, s.transfers())

	// A further copy kills one, who may not know what it is, and no more.
	s.publish(respelled(e))
	for deaths = 0; !s.idle(); {
		deaths += s.killedWorker(s.idle)
		require.LessOrEqual(t, deaths, 1)
	}
	require.Len(t, s.letters(), 1)

	// Sent again after the fault is corrected, it is read.
	s.redriveAll()
	s.start()
	s.settled()
	require.Empty(t, s.letters(), "it means what stands")
	require.Equal(t, 11, s.transfers())
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE state <> 'completed' AND state <> 'failed'`))
}

// The rules fail at a content that another one stands for: nobody knows what it
// means, which makes it no conflict.
func TestFaultAtAResendIsNoConflict(t *testing.T) {
	for name, faults := range map[string]int32{"once": 1, "always": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, strings.Replace(shop, "attempts: 3", "attempts: 1", 1)+"\nworker: {ack_wait: 1s}")
			e := payment("evt_1", "p1", "bank", "wallet:1", 5)
			s.applied(e)
			var judged atomic.Int32
			s.start(func(w *worker) {
				w.thinking = func(*envelope.Event) {
					if judged.Add(1) <= faults {
						panic("a fault of ours")
					}
				}
			})
			s.publish(respelled(e))
			s.settled()
			require.Equal(t, 1, s.transfers())
			letters := s.letters()
			if name == "once" {
				require.Empty(t, letters)
				return
			}
			require.Len(t, letters, 1)
			require.Equal(t, dlq.CrashBudget, letters[0].Reason)
		})
	}
}
