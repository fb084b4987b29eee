package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/pkg/dedupe"
)

// bench is a test's own corner of a Redis.
type bench struct {
	*dedupe.Claims
	redis  *redis.Client
	prefix string

	mu       sync.Mutex
	observed map[string]int
}

// claims opens claims at url under a prefix of the test's own; raw access is
// to the stack's Redis.
func claims(t testing.TB, url string) *bench {
	t.Helper()
	b := &bench{prefix: fmt.Sprintf("%s/%d/", t.Name(), time.Now().UnixNano()), observed: map[string]int{}}
	var err error
	b.Claims, err = dedupe.NewClaims(url, b.prefix, func(event string, n int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.observed[event] += n
		b.observed[event+" calls"]++
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	options, err := redis.ParseURL(stack.RedisURL)
	require.NoError(t, err)
	b.redis = redis.NewClient(options)
	t.Cleanup(func() { require.NoError(t, b.redis.Close()) })
	return b
}

func (b *bench) seen(event string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.observed[event]
}

// take claims ids of one source; it asks again where the machine was too slow
// for the time limit of a claim, which is Unknown and tested elsewhere.
func (b *bench) take(t testing.TB, token string, ids ...string) []dedupe.Claim {
	t.Helper()
	var got []dedupe.Claim
	require.Eventually(t, func() bool {
		before := b.seen("error calls") + b.seen("skipped calls")
		got = b.Take(t.Context(), token, keys(ids...))
		return b.seen("error calls")+b.seen("skipped calls") == before
	}, 20*time.Second, 100*time.Millisecond)
	return got
}

// value is what Redis holds for an id, and for how long; -1 is for ever.
func (b *bench) value(t testing.TB, id string) (string, time.Duration) {
	t.Helper()
	name := b.prefix + "stripe:" + id
	ttl, err := b.redis.PTTL(t.Context(), name).Result()
	require.NoError(t, err)
	value, err := b.redis.Get(t.Context(), name).Result()
	if errors.Is(err, redis.Nil) {
		return "", ttl
	}
	require.NoError(t, err)
	return value, ttl
}

func keys(ids ...string) []dedupe.Key {
	all := make([]dedupe.Key, len(ids))
	for i, id := range ids {
		all[i] = dedupe.Key{Source: "stripe", ID: id}
	}
	return all
}

func TestTake(t *testing.T) {
	t.Parallel()
	c := claims(t, stack.RedisURL)

	require.Equal(t, []dedupe.Claim{dedupe.Claimed, dedupe.Claimed}, c.take(t, "one", "a", "b"))
	value, ttl := c.value(t, "a")
	require.Equal(t, "one", value)
	require.Positive(t, ttl)
	require.LessOrEqual(t, ttl, dedupe.Lease)

	// The client may send a claim twice, and meets its own write.
	require.Equal(t, []dedupe.Claim{dedupe.Claimed, dedupe.Held, dedupe.Claimed}, append(
		c.take(t, "one", "a"), c.take(t, "two", "a", "c")...))
	// A key twice in one batch is one claim.
	require.Equal(t, []dedupe.Claim{dedupe.Claimed, dedupe.Claimed}, c.take(t, "three", "d", "d"))
	require.Empty(t, c.take(t, "four"))
}

func TestOneOfManyClaims(t *testing.T) {
	t.Parallel()
	c := claims(t, stack.RedisURL)
	got := make([]dedupe.Claim, 8)
	var group errgroup.Group
	for i := range got {
		group.Go(func() error { got[i] = c.Take(t.Context(), fmt.Sprint(i), keys("evt"))[0]; return nil })
	}
	require.NoError(t, group.Wait())
	count := map[dedupe.Claim]int{}
	for _, claim := range got {
		count[claim]++
	}
	require.LessOrEqual(t, count[dedupe.Claimed], 1)
	require.Zero(t, count[dedupe.Done])
}

func TestFinish(t *testing.T) {
	t.Parallel()
	c := claims(t, stack.RedisURL)
	c.take(t, "mine", "done", "free", "lost")
	require.NoError(t, c.redis.Set(t.Context(), c.prefix+"stripe:lost", "another's", time.Minute).Err()) // our lease ran out

	eventually(t, func() bool {
		c.Finish(t.Context(), "mine", keys("done"), keys("free", "lost", "never"))
		value, _ := c.value(t, "free")
		return value == ""
	})
	value, ttl := c.value(t, "done")
	require.Equal(t, "done", value)
	require.Greater(t, ttl, 14*time.Minute)
	require.LessOrEqual(t, ttl, 15*time.Minute)
	value, ttl = c.value(t, "lost")
	require.Equal(t, "another's", value)
	require.Greater(t, ttl, 50*time.Second)

	require.Equal(t, []dedupe.Claim{dedupe.Done, dedupe.Claimed, dedupe.Held}, c.take(t, "next", "done", "free", "lost"))

	// A mark that lied is deleted, and the key is as if it had never been there.
	eventually(t, func() bool {
		c.Forget(t.Context(), keys("done", "never"))
		value, _ := c.value(t, "done")
		return value == ""
	})
	require.Equal(t, []dedupe.Claim{dedupe.Claimed}, c.take(t, "next", "done"))
}

// Case 5: a lock that was left without an expiry.
func TestAClaimWithoutExpiryIsRepairedOnce(t *testing.T) {
	t.Parallel()
	c := claims(t, stack.RedisURL)
	require.NoError(t, c.redis.Set(t.Context(), c.prefix+"stripe:evt_A5", "dead", 0).Err())
	require.NoError(t, c.redis.Set(t.Context(), c.prefix+"stripe:healthy", "alive", time.Hour).Err())

	require.Equal(t, []dedupe.Claim{dedupe.Claimed, dedupe.Held, dedupe.Held}, c.take(t, "mine", "new", "evt_A5", "healthy"))
	eventually(t, func() bool {
		c.take(t, "mine", "evt_A5") // where the repair itself was too slow
		return c.seen("repaired") == 1
	})
	value, ttl := c.value(t, "evt_A5")
	require.Equal(t, "dead", value)
	require.Positive(t, ttl)
	require.LessOrEqual(t, ttl, dedupe.Lease)

	// It is not kept alive by those who ask, and other leases are not cut.
	c.take(t, "mine", "evt_A5", "healthy")
	require.Equal(t, 1, c.seen("repaired"))
	_, ttl = c.value(t, "healthy")
	require.Greater(t, ttl, 50*time.Minute)
}

func TestAKeyOfAnotherTypeStopsNobody(t *testing.T) {
	t.Parallel()
	c := claims(t, stack.RedisURL)
	require.NoError(t, c.redis.LPush(t.Context(), c.prefix+"stripe:list", "x").Err())
	eventually(t, func() bool {
		first, second := c.Take(t.Context(), "mine", keys("list", "a")), c.Take(t.Context(), "mine", keys("a"))
		require.Equal(t, dedupe.Unknown, first[0])
		return first[1] == dedupe.Claimed && second[0] == dedupe.Claimed
	})
}

// Case 56: ids that mean something to Redis or to our key.
func TestOddIDsAreClaimedApart(t *testing.T) {
	t.Parallel()
	c := claims(t, stack.RedisURL)
	odd := []string{
		"a/b", "a b", "a\r\nDEL x\r\n", "日本", "\u00e9", "e\u0301", "*", "{a}", "{b}", "", " ", ":", "a:b",
		strings.Repeat("x", 512), strings.Repeat("x", 511), `"`, "done",
	}
	for _, claim := range c.take(t, "mine", odd...) {
		require.Equal(t, dedupe.Claimed, claim)
	}
	for i, claim := range c.take(t, "other", odd...) {
		require.Equal(t, dedupe.Held, claim, "%q", odd[i])
	}
}

func TestNoClaimsAnswerUnknown(t *testing.T) {
	t.Parallel()
	var none *dedupe.Claims
	require.Equal(t, []dedupe.Claim{dedupe.Unknown, dedupe.Unknown}, none.Take(t.Context(), "x", keys("a", "b")))
	none.Finish(t.Context(), "x", keys("a"), keys("b"))
	none.Forget(t.Context(), keys("a"))
	require.NoError(t, none.CheckVersion(t.Context()))
	require.NoError(t, none.Close())
}

func TestClaimWords(t *testing.T) {
	t.Parallel()
	require.Equal(t, "unknown claimed held done",
		fmt.Sprint(dedupe.Unknown, " ", dedupe.Claimed, " ", dedupe.Held, " ", dedupe.Done))
}

func TestABadURLHidesItsPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://u:hidden@h", "redis://u:hidden@h/x/y", "redis://u:hidden@h:%zz", "hidden"} {
		_, err := dedupe.NewClaims(url, "", nil)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "hidden")
	}
}

func eventually(t testing.TB, done func() bool) {
	t.Helper()
	require.Eventually(t, done, 20*time.Second, 100*time.Millisecond)
}

// quick requires that do ends in about the time a claim may take, and not in the
// three seconds that the client would wait; once, since a machine may stand still.
func quick(t testing.TB, do func(context.Context)) {
	t.Helper()
	for range 5 {
		began := time.Now()
		do(t.Context())
		if time.Since(began) < 2*time.Second {
			return
		}
	}
	require.Fail(t, "it waited for Redis each time")
}
