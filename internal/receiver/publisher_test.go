package receiver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// Who is refused on a busy machine sends again; that one may be stored already.
func TestConcurrentSendersAreEachStoredOnce(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]Option{"with group commit": nil, "one message at a time": {WithoutGroupCommit()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const senders, each = 256, 4
			r := newRig(t, options...)
			batches := r.watch(func(what any) bool { c, ok := what.(committed); return ok && c.batched })
			var group errgroup.Group
			var refused sync.Map
			for i := range senders {
				group.Go(func() error {
					for j := range each {
						id := fmt.Sprintf("evt_%d_%d", i, j)
						for got := r.send(stripe(id)); got != http.StatusOK; got = r.send(stripe(id)) {
							if got != http.StatusServiceUnavailable {
								return fmt.Errorf("status %d", got)
							}
							refused.Store(id, true)
						}
					}
					return nil
				})
			}
			require.NoError(t, group.Wait())
			counts := r.ids()
			require.Len(t, counts, senders*each)
			for id, n := range counts {
				if _, again := refused.Load(id); !again {
					require.Equal(t, 1, n, id)
				}
			}
			if options == nil {
				require.NotEmpty(t, batches)
			} else {
				require.Empty(t, batches)
			}
		})
	}
}

// items makes pending messages as publish does, without a server.
func (r *rig) items(n int) []*pending {
	items := make([]*pending, n)
	for i := range items {
		event := &envelope.Event{Source: r.name, ID: fmt.Sprintf("evt_%d", i), Type: "charge.succeeded", Data: []byte(stripe("x"))}
		msg, err := event.Msg()
		require.NoError(r.t, err)
		items[i] = &pending{msg: msg, size: int64(msg.Size()), deadline: time.Now().Add(publishDeadline), done: make(chan struct{})}
	}
	return items
}

// One bad member fails a whole batch; whoever was with it must not notice.
func TestOfARejectedBatchOnlyTheCulpritFails(t *testing.T) {
	t.Parallel()
	culprits := map[string]func(*nats.Msg){
		"header the broker gives a meaning to": func(m *nats.Msg) { m.Header.Set(jetstream.ExpectedLastMsgIDHeader, "x") },
		"message expected in another stream":   func(m *nats.Msg) { m.Header.Set(jetstream.ExpectedStreamHeader, "OTHER") },
		"message larger than the stream takes": func(m *nats.Msg) { m.Data = make([]byte, 64<<10) },
	}
	for name, spoil := range culprits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, at := range []int{0, 10, 19} {
				r := newRig(t)
				cfg, _ := stream.Settings(config.NATS{EventsMaxBytes: 1 << 30})
				cfg.Name, cfg.Subjects, cfg.MaxMsgSize = r.streamName(), []string{"events." + r.name + ".>"}, 32<<10
				_, err := r.conn.JS.UpdateStream(t.Context(), cfg)
				require.NoError(t, err)

				items := r.items(20)
				spoil(items[at].msg)
				r.server.publisher.commit(items)
				for i, item := range items {
					<-item.done
					if i == at {
						require.True(t, blames(item.err), "%v", item.err)
						continue
					}
					require.NoError(t, item.err)
				}
				counts := r.ids()
				require.Len(t, counts, 19)
				require.NotContains(t, counts, fmt.Sprintf("evt_%d", at))
				require.InDelta(t, 1, testutil.ToFloat64(r.server.metrics.splits), 0)
			}
		})
	}
}

// The same through HTTP: what is wrong with a message is no one else's fault.
func TestARejectedMessageIsNotAcked(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *Server) {
		s.wrap = func(event *envelope.Event) (*nats.Msg, error) {
			msg, err := event.Msg()
			if event.ID == "evt_bad" {
				msg.Header.Set(jetstream.ExpectedLastMsgIDHeader, "x")
			}
			return msg, err
		}
	})
	require.Equal(t, http.StatusInternalServerError, r.send(stripe("evt_bad")))
	require.Equal(t, http.StatusOK, r.send(stripe("evt_good")))
	require.Len(t, r.stored(), 1)
}

func TestSequencesOfABatchAreThoseOfItsMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, n := range []int{3, 20} {
		items := r.items(n)
		r.server.publisher.commit(items)
		s, err := r.conn.JS.Stream(t.Context(), r.streamName())
		require.NoError(t, err)
		for _, item := range items {
			require.NoError(t, item.err)
			msg, err := s.GetMsg(t.Context(), item.seq)
			require.NoError(t, err)
			require.Equal(t, item.msg.Header.Get(envelope.HeaderID), msg.Header.Get(envelope.HeaderID))
		}
	}
}

// A mapping or an import may carry a subject into another stream: its PubAck is
// a PubAck, but nobody applies what is there.
func TestAPubAckOfAnotherStreamIsNone(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *Server) { s.publisher.stream = "ANOTHER" })
	got := r.must(r.request(stripe("evt_1")))
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	items := r.items(20)
	r.server.publisher.commit(items)
	require.ErrorIs(t, items[7].err, errAway)
}

// Case 10, the stream is full.
func TestAFullStreamAnswers503UntilThereIsRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(10_000)
	r.server.maxBody = 1000
	require.NoError(t, r.server.Ready(t.Context()))
	acked := 0
	for i := 0; ; i++ {
		require.Less(t, i, 100)
		got := r.must(r.request(stripe(fmt.Sprintf("evt_%d", i))))
		if got.status == http.StatusOK {
			acked++
			continue
		}
		require.Equal(t, http.StatusServiceUnavailable, got.status)
		require.Equal(t, retryAfter, got.header.Get("Retry-After"))
		require.Contains(t, got.body, "full")
		break
	}
	require.Len(t, r.stored(), acked)
	require.ErrorIs(t, r.server.Ready(t.Context()), errFull)

	items := r.items(100) // a batch has no room either
	r.server.publisher.commit(items)
	for _, item := range items {
		require.ErrorIs(t, item.err, errFull)
	}

	s, err := r.conn.JS.Stream(t.Context(), r.streamName())
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context()))
	require.Equal(t, http.StatusOK, r.send(stripe("evt_again")))
	require.NoError(t, r.server.Ready(t.Context()))
}

func TestAFullQueueAnswersBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.NoError(t, r.stop())
	// Nobody commits now.
	for name, fill := range map[string]func(*publisher){
		"messages": func(p *publisher) {
			for range queueMessages {
				p.queue <- &pending{}
			}
		},
		"bytes": func(p *publisher) { p.queued.Store(queueBytes) },
	} {
		p := newPublisher(r.conn, r.streamName(), func(any) {})
		fill(p)
		_, err := p.publish(r.items(1)[0].msg)
		require.ErrorIs(t, err, errBusy, name)
		p.link.close()
	}
}

func TestWhatWaitedPastItsDeadlineIsNotStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	items := r.items(20)
	for _, item := range items[:5] {
		item.deadline = time.Now().Add(-time.Millisecond)
	}
	r.server.publisher.commit(slices.Clone(items))
	for _, item := range items[:5] {
		require.ErrorIs(t, item.err, errDeadline)
	}
	require.Len(t, r.stored(), 15)
}

func TestABatchIsBoundedInMessagesAndBytes(t *testing.T) {
	t.Parallel()
	p := &publisher{queue: make(chan *pending, queueMessages)}
	for range queueMessages {
		p.queue <- &pending{size: 1}
	}
	require.Len(t, p.gather([]*pending{{size: 1}}), batchMessages)
	require.Len(t, p.gather([]*pending{{size: batchBytes - 3}}), 4)
	require.Len(t, p.gather([]*pending{{size: batchBytes}}), 1)
}

// ownStack starts a broker that only this test uses, to be killed.
func ownStack(t *testing.T) *devstack.Stack {
	t.Helper()
	s, err := devstack.Start(t.Context(), devstack.Options{Small: true, Only: []devstack.Kind{devstack.NATS}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.WithoutCancel(t.Context()))) })
	return s
}

// Case 10, the broker dies: only 503s, then it goes on, and nothing acked is lost.
func TestABrokerKilledInMidFlowLosesNothingAcked(t *testing.T) {
	t.Parallel()
	broker := ownStack(t)
	r := newRigOn(t, broker.Addresses)
	refused := r.watch(func(what any) bool {
		d, ok := what.(delivered)
		return ok && d.status == http.StatusServiceUnavailable
	})
	ups := r.watch(func(what any) bool { l, ok := what.(linked); return ok && l.up })

	acked := make([][]string, 64)
	var stop atomic.Bool
	var group errgroup.Group
	for i := range acked {
		group.Go(func() error {
			for j := 0; !stop.Load(); j++ {
				id := fmt.Sprintf("evt_%d_%d", i, j)
				got := r.must(r.request(stripe(id)))
				switch got.status {
				case http.StatusOK:
					acked[i] = append(acked[i], id)
				case http.StatusServiceUnavailable:
					if got.header.Get("Retry-After") == "" {
						return errors.New("503 without Retry-After")
					}
				default:
					return fmt.Errorf("status %d: %s", got.status, got.body)
				}
			}
			return nil
		})
	}
	stored := r.watch(func(what any) bool { c, ok := what.(committed); return ok && c.err == nil })
	for range 3 {
		for range 20 {
			<-stored
		}
		for len(refused) > 0 { // of the kill before
			<-refused
		}
		require.NoError(t, broker.NATS.Kill())
		<-refused
		require.ErrorIs(t, r.server.Ready(t.Context()), errAway)
		for len(ups) > 0 {
			<-ups
		}
		require.NoError(t, broker.NATS.Start(t.Context()))
		<-ups
		for len(stored) > 0 {
			<-stored
		}
	}
	<-stored
	stop.Store(true)
	require.NoError(t, group.Wait())
	require.NoError(t, r.server.Ready(t.Context()))

	counts, total := r.ids(), 0
	for _, ids := range acked {
		total += len(ids)
		for _, id := range ids {
			require.Positive(t, counts[id], "%s was acked and is lost", id)
		}
	}
	require.Positive(t, total)
}

// Case 10, the broker hangs: the sender hears of it before its own limit.
func TestABrokerThatHangsAnswers503InTime(t *testing.T) {
	t.Parallel()
	broker := ownStack(t)
	r := newRigOn(t, broker.Addresses)
	require.NoError(t, broker.NATS.Pause())
	began := time.Now()
	var group errgroup.Group
	for i := range 20 {
		group.Go(func() error {
			if got := r.must(r.request(stripe(fmt.Sprintf("evt_%d", i)))); got.status != http.StatusServiceUnavailable {
				return fmt.Errorf("status %d", got.status)
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	require.Less(t, time.Since(began), 10*time.Second)
	require.NoError(t, broker.NATS.Resume())

	// They may be in the stream now; the resend is acked all the same.
	require.Eventually(t, func() bool { return r.send(stripe("evt_0")) == http.StatusOK }, patience, 50*time.Millisecond)
	require.Contains(t, r.ids(), "evt_0")
}

// Who waits for a PubAck hears at once that it cannot come any more.
func TestALostConnectionFailsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 20} { // a single publish and a batch
		broker := ownStack(t)
		r := newRigOn(t, broker.Addresses)
		require.NoError(t, broker.NATS.Pause())
		items := r.items(n)
		for _, item := range items {
			require.NoError(t, r.server.publisher.enqueue(item))
		}
		require.Eventually(t, func() bool { return r.server.publisher.queued.Load() == 0 || n > 1 }, publishDeadline, time.Millisecond)
		require.NoError(t, broker.NATS.Kill())
		for _, item := range items {
			<-item.done
			require.ErrorIs(t, item.err, errAway, "and not errDeadline")
		}
		require.NoError(t, broker.NATS.Start(t.Context()))
	}
}
