package receiver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// disk is how long things take in a test.
type disk struct{ single, batch time.Duration }

func (d disk) take(n int, batched bool) time.Duration {
	if batched {
		return d.batch
	}
	return time.Duration(n) * d.single
}

// run commits n messages so many times and returns the time that all of it took, in
// parts of what the better way would have taken.
func (c *costs) run(d disk, n, times int) float64 {
	var took time.Duration
	for range times {
		batched := c.batches(n)
		t := d.take(n, batched)
		c.learn(n, batched, t)
		took += t
	}
	return took.Seconds() / (min(d.take(n, true), d.take(n, false)) * time.Duration(times)).Seconds()
}

var (
	fast = disk{single: 250 * time.Microsecond, batch: 3 * time.Millisecond}
	slow = disk{single: 5 * time.Millisecond, batch: 11 * time.Millisecond}
	// still is a disk that stands still.
	still = disk{single: 2 * time.Second, batch: 2 * time.Second}
)

func TestBatchesPayFromTwelveMessagesUntilMoreIsKnown(t *testing.T) {
	t.Parallel()
	c := newCosts()
	require.False(t, c.batches(1))
	require.False(t, c.batches(batchFrom-1))
	require.True(t, c.batches(batchFrom))
	require.True(t, c.batches(1000))
}

func TestTheCheaperWayIsFound(t *testing.T) {
	t.Parallel()
	for _, d := range []disk{fast, slow} {
		for _, n := range []int{2, 3, 4, 11, 12, 24, batchSure} {
			c := newCosts()
			c.run(d, n, 2_000)
			require.Less(t, c.run(d, n, 20_000), 1.05, "%d messages on %+v", n, d)
		}
	}
}

// Whatever it learnt in a bad hour, it comes back.
func TestCostsAreLearntAnew(t *testing.T) {
	t.Parallel()
	for _, before := range []disk{fast, slow, still, {single: time.Second, batch: time.Millisecond}, {single: time.Microsecond, batch: time.Second}} {
		for _, now := range []disk{fast, slow} {
			for _, n := range []int{2, 8, 32} {
				c := newCosts()
				c.run(before, n, 20_000)
				c.run(now, n, 20_000)
				require.Less(t, c.run(now, n, 20_000), 1.05, "%d messages, from %+v to %+v", n, before, now)
			}
		}
	}
}

// A stall of two seconds changes nothing by itself.
func TestOneStallIsNotBelieved(t *testing.T) {
	t.Parallel()
	c := newCosts()
	c.run(fast, 4, 1_000)
	c.learn(4, false, 2*time.Second)
	require.False(t, c.batches(4))
	c.run(fast, 40, 1_000)
	c.learn(40, true, 2*time.Second)
	require.True(t, c.batches(40))
}

func TestLargeAndSingleCommitsTeachNothing(t *testing.T) {
	t.Parallel()
	c := newCosts()
	c.learn(1, false, time.Second)
	c.learn(batchSure+1, true, time.Second)
	require.Equal(t, newCosts(), c)
}

// Commits follow what is known, and add to it.
func TestCommitsLearn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.server.publisher
	commits := r.watch(func(what any) bool { c, ok := what.(committed); return ok && c.size == 4 && c.err == nil })

	before := p.costs
	p.commit(r.items(4))
	require.False(t, (<-commits).(committed).batched)
	require.NotEqual(t, before.single, p.costs.single)
	require.InDelta(t, before.batch, p.costs.batch, 0)

	p.costs.batch = p.costs.single // on another disk
	before = p.costs
	p.commit(r.items(4))
	require.True(t, (<-commits).(committed).batched)
	require.NotEqual(t, before.batch, p.costs.batch)
	require.InDelta(t, before.single, p.costs.single, 0)
}
