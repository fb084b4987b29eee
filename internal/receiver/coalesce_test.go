package receiver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/stream/streamtest"
	"github.com/onceledger/onceledger/pkg/envelope"
)

func keyed(id, body string) deliveryKey {
	return keyOf(&envelope.Event{Source: "s", ID: id, Data: []byte(body)})
}

func TestCoalescer(t *testing.T) {
	t.Parallel()
	ok := func() error { return nil }
	never := func() error { panic("stored again") }

	t.Run("only the same source, id and body are identical", func(t *testing.T) {
		t.Parallel()
		keys := map[deliveryKey]bool{keyed("a", "b"): true, keyed("a", "c"): true, keyed("ab", ""): true, keyed("", "ab"): true}
		keys[keyOf(&envelope.Event{Source: "sa", ID: "", Data: []byte("b")})] = true
		keys[keyOf(&envelope.Event{Source: "s2", ID: "a", Data: []byte("b")})] = true
		require.Len(t, keys, 6)
		require.Equal(t, keyed("a", "b"), keyed("a", "b"))
	})
	t.Run("a stored one answers for ten minutes", func(t *testing.T) {
		t.Parallel()
		now := time.Unix(0, 0)
		c := newCoalescer(func() time.Time { return now }, func() epoch { return epoch{} })
		joined, err := c.do(t.Context(), keyed("a", ""), ok)
		require.NoError(t, err)
		require.False(t, joined)
		now = now.Add(coalesceAge)
		joined, err = c.do(t.Context(), keyed("a", ""), never)
		require.NoError(t, err)
		require.True(t, joined)
		now = now.Add(time.Nanosecond)
		joined, err = c.do(t.Context(), keyed("a", ""), ok)
		require.NoError(t, err)
		require.False(t, joined)
	})
	t.Run("in another epoch nothing is believed", func(t *testing.T) {
		t.Parallel()
		current := epoch{}
		c := newCoalescer(time.Now, func() epoch { return current })
		for _, next := range []epoch{{1, 0, true}, {1, 1, true}, {2, 1, true}, {2, 1, false}} {
			current = next
			joined, err := c.do(t.Context(), keyed("a", ""), ok)
			require.NoError(t, err)
			require.False(t, joined)
		}
	})
	t.Run("the number of entries is bounded, oldest first", func(t *testing.T) {
		t.Parallel()
		c := newCoalescer(time.Now, func() epoch { return epoch{} })
		for i := range coalesceEntries + 1 {
			_, err := c.do(t.Context(), keyed(fmt.Sprint(i), ""), ok)
			require.NoError(t, err)
		}
		require.Len(t, c.entries, coalesceEntries)
		require.Equal(t, coalesceEntries, c.order.Len())
		joined, _ := c.do(t.Context(), keyed("1", ""), never)
		require.True(t, joined)
		joined, _ = c.do(t.Context(), keyed("0", ""), ok)
		require.False(t, joined)
	})
	t.Run("who joined one that fails fails with it, and the next try is a new one", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := newCoalescer(time.Now, func() epoch { return epoch{} })
			failure, let := errors.New("failure"), make(chan struct{})
			var mu sync.Mutex
			var outcomes []error
			for range 10 {
				go func() {
					_, err := c.do(t.Context(), keyed("a", ""), func() error { <-let; return failure })
					mu.Lock()
					defer mu.Unlock()
					outcomes = append(outcomes, err)
				}()
			}
			synctest.Wait()
			close(let)
			synctest.Wait()
			require.Len(t, outcomes, 10)
			for _, err := range outcomes {
				require.ErrorIs(t, err, failure)
			}
			joined, err := c.do(t.Context(), keyed("a", ""), ok)
			require.NoError(t, err)
			require.False(t, joined)
		})
	})
	t.Run("one who joined may leave, and a panic of the first hangs nobody", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c := newCoalescer(time.Now, func() epoch { return epoch{} })
			let := make(chan struct{})
			go func() {
				defer func() { _ = recover() }()
				_, _ = c.do(t.Context(), keyed("a", ""), func() error { <-let; panic("first") })
			}()
			synctest.Wait()
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			joined, err := c.do(gone, keyed("a", ""), never)
			require.True(t, joined)
			require.ErrorIs(t, err, errAborted)

			done := make(chan error, 1)
			go func() { _, err := c.do(t.Context(), keyed("a", ""), never); done <- err }()
			synctest.Wait()
			close(let)
			require.ErrorIs(t, <-done, errAway)
		})
	})
}

// Cases 2 and 11: a storm of copies is acked, and one message.
func TestAStormOfCopiesIsOneMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var group errgroup.Group
	send := func(body string) {
		group.Go(func() error {
			if got := r.send(body); got != http.StatusOK {
				return fmt.Errorf("status %d", got)
			}
			return nil
		})
	}
	for i := range 70 {
		send(stripe("evt_A11"))
		if i < 50 {
			send(stripe(fmt.Sprintf("evt_new_%d", i)))
		}
	}
	require.NoError(t, group.Wait())
	require.Len(t, r.stored(), 51)
	require.InDelta(t, 69, testutil.ToFloat64(r.server.metrics.deliveries.WithLabelValues(r.name, "coalesced")), 0)

	t.Run("the same id with other bytes is another message", func(t *testing.T) {
		require.Equal(t, http.StatusOK, r.send(stripeAmount("evt_A11", 1)))
		require.Equal(t, 2, r.ids()["evt_A11"])
	})
	t.Run("what has no id of its own is never like another", func(t *testing.T) {
		require.Equal(t, http.StatusOK, r.send(`{"a":1}`))
		require.Equal(t, http.StatusOK, r.send(`{"a":1}`))
		require.Len(t, r.stored(), 54)
	})
	t.Run("a stream that was made again holds nothing of it", func(t *testing.T) {
		r.remove()
		r.create(1 << 30)
		require.Equal(t, http.StatusOK, r.send(stripe("evt_first")), "a sequence that goes back tells")
		require.Equal(t, http.StatusOK, r.send(stripe("evt_A11")))
		require.Equal(t, 1, r.ids()["evt_A11"])
	})
}

// The broker says so, before anybody looks: who resends meanwhile is not told that
// the event is stored.
func TestARemovedStreamIsForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.Equal(t, http.StatusOK, r.send(stripe("evt_1")))
	before := r.server.publisher.generation.Load()
	r.remove()
	require.Eventually(t, func() bool { return r.server.publisher.generation.Load() > before }, patience, time.Millisecond)
	require.Equal(t, http.StatusServiceUnavailable, r.send(stripe("evt_1")))
	r.create(1 << 30)
	require.Equal(t, http.StatusOK, r.send(stripe("evt_1")))
	require.Len(t, r.stored(), 1)
}

func TestAReconnectForgetsWhatWasStored(t *testing.T) {
	t.Parallel()
	broker := ownStack(t)
	r := newRigOn(t, broker.Addresses)
	require.Equal(t, http.StatusOK, r.send(stripe("evt_1")))
	require.Equal(t, http.StatusOK, r.send(stripe("evt_1")))
	require.Len(t, r.stored(), 1)

	r.remove() // as a broker does that comes back with another disk
	require.NoError(t, broker.NATS.Kill())
	require.NoError(t, broker.NATS.Start(t.Context()))
	streamtest.Reach(t, r.conn.JS) // it may not have noticed yet that the connection is lost
	r.create(1 << 30)
	require.Eventually(t, func() bool { return r.send(stripe("evt_1")) == http.StatusOK }, patience, 10*time.Millisecond)
	require.Len(t, r.stored(), 1)
}

// A leader's failure is everyone's, through HTTP.
func TestALeaderThatFailsTakesItsCopiesAlong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.remove() // no one answers the publish
	var group errgroup.Group
	for range 10 {
		group.Go(func() error {
			got := r.must(r.request(stripe("evt_1")))
			if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
				return fmt.Errorf("status %d", got.status)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	r.create(1 << 30)
	require.Equal(t, http.StatusOK, r.send(stripe("evt_1")))
	require.Len(t, r.stored(), 1)
}
