package report_test

import (
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/bench/measure"
	"github.com/onceledger/onceledger/bench/report"
)

// samplePath is what a run of the other parts may have found.
func samplePath() *measure.Result {
	result := sample()
	for _, rate := range []float64{500, 2000, 5000, 8000} {
		c := measure.OpenCell{Name: map[float64]string{500: "500/s", 2000: "2000/s", 5000: "5000/s", 8000: "8000/s"}[rate], Offered: rate, Senders: 1000}
		for nines := 0.125; nines < math.Log10(rate*15); nines += 0.125 {
			c.Quantiles = append(c.Quantiles, measure.Quantile{Percentile: 100 * (1 - math.Pow(10, -nines)), MS: (2 + rate/1500) * (1 + nines*nines/3)})
		}
		result.Open = append(result.Open, c)
	}
	loop := measure.OpenCell{
		Name: "closed loop, 1000 senders", Senders: 1000, AcksPerSecond: 12345, P50: 75.04, P99: 120.06, P999: 130.16, EventsPerSecond: 11900, Lag: 0.256,
		Accepted: 190_000, Events: 180_000, Failed: 3, WAL: 1012.4, Postgres: 2500, NATS: 2800, Syncs: 0.0021, Flushes: 0.041, ReceiverPeak: 61, WorkerPeak: 72.4,
		Cost: measure.PerEvent{Of: map[string]float64{"receiver": 40, "worker": 30, "load": 12}},
	}
	storm := measure.OpenCell{Name: measure.ClosedStorm, Senders: 1000, Resends: 0.5, EventsPerSecond: 8000}
	alone := measure.OpenCell{Name: measure.HighestAlone, Alone: true, Offered: 20000, AcksPerSecond: 19900, WAL: 77}
	for i := range 16 {
		loop.Acks = append(loop.Acks, 12000+i%3*400)
		for part := range 4 {
			second := float64(i) + float64(part)/4
			loop.Moments = append(loop.Moments, measure.Moment{Second: second - 0.5, Done: int(11800 * second), Worker: 70})
		}
	}
	result.Open = append(result.Open, loop, storm, alone)
	for _, n := range []int{1, 8} {
		c := measure.BacklogCell{Workers: n, Backlog: 500_000, IDs: measure.Ordered, EventsPerSecond: 20000, Seconds: 25, WAL: 950, Peak: 81}
		for second := range 25 {
			c.Moments = append(c.Moments, measure.Moment{Second: float64(second), Done: 20000*second - second%4*700, Worker: 60 + 20*math.Sin(float64(second)/3)})
		}
		result.Backlogs = append(result.Backlogs, c)
	}
	for i, rows := range []int{0, 1_000_000, 10_000_000} {
		for j, ids := range []string{measure.Ordered, measure.Random} {
			result.Growth = append(result.Growth, measure.BacklogCell{
				Workers: 1, Rows: rows, IDs: ids, EventsPerSecond: 20000 - float64(3000*i*(j+1)), Measured: 250_000, WAL: 950 + float64(900*i*(j+1)), Postgres: 1800,
			})
		}
	}
	result.Idle = []measure.IdleCell{{Name: "worker", CPU: 1.26, Memory: 44.4}, {Name: "redis", CPU: 0.2}}
	return result
}

func TestMarkdownHoldsTheFiguresOfTheWholePath(t *testing.T) {
	t.Parallel()
	text := report.Markdown(samplePath())
	require.Contains(t, text, "| closed loop, 1000 senders |  | 12,345 | 75.0 | 120.1 | 130.2 | 3 | 11,900 | 0.26 | 0.0 |\n")
	require.Contains(t, text, "| closed loop, 1000 senders | 190,000 | 180,000 | receiver 40, worker 30, load 12 | 1,012 | 2,500 | 2,800 | 0.002 | 0.041 | 61 | 72 |\n")
	require.Contains(t, text, "| highest rate, no worker | 20,000 | 19,900 | 0.0 | 0.0 | 0.0 | 0 |  |  | 0.0 |\n")
	require.Contains(t, text, "| highest rate, no worker | 0 | 0 |  |  |  | 0 |  |  |  |  |\n")
	require.Contains(t, text, "| 8 | 500,000 | 20,000 | 25.0 | 950 |  | 81 |  | 0.0 |\n")
	require.Contains(t, text, "| 10,000,000 | random | 1 | 8,000 | 0.40× | 250,000 | 4,550 | 1,800 |  | 0.0 |\n")
	require.Contains(t, text, "| worker | 1.3 | 44 |\n")
	require.Contains(t, text, "| redis | 0.2 |  |\n")
}

func TestPlotDrawsWhatThereIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if kept := os.Getenv("ONCELEDGER_BENCH_PLOTS"); kept != "" {
		dir = kept // to look at them
	}
	require.NoError(t, report.Plot(dir, samplePath()))
	for name, width := range map[string]int{"latency": 1037, "timeline": 1037, "backlog": 1498, "growth": 1498} {
		path := filepath.Join(dir, name+".png")
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(100<<10), name)
		in, err := os.Open(path)
		require.NoError(t, err)
		picture, err := png.Decode(in)
		require.NoError(t, err)
		require.NoError(t, in.Close())
		require.Equal(t, width, picture.Bounds().Dx())
		r, g, b, _ := picture.At(0, 0).RGBA()
		require.Equal(t, []uint32{0xffff, 0xffff, 0xffff}, []uint32{r, g, b}, "the background is white")
		inked := 0
		for x := range picture.Bounds().Dx() {
			for y := range picture.Bounds().Dy() {
				if r, g, b, _ := picture.At(x, y).RGBA(); r>>8 == 0x2f && g>>8 == 0x6d && b>>8 == 0xb5 {
					inked++
				}
			}
		}
		require.Greater(t, inked, 500, "%s has no curve", name)
	}
}

func TestPlotLeavesOutWhatWasNotMeasured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, report.Plot(dir, sample()))
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, found)
}
