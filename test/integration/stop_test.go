package integration

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWorkerKilledInMidFlowIsReplaced(t *testing.T) {
	t.Parallel()
	s := newSystem(t, quickly)
	receiver := s.receiver()
	s.worker()
	doomed := s.worker()
	flood := s.flood(2*time.Millisecond, numbered, receiver)
	for range 3 {
		reached := s.transfers() + 200
		s.eventually("events are applied", func() bool { return s.transfers() >= reached })
		require.NoError(t, doomed.Kill())
		require.Equal(t, "signal: killed", doomed.State())
		doomed = s.worker()
	}
	want := newBook()
	for _, a := range s.accepted(flood, receiver) {
		a.postTo(want)
	}
	s.verify(want)
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0`))
	require.Empty(t, s.letters())
}

func TestReceiverDrainsUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSystem(t, base)
	receivers := []*program{s.receiver(), s.receiver()}
	s.worker()
	flood := s.flood(time.Millisecond, numbered, receivers...)
	s.eventually("events are taken", func() bool { return flood.count(http.StatusOK) >= 300 })
	s.drain(receivers[0])
	require.Equal(t, 1, s.logged(receivers[0], `"drained"`))
	reached := flood.count(http.StatusOK) + 100
	s.eventually("the other one goes on", func() bool { return flood.count(http.StatusOK) >= reached })

	want := newBook()
	var again []delivery
	for i, a := range flood.end() {
		if a.status != http.StatusOK {
			require.Contains(t, []int{0, http.StatusServiceUnavailable}, a.status, "%d", i)
			again = append(again, a.delivery)
		}
		a.postTo(want)
	}
	require.NotEmpty(t, again, "its senders met a closed door")
	s.verifyStored()
	s.ack(receivers[1], again...)
	s.verify(want)
	require.Empty(t, s.letters())
}

func TestWorkerDrainsUnderLoad(t *testing.T) {
	t.Parallel()
	s := newSystem(t, base+"worker: {ack_wait: 1h}\n") // which nothing below lives to see
	receiver := s.receiver()
	want := newBook()
	flood := s.flood(time.Millisecond, numbered, receiver)
	s.eventually("there is a backlog", func() bool { return flood.count(http.StatusOK) >= 1500 })
	drained := s.worker()
	s.eventually("it is in the middle of it", func() bool { return s.transfers() > 0 })
	s.drain(drained)
	require.Equal(t, 1, s.logged(drained, `"worker stopped"`))

	s.worker()
	for _, a := range s.accepted(flood, receiver) {
		a.postTo(want)
	}
	s.verify(want) // it kept no delivery for itself: that would come again in an hour
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0`))
}
