package receiver

import (
	"math"
	"time"
)

const (
	// batchFrom is where a batch begins to pay before anything is measured: it takes
	// 3 ms whatever its size, a message on its own 0.25 ms (BenchmarkCommit).
	batchFrom  = 12
	firstBatch = 3 * time.Millisecond
	// batchSure is the size from which on a batch pays on every disk, and up to
	// which its time does not depend much on its size.
	batchSure = 64
	// exploreAfter is how many commits pass before the dearer way is tried, times
	// how much dearer it is, at most mostDearer: what knowing costs is a few percent.
	exploreAfter, mostDearer = 64, 16
	// costWeight is the weight of one sample among many, and costStep how far it may
	// be from what was known: a stall says little about what comes next.
	costWeight, costStep = 0.25, 4
)

// costs learns how long it takes to store messages, so that the choice between
// single publishes and an atomic batch follows the disk and the load: where a sync
// takes 5 ms a batch pays from three messages on. Only the committer uses it.
type costs struct {
	single, batch float64 // seconds: a message among others that go singly, a small batch
	since         float64 // commits since the dearer way was tried
}

func newCosts() costs {
	return costs{single: firstBatch.Seconds() / batchFrom, batch: firstBatch.Seconds()}
}

// batches reports whether n messages are to be stored as a batch: the cheaper way as
// far as is known, and now and then the other one, to know.
func (c *costs) batches(n int) bool {
	if n == 1 || n > batchSure {
		return n > 1
	}
	c.since++
	if c.since > exploreAfter*min(c.dearer(n), mostDearer) {
		c.since = 0
		return !c.pays(n)
	}
	return c.pays(n)
}

// learn takes the time of a commit into account. What is seldom tried is believed at
// once.
func (c *costs) learn(n int, batched bool, took time.Duration) {
	if n == 1 || n > batchSure {
		return
	}
	weight := 1.0
	if batched == c.pays(n) {
		weight = costWeight
	}
	known, sample := &c.batch, took.Seconds()
	if !batched {
		known, sample = &c.single, sample/float64(n)
	}
	step := min(max(sample / *known, 1.0/costStep), costStep)
	*known *= math.Pow(step, weight)
}

// pays reports whether a batch is the cheaper way as far as is known.
func (c *costs) pays(n int) bool {
	const rounding = 1e-9
	return float64(n)*c.single >= c.batch*(1-rounding)
}

// dearer is the price of the dearer way in those of the cheaper one.
func (c *costs) dearer(n int) float64 {
	ratio := float64(n) * c.single / c.batch
	return max(ratio, 1/ratio)
}
