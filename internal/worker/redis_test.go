package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func redisFaults() map[string]fault {
	does := func(commands ...[]any) func(*testing.T, *system) {
		return func(t *testing.T, s *system) {
			s.redis(func(r *redis.Client) {
				for _, command := range commands {
					require.NoError(t, r.Do(t.Context(), command...).Err())
				}
			})
		}
	}
	return map[string]fault{
		"stopped": {
			func(t *testing.T, _ *system) { require.NoError(t, stack.Redis.Stop(t.Context())) },
			func(t *testing.T, _ *system) { require.NoError(t, stack.Redis.Start(t.Context())) },
		},
		"hanging": {
			func(t *testing.T, _ *system) { require.NoError(t, stack.Redis.Pause()) },
			func(t *testing.T, _ *system) { require.NoError(t, stack.Redis.Resume()) },
		},
		"slow": {does([]any{"CLIENT", "PAUSE", "600000", "ALL"}), func(t *testing.T, s *system) {
			// Paused clients cannot end the pause: it takes a new start.
			require.NoError(t, stack.Redis.Kill())
			require.NoError(t, stack.Redis.Start(t.Context()))
		}},
		"out of memory": {
			does([]any{"CONFIG", "SET", "maxmemory-policy", "noeviction"}, []any{"CONFIG", "SET", "maxmemory", "1"}),
			does([]any{"CONFIG", "SET", "maxmemory", "256mb"}, []any{"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"}),
		},
		"a read-only replica": {
			does([]any{"REPLICAOF", "127.0.0.1", "1"}),
			does([]any{"REPLICAOF", "NO", "ONE"}),
		},
	}
}

func TestRedisOutages(t *testing.T) {
	for name, f := range redisFaults() {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, shop)
			var w *worker
			s.start(func(started *worker) { w = started; w.claiming.Settle = 100 * time.Millisecond })
			claimed := func() float64 { return testutil.ToFloat64(w.metrics.claims.WithLabelValues("claimed")) }
			n := 0
			asked := func() {
				before := claimed()
				s.eventually(func() bool { // one answer may come too late on a busy machine
					s.payments(n, 1)
					n++
					return claimed() > before
				}, "it is asked")
			}
			asked()
			s.settled()

			f.begin(t, s)
			s.payments(n, 50)
			n += 50
			s.publish(payment("evt_000000", "p_evt_000000", "bank", "wallet:1", 1)) // a repeat
			s.settled()
			require.Equal(t, n, s.transfers(), "they go on without it")
			require.True(t, away(w, "redis"))
			f.end(t, s)

			asked()
			s.eventually(func() bool { return !away(w, "redis") }, "its end shows")
			s.settled()
			require.Equal(t, n, s.transfers())
			s.free()
			s.eventually(func() bool { return s.logged("redis is back") == s.logged("redis is unavailable") }, "a line at each start, and one at each end")
			require.Less(t, s.logged("redis is unavailable"), n, "and none for each batch")
		})
	}
}

// Redis forgets everything, again and again, and claims that all is finished.
func TestRedisFlushedAndLyingInMidFlow(t *testing.T) {
	s := newSystem(t, shop)
	const n = 3000
	s.redis(func(r *redis.Client) {
		pipe := r.Pipeline()
		for i := range n {
			switch i % 4 {
			case 0:
				pipe.Set(t.Context(), fmt.Sprintf("%sshop:evt_%06d", claimPrefix, i), "done", 0)
			case 1:
				pipe.Set(t.Context(), fmt.Sprintf("%sshop:evt_%06d", claimPrefix, i), "somebody else", time.Minute)
			case 2:
				pipe.LPush(t.Context(), fmt.Sprintf("%sshop:evt_%06d", claimPrefix, i), "no string at all")
			}
		}
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err)
	})
	for range 2 {
		s.start()
	}
	for i := range 6 {
		s.payments(i*500, 500)
		s.payments(i*500, 500) // and everything twice
		if i%2 == 1 {
			s.redis(func(r *redis.Client) { require.NoError(t, r.FlushAll(t.Context()).Err()) })
		}
	}
	s.settled()
	require.Equal(t, n, s.transfers())
	require.EqualValues(t, n, s.balance("wallet:1"))
	s.free()
}
