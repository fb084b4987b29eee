package program

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheHeapGrowsWithinItsBudget(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{
		0: 400, 1 << 20: 400, 19 << 20: 400, 24 << 20: 300, 32 << 20: 200, 40 << 20: 140, 48 << 20: 100, 96 << 20: 100, 1 << 40: 100,
	} {
		require.Equal(t, want, percent(live), "%d MiB", live>>20)
	}
}

func TestTheCollectorIsPacedAfterEachRun(t *testing.T) {
	t.Setenv("GOGC", "50")
	before := debug.SetGCPercent(50)
	defer debug.SetGCPercent(before)
	current := func() int {
		p := debug.SetGCPercent(50)
		debug.SetGCPercent(p)
		return p
	}
	paceCollector()
	require.Equal(t, 50, current(), "the environment has the last word")

	t.Setenv("GOGC", "")
	paceCollector()
	require.Equal(t, 400, current())
	ballast := make([]byte, 200<<20)
	require.Eventually(t, func() bool { runtime.GC(); return current() == 100 }, 10*time.Second, time.Millisecond)
	runtime.KeepAlive(ballast)
	require.Eventually(t, func() bool { runtime.GC(); return current() == 400 }, 10*time.Second, time.Millisecond)
}
