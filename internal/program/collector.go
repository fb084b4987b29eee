package program

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A program that lives on a few MiB and makes a hundred a second would collect its
// garbage several times a second: a sixth of a worker's CPU profile. As long as its heap stays
// within heapBudget it is collected less often: at maxPercent, but never more often
// than Go would of its own accord, at minPercent.
const (
	heapBudget = 96 << 20
	minPercent = 100
	maxPercent = 400
)

// paceCollector sets how often the collector runs, now and after each of its runs.
// GOGC and GOMEMLIMIT in the environment have the last word.
func paceCollector() {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return
		}
	}
	debug.SetGCPercent(maxPercent)
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	type cycle struct{ _ [16]byte } // nothing but something to collect
	var adjust func(*cycle)
	adjust = func(c *cycle) {
		metrics.Read(sample)
		debug.SetGCPercent(percent(sample[0].Value.Uint64()))
		runtime.SetFinalizer(c, adjust) // once more, after the next run
	}
	runtime.SetFinalizer(new(cycle), adjust)
}

// percent is by how much the heap may grow beyond what is alive.
func percent(live uint64) int {
	grown := 100 * heapBudget / max(live, 1) // the budget in percent of what is alive
	return int(min(max(grown, 100+minPercent), 100+maxPercent)) - 100
}
