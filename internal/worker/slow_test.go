package worker

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// A batch that takes three times the ack wait is not given to anybody else.
func TestLongBatchKeepsItsDeliveries(t *testing.T) {
	s := newSystem(t, shop+"\nworker: {ack_wait: 5s}")
	s.payments(0, 20)
	var thoughts atomic.Int64
	slowly := func(w *worker) {
		w.tuning = Tuning{Batch: 20, Linger: 100 * time.Millisecond}
		w.thinking = func(*envelope.Event) { thoughts.Add(1); s.pass(800 * time.Millisecond) }
	}
	s.start(slowly)
	s.start(slowly)
	s.settled()
	require.Equal(t, 20, s.transfers())
	s.free()
	require.EqualValues(t, 20, thoughts.Load(), "each was worked once")
	consumer, err := s.js.Consumer(t.Context(), stream.Events, stream.Consumer)
	require.NoError(t, err)
	require.EqualValues(t, 20, consumer.CachedInfo().Delivered.Consumer, "each was delivered once")
}

// Case 8: the ack wait ends while deliveries wait in a worker's buffer, and the
// broker gives them to the other one; both try them.
func TestDeliveriesThatExpireInTheBuffer(t *testing.T) {
	s := newSystem(t, shop+"\nworker: {ack_wait: 5s}") // a buffer takes longer
	const n = 120
	s.payments(0, n)
	s.child("slow")
	s.child("slow")
	s.eventually(func() bool { return s.transfers() == n }, "all are applied")
	s.settled()
	require.Equal(t, n, s.transfers(), "not one more")
	require.EqualValues(t, n, s.balance("wallet:1"))
	s.free()
	consumer, err := s.js.Consumer(t.Context(), stream.Events, stream.Consumer)
	require.NoError(t, err)
	delivered := consumer.CachedInfo().Delivered.Consumer
	t.Logf("%d deliveries", delivered)
	require.Greater(t, delivered, uint64(n), "some came to both")
}
