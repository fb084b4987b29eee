package integration

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/devstack"
)

// claim is the name under which Redis holds the claim of an event.
func claim(source, id string) string { return "onceledger:" + source + ":" + id }

func TestClaimWithoutExpiryHoldsNothingUp(t *testing.T) { // case 5
	t.Parallel()
	s := newSystem(t, base)
	receiver, worker := s.receiver(), s.worker()
	s.redis(func(ctx context.Context, r *redis.Client) {
		require.NoError(t, r.Set(ctx, claim("stripe", "evt_A5"), "somebody who died", 0).Err())
	})
	s.ack(receiver, charge("evt_A5", "cus_5", 700))
	want := newBook()
	want.post("wallet:cus_5", "merchant", 700)
	s.verify(want)
	require.Equal(t, 1, s.metric(worker, "onceledger_worker_redis_events_total", `event="repaired"`), "it is reported")
	s.redis(func(ctx context.Context, r *redis.Client) {
		left, err := r.TTL(ctx, claim("stripe", "evt_A5")).Result()
		require.NoError(t, err)
		require.Positive(t, left, "whatever is there now will go away")
	})
}

func TestRedisAwayAndEmpty(t *testing.T) { // case 6
	t.Parallel()
	s := newSystem(t, base, devstack.Redis)
	receivers := []*program{s.receiver(), s.receiver()}
	s.worker()
	event := charge("evt_A6", "cus_6", 600)

	require.NoError(t, s.stack.Redis.Stop(t.Context()))
	s.ack(receivers[0], event, event.again(1))
	s.ack(receivers[1], event)
	s.eventually("it is applied without Redis", func() bool { return s.transfers() == 1 })
	require.NoError(t, s.stack.Redis.Start(t.Context()))
	s.ack(receivers[0], event.again(2))
	s.ack(receivers[1], event.again(3))

	want := newBook()
	want.post("wallet:cus_6", "merchant", 600)
	s.verify(want)
	require.Len(t, s.stored(), 5)
	require.Empty(t, s.letters())
}

func TestRedisStopsHangsAndForgetsInMidFlow(t *testing.T) {
	t.Parallel()
	s := newSystem(t, base, devstack.Redis)
	receivers := []*program{s.receiver(), s.receiver()}
	workers := []*program{s.worker(), s.worker()}

	// One event goes to both receivers and once more with other bytes, the next
	// is sent only once: no copy of it makes good what is lost.
	flood := s.flood(3*time.Millisecond, func(i int) delivery {
		switch n := i / 4 * 2; i % 4 {
		case 3:
			return numbered(n + 1)
		case 2:
			return numbered(n).again(i)
		default:
			return numbered(n)
		}
	}, receivers...)
	goesOn := func() {
		t.Helper()
		reached := s.transfers() + 100
		s.eventually("events are applied", func() bool { return s.transfers() >= reached })
	}
	claims := func(answer string) (n int) {
		for _, w := range workers {
			n += s.metric(w, "onceledger_worker_claims_total", `claim="`+answer+`"`)
		}
		return n
	}

	goesOn()
	require.NoError(t, s.stack.Redis.Stop(t.Context()))
	goesOn()
	claimed, unknown := claims("claimed"), claims("unknown")
	goesOn()
	require.Equal(t, claimed, claims("claimed"), "they go on without Redis")
	require.Greater(t, claims("unknown"), unknown)
	require.NoError(t, s.stack.Redis.Start(t.Context()))
	s.eventually("it is asked again", func() bool { return claims("claimed") > claimed })
	require.NoError(t, s.stack.Redis.Pause())
	goesOn()
	require.NoError(t, s.stack.Redis.Resume())
	goesOn()
	s.redis(func(ctx context.Context, r *redis.Client) { require.NoError(t, r.FlushAll(ctx).Err()) })
	goesOn()

	want, seen := newBook(), map[string]bool{}
	for i, a := range flood.end() {
		require.Equal(t, http.StatusOK, a.status, "%d: %v", i, a.err)
		if !seen[a.id] {
			a.postTo(want)
		}
		seen[a.id] = true
	}
	s.verify(want)
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0`))
	require.Empty(t, s.letters())
}
