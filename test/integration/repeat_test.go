package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

func TestRepeatedEventIsPostedOnce(t *testing.T) {
	t.Parallel()
	s := newSystem(t, base)
	receiver, worker := s.receiver(), s.worker()
	want := newBook()

	s.step("again with a fresh signature it is a duplicate", func(t *testing.T) { // case 1
		first := charge("evt_A1", "cus_1", 1000)
		s.ack(receiver, first)
		s.eventually("it is posted", func() bool { return s.transfers() == 1 })
		s.ack(receiver, first)
		s.ack(receiver, first.again(1)) // unlike bytes, so that the worker sees it
		want.post("wallet:cus_1", "merchant", 1000)
		s.verify(want)
		require.Equal(t, 1, s.metric(receiver, "onceledger_receiver_deliveries_total", `outcome="coalesced"`))
		require.Equal(t, 1, s.metric(worker, "onceledger_worker_deliveries_total", `outcome="duplicate"`))
		require.Empty(t, s.letters())
	})
	s.step("after 31 days, with every cache empty, it is still known", func(t *testing.T) { // case 3
		event := charge("evt_A3", "cus_3", 300)
		s.ack(receiver, event)
		want.post("wallet:cus_3", "merchant", 300)
		s.verify(want)
		stored := len(s.stored())

		// What is left then is its row: no receiver, Redis or broker remembers.
		s.drain(receiver)
		s.redis(func(ctx context.Context, r *redis.Client) { require.NoError(t, r.FlushDB(ctx).Err()) })
		receiver = s.receiver()
		signed, err := s.cat.Sources["stripe"].Sign([]byte(event.body), "", time.Now())
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, s.request(receiver, event, signed.Header).status)
		require.Len(t, s.stored(), stored+1, "it was stored again, and not recognised before the worker")
		s.verify(want)
	})
	s.step("while nothing else happens its row stays as it was", func(t *testing.T) { // case 7
		event := charge("evt_A7", "cus_7", 70)
		s.ack(receiver, event)
		want.post("wallet:cus_7", "merchant", 70)
		s.verify(want)
		row := func() (text string) {
			require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT e::text FROM events e WHERE event_id = 'evt_A7'`).Scan(&text))
			return text
		}
		before := row()
		require.Contains(t, before, "completed,applied")
		s.ack(receiver, event.again(1))
		s.verify(want)
		require.Equal(t, before, row())
	})
	s.step("after a copy with a broken signature it is posted", func(t *testing.T) { // case 31
		stored := len(s.stored())
		event := charge("evt_C7", "cus_31", 31)
		signed, err := s.cat.Sources["stripe"].Sign([]byte(event.body+" "), "", time.Now())
		require.NoError(t, err)
		require.Equal(t, http.StatusUnauthorized, s.request(receiver, event, signed.Header).status)
		require.Len(t, s.stored(), stored, "nothing is kept of it")
		s.ack(receiver, event)
		want.post("wallet:cus_31", "merchant", 31)
		s.verify(want)
		require.Empty(t, s.letters())
	})
}

func TestCopiesAtTwoReceiversAreOnePosting(t *testing.T) { // case 2
	t.Parallel()
	const events, skew = 1000, 80 * time.Millisecond
	s := newSystem(t, base)
	receivers := []*program{s.receiver(), s.receiver()}
	s.worker()
	s.worker()
	want := newBook()
	var senders errgroup.Group
	senders.SetLimit(64)
	for i := range events {
		event := charge(fmt.Sprintf("evt_A2_%d", i), fmt.Sprintf("cus_%d", i%50), int64(i+1))
		want.post(fmt.Sprintf("wallet:cus_%d", i%50), "merchant", int64(i+1))
		senders.Go(func() error {
			var pair errgroup.Group
			for n, receiver := range receivers {
				late := time.Duration(n) * rand.N(skew)
				pair.Go(func() error {
					<-time.After(late)
					if r := s.send(receiver, event); r.status != http.StatusOK {
						return fmt.Errorf("status %d, %w", r.status, r.err)
					}
					return nil
				})
			}
			return pair.Wait()
		})
	}
	require.NoError(t, senders.Wait())
	s.verify(want)
	require.Len(t, s.stored(), 2*events, "each receiver stored its copy")
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0`))
	require.Empty(t, s.letters())
}

// TestStormOfCopiesStarvesNobody runs beside no other test of this package, since it
// looks at the clock.
func TestStormOfCopiesStarvesNobody(t *testing.T) { // case 11
	const copies, others, span = 70, 50, 3 * time.Second
	s := newSystem(t, base+"worker: {ack_wait: 1h}\n") // nobody may wait for its end
	receivers := []*program{s.receiver(), s.receiver()}
	s.worker()
	s.worker()
	want := newBook()
	want.post("wallet:cus_11", "merchant", 1100)
	deliveries := make([]delivery, 0, copies+others)
	for i := range copies {
		event := charge("evt_A11", "cus_11", 1100)
		if i%2 == 1 {
			event = event.again(i) // what a receiver does not recognise
		}
		deliveries = append(deliveries, event)
	}
	for i := range others {
		deliveries = append(deliveries, charge(fmt.Sprintf("evt_new_%d", i), "cus_new", 1))
		want.post("wallet:cus_new", "merchant", 1)
	}

	replies := make([]reply, len(deliveries))
	var storm errgroup.Group
	for i, d := range deliveries {
		at := rand.N(span)
		storm.Go(func() error {
			<-time.After(at)
			replies[i] = s.send(receivers[i/2%2], d)
			return nil
		})
	}
	require.NoError(t, storm.Wait())
	for _, r := range replies {
		require.NoError(t, r.err)
		require.Equal(t, http.StatusOK, r.status)
		require.Less(t, r.took, 10*time.Second, "before its sender gives up")
	}
	s.eventually("new payments are not starved", func() bool { return s.transfers() == 1+others })
	s.verify(want)
	require.Empty(t, s.letters())
}

func TestEveryEventThriceAtOnce(t *testing.T) {
	t.Parallel()
	const events = 2000
	s := newSystem(t, base)
	receivers := []*program{s.receiver(), s.receiver()}
	for range 4 {
		s.worker()
	}
	want := newBook()
	var deliveries []delivery
	for i := range events {
		from, to, amount := fmt.Sprintf("a:%d", i%37), fmt.Sprintf("b:%d", i%11), int64(1+i%997)
		event := payment(fmt.Sprintf("evt_%d", i), from, to, amount)
		want.post(from, to, amount)
		deliveries = append(deliveries, event, event, event.again(i))
	}
	// Copies meet: the three of an event are at most a few senders apart.
	var senders errgroup.Group
	senders.SetLimit(96)
	for i, d := range deliveries {
		senders.Go(func() error {
			if r := s.send(receivers[i%2], d); r.status != http.StatusOK {
				return fmt.Errorf("status %d, %w", r.status, r.err)
			}
			return nil
		})
	}
	require.NoError(t, senders.Wait())
	s.verify(want)
	require.Greater(t, len(s.stored()), events, "copies reached the workers")
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0`))
	require.Empty(t, s.letters())
}
