package dedupe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Claim is what Redis says of a key. None of the answers is trusted: they only
// choose the faster way.
type Claim int

// The answers of Take.
const (
	// Unknown means that Redis did not answer in time: Postgres decides.
	Unknown Claim = iota
	// Claimed means that the key is ours for one lease.
	Claimed
	// Held means that somebody else is at it, or was when it died.
	Held
	// Done means that somebody says it is finished: look at its row.
	Done
)

const (
	// Lease is how long a claim keeps others away. It is a little longer than
	// Postgres lets a transaction idle, so that a paused worker is gone by then.
	Lease = 4 * time.Second
	// doneFor is how long a finished key is remembered: the length of a storm
	// of resends, not of a provider's retry schedule.
	doneFor = 15 * time.Minute
	// claimTimeout is how long a batch waits for Redis before it goes on without.
	claimTimeout = 100 * time.Millisecond
	// claimPause is how long Redis is left alone after it did not answer.
	claimPause = time.Second

	doneMark     = "done"
	minimumMajor = 7
)

// ErrRedisVersion is returned for a Redis before 7.0, where SET has no NX GET.
var ErrRedisVersion = errors.New("dedupe: Redis 7.0 or newer is needed")

// Claims takes and gives back claims. A nil *Claims answers Unknown, always.
type Claims struct {
	redis   *redis.Client
	prefix  string
	now     func() time.Time
	observe func(event string, n int)
	// watch is told of every outcome.
	watch func(error)
	// awayUntil is when Redis is asked again, in Unix nanoseconds.
	awayUntil atomic.Int64
}

// NewClaims uses the Redis at url; prefix keeps several systems apart. observe
// is told of "error" (Redis did not answer), "skipped" (it is left alone for a
// moment) and "repaired" (a claim without expiry), with the number of keys.
func NewClaims(url, prefix string, observe func(event string, n int)) (*Claims, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("parse Redis URL: not a redis:// or rediss:// URL")
	}
	options.ClientName = "onceledger"
	options.MaxRetries = -1
	options.DialTimeout = claimTimeout
	options.ReadTimeout = claimTimeout
	options.WriteTimeout = claimTimeout
	options.ContextTimeoutEnabled = true
	return &Claims{redis: redis.NewClient(options), prefix: prefix, now: time.Now, observe: observe, watch: func(error) {}}, nil
}

// Watch lets f see the outcome of each round trip: nil, or why Redis did not do
// its part. Call it before the first Take. f is called often and must not block.
func (c *Claims) Watch(f func(error)) { c.watch = f }

// Close gives the connections back.
func (c *Claims) Close() error {
	if c == nil {
		return nil
	}
	return c.redis.Close()
}

// CheckVersion returns ErrRedisVersion for a server that is too old. A server
// that does not answer is no error: claims are an accelerator.
func (c *Claims) CheckVersion(ctx context.Context) error {
	if c == nil {
		return nil
	}
	info, err := c.redis.InfoMap(ctx, "server").Result()
	if err != nil {
		c.failed(0, err)
		return nil
	}
	version := info["Server"]["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < minimumMajor {
		return fmt.Errorf("%w: %s is %s; upgrade it", ErrRedisVersion, c.redis.Options().Addr, version)
	}
	return nil
}

// Take claims keys under token, which must be new for each batch. It never
// fails: what Redis cannot answer is Unknown. A token that is found at a key is
// our own write that the client sent twice. Cost: one round trip.
func (c *Claims) Take(ctx context.Context, token string, keys []Key) []Claim {
	claims := make([]Claim, len(keys))
	if c == nil || c.away(len(keys)) {
		return claims
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	answers := make([]*redis.StatusCmd, len(keys))
	cmds, _ := c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, k := range keys {
			answers[i] = p.SetArgs(ctx, c.key(k), token, redis.SetArgs{Mode: "NX", Get: true, TTL: Lease})
		}
		return nil
	})
	c.told(len(keys), faultOf(cmds))
	var held []int
	for i, answer := range answers {
		value, err := answer.Result()
		switch {
		case errors.Is(err, redis.Nil), err == nil && value == token:
			claims[i] = Claimed
		case err != nil:
			claims[i] = Unknown
		case value == doneMark:
			claims[i] = Done
		default:
			claims[i] = Held
			held = append(held, i)
		}
	}
	c.repair(ctx, keys, held)
	return claims
}

// repair gives an expiry to held keys that have none: somebody's crash between
// two commands, or a hand. Such a key would keep its event waiting for ever.
func (c *Claims) repair(ctx context.Context, keys []Key, held []int) {
	if len(held) == 0 {
		return
	}
	expiries := make([]*redis.BoolCmd, len(held))
	_, err := c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, at := range held {
			expiries[i] = p.ExpireNX(ctx, c.key(keys[at]), Lease)
		}
		return nil
	})
	if err != nil {
		c.failed(0, err)
		return
	}
	repaired := 0
	for _, expiry := range expiries {
		if expiry.Val() {
			repaired++
		}
	}
	if repaired > 0 {
		c.observe("repaired", repaired)
	}
}

// release deletes a key if it still holds our token.
const release = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

// Finish marks done keys as finished and gives the released ones back, so that
// their next delivery need not wait for the lease. It is off the path: what it
// cannot tell Redis costs time later, never truth.
func (c *Claims) Finish(ctx context.Context, token string, done, released []Key) {
	if c == nil || len(done)+len(released) == 0 || c.away(len(done)+len(released)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	cmds, _ := c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range done {
			p.Set(ctx, c.key(k), doneMark, doneFor)
		}
		for _, k := range released {
			p.Eval(ctx, release, []string{c.key(k)}, token)
		}
		return nil
	})
	c.told(len(done)+len(released), faultOf(cmds))
}

// Forget deletes marks that turned out to be lies.
func (c *Claims) Forget(ctx context.Context, keys []Key) {
	if c == nil || len(keys) == 0 || c.away(len(keys)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = c.key(k)
	}
	c.told(len(keys), c.redis.Del(ctx, names...).Err())
}

func (c *Claims) key(k Key) string {
	return c.prefix + k.Source + ":" + k.ID
}

func (c *Claims) away(keys int) bool {
	if c.now().UnixNano() >= c.awayUntil.Load() {
		return false
	}
	c.observe("skipped", keys)
	return true
}

// faultOf returns what is wrong with Redis in the answers of a pipeline. The
// first error alone would not do: an absent key is one, too, and a Redis that
// runs full does so in the midst of a batch.
func faultOf(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return err
		}
	}
	return nil
}

// told notes the outcome of a round trip for a number of keys.
func (c *Claims) told(keys int, err error) {
	if err != nil {
		c.failed(keys, err)
		return
	}
	c.watch(nil)
}

func (c *Claims) failed(keys int, err error) {
	c.awayUntil.Store(c.now().Add(claimPause).UnixNano())
	c.observe("error", keys)
	c.watch(err)
}

// String is the word the metrics use.
func (c Claim) String() string {
	switch c {
	case Claimed:
		return "claimed"
	case Held:
		return "held"
	case Done:
		return "done"
	}
	return "unknown"
}
