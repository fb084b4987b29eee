package integration

import (
	"context"
	"fmt"
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
	want := newBook()
	id, n := "", 0
	s.eventually("it is reported", func() bool {
		n++ // where Redis did not answer in time, nobody has met the claim: another one
		id = fmt.Sprint("evt_A5_", n)
		s.redis(func(ctx context.Context, r *redis.Client) {
			require.NoError(t, r.Set(ctx, claim("stripe", id), "somebody who died", 0).Err())
		})
		s.ack(receiver, charge(id, "cus_5", 700))
		want.post("wallet:cus_5", "merchant", 700)
		s.settled()
		return s.metric(worker, "onceledger_worker_redis_events_total", `event="repaired"`) == 1
	})
	s.verify(want)
	s.redis(func(ctx context.Context, r *redis.Client) {
		const forEver = -1
		left, err := r.TTL(ctx, claim("stripe", id)).Result()
		require.NoError(t, err)
		require.NotEqual(t, time.Duration(forEver), left, "whatever is there now will go away")
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
	claimed := 0
	s.eventually("they go on without Redis", func() bool { // one of its last answers may be counted late
		unknown := claims("unknown")
		claimed = claims("claimed")
		goesOn()
		return claims("claimed") == claimed && claims("unknown") > unknown
	})
	require.NoError(t, s.stack.Redis.Start(t.Context()))
	s.eventually("it is asked again", func() bool { return claims("claimed") > claimed })
	require.NoError(t, s.stack.Redis.Pause())
	goesOn()
	require.NoError(t, s.stack.Redis.Resume())
	goesOn()
	s.redis(func(ctx context.Context, r *redis.Client) { require.NoError(t, r.FlushAll(ctx).Err()) })
	goesOn()

	want, seen := newBook(), map[string]bool{}
	for _, a := range s.accepted(flood, receivers...) {
		if !seen[a.id] {
			a.postTo(want)
		}
		seen[a.id] = true
	}
	s.verify(want)
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0`))
	require.Empty(t, s.letters())
}
