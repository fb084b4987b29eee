package des_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/bench/growth/des"
)

func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// queueing sends customers to one server, and returns how many were there on
// average and how long each stayed.
func queueing(between, service func() float64, until float64) (rho, inside, stay float64) {
	clock := &des.Clock{}
	machine := des.NewMachine(clock, 1)
	server := des.NewProgram(machine, 1)
	var n, done int
	var area, last, stayed float64
	change := func(by int) {
		area += float64(n) * (clock.Now() - last)
		last = clock.Now()
		n += by
	}
	var arrive func()
	arrive = func() {
		came := clock.Now()
		change(1)
		server.Do(service(), func() {
			change(-1)
			done++
			stayed += clock.Now() - came
		})
		clock.After(between(), arrive)
	}
	clock.At(0, arrive)
	clock.Run(until)
	return machine.Used() / until, area / until, stayed / float64(done)
}

func TestMM1(t *testing.T) {
	t.Parallel()
	r := seeded()
	const lambda, mu, until = 0.8, 1.0, 400_000
	rho, inside, stay := queueing(
		func() float64 { return r.ExpFloat64() / lambda },
		func() float64 { return r.ExpFloat64() / mu }, until)
	require.InEpsilon(t, lambda/mu, rho, 0.01)
	require.InEpsilon(t, 1/(mu-lambda), stay, 0.05)
	require.InEpsilon(t, lambda*stay, inside, 0.02) // Little's law
}

func TestDD1(t *testing.T) {
	t.Parallel()
	rho, inside, stay := queueing(func() float64 { return 1 }, func() float64 { return 0.25 }, 1000)
	require.InDelta(t, 0.25, rho, 1e-3)
	require.InDelta(t, 0.25, stay, 1e-9)
	require.InDelta(t, 0.25, inside, 1e-3)
}

// M/D/1: half of the waiting of M/M/1 (Pollaczek and Khinchine).
func TestMD1(t *testing.T) {
	t.Parallel()
	r := seeded()
	const lambda, service = 0.8, 1.0
	_, _, stay := queueing(func() float64 { return r.ExpFloat64() / lambda }, func() float64 { return service }, 400_000)
	require.InEpsilon(t, service+lambda*service*service/2/(1-lambda*service), stay, 0.05)
}

func TestEventsHappenInOrder(t *testing.T) {
	t.Parallel()
	r := seeded()
	clock := &des.Clock{}
	var last float64
	happened := 0
	for range 2000 {
		clock.At(float64(r.IntN(100)), func() {
			require.GreaterOrEqual(t, clock.Now(), last)
			last = clock.Now()
			happened++
			if happened%2 == 0 {
				clock.After(r.Float64(), func() { require.GreaterOrEqual(t, clock.Now(), last); last = clock.Now() })
			}
		})
	}
	var same []int
	for i := range 10 {
		clock.At(200, func() { same = append(same, i) })
	}
	clock.Run(math.Inf(1))
	require.Equal(t, 2000, happened)
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, same)
}

func TestCoresAreShared(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		cores   float64
		threads int
		want    float64
	}{{2, 1, 1}, {2, 2, 1}, {2, 4, 2}, {2, 3, 1.5}, {0.5, 1, 2}} {
		clock := &des.Clock{}
		machine := des.NewMachine(clock, row.cores)
		ended := 0
		for range row.threads {
			machine.Run(1, func() { ended++; require.InDelta(t, row.want, clock.Now(), 1e-9) })
		}
		clock.Run(math.Inf(1))
		require.Equal(t, row.threads, ended)
		require.InDelta(t, row.threads, machine.Used(), 1e-9)
	}
}

func TestAShortTaskOvertakesALongOne(t *testing.T) {
	t.Parallel()
	clock := &des.Clock{}
	machine := des.NewMachine(clock, 1)
	var long, short float64
	machine.Run(3, func() { long = clock.Now() })
	clock.At(1, func() { machine.Run(0.5, func() { short = clock.Now() }) })
	clock.Run(math.Inf(1))
	require.InDelta(t, 2, short, 1e-9) // half a core from 1 to 2
	require.InDelta(t, 3.5, long, 1e-9)
}

func TestAProgramHasNoMoreThanItsThreads(t *testing.T) {
	t.Parallel()
	clock := &des.Clock{}
	backend := des.NewProgram(des.NewMachine(clock, 8), 1)
	var ends []float64
	for range 3 {
		backend.Do(1, func() { ends = append(ends, clock.Now()) })
	}
	clock.Run(math.Inf(1))
	require.InDeltaSlice(t, []float64{1, 2, 3}, ends, 1e-9)
	require.InDelta(t, 3, backend.Used(), 1e-9)
}

// However many ask, a lock lets through one an interval.
func TestALockBoundsThroughput(t *testing.T) {
	t.Parallel()
	const hold, until = 0.01, 100.0
	for _, loops := range []int{1, 2, 16} {
		clock := &des.Clock{}
		lock := des.NewLock(clock)
		done := 0
		var loop func()
		loop = func() {
			clock.After(hold, func() { // as long again without the lock
				lock.Acquire(func() {
					clock.After(hold, func() {
						done++
						lock.Release()
						loop()
					})
				})
			})
		}
		for range loops {
			clock.At(0, loop)
		}
		clock.Run(until)
		want := 1 / hold
		if loops == 1 {
			want /= 2
		}
		require.InEpsilon(t, want, float64(done)/until, 0.01, "%d loops", loops)
		require.InEpsilon(t, min(1, float64(loops)/2), lock.Busy()/until, 0.01, "%d loops", loops)
	}
}

func TestRows(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ common, want float64 }{{0, 1}, {1, 50}} {
		clock := &des.Clock{}
		rows := des.NewRows(seeded().Float64)
		var last float64
		for range 50 {
			var claim *des.Claim
			claim = rows.Acquire(row.common, func() {
				clock.After(1, func() {
					last = clock.Now()
					rows.Release(claim)
				})
			})
		}
		clock.Run(math.Inf(1))
		require.InDelta(t, row.want, last, 1e-9)
	}
}

func TestALogSharesItsSyncs(t *testing.T) {
	t.Parallel()
	clock := &des.Clock{}
	syncs := 0
	disk := des.NewDisk(clock, func(bytes float64) float64 { syncs++; return 1 + bytes })
	log := des.NewLog(disk)
	var ends []float64
	for i := range 4 {
		clock.At(float64(i)*0.1, func() { log.Flush(0.5, func() { ends = append(ends, clock.Now()) }) })
	}
	clock.Run(math.Inf(1))
	require.Equal(t, 2, syncs)
	require.InDeltaSlice(t, []float64{1.5, 4, 4, 4}, ends, 1e-9) // the second holds 1.5 bytes
	require.InDelta(t, 4, disk.Busy(), 1e-9)
}
