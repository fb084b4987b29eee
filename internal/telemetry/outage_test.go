package telemetry_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/telemetry"
)

// guarded is a log that one goroutine reads while another writes.
type guarded struct {
	mu sync.Mutex
	b  strings.Builder
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(p)
}

func (g *guarded) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.String()
}

func TestOutageIsOneLineAtItsStartAndOneAtItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log guarded
		o := &telemetry.Outage{Lost: "lost", Back: "back", Log: zerolog.New(&log), Gauge: prometheus.NewGauge(prometheus.GaugeOpts{})}
		lines := func() int { return strings.Count(log.String(), "\n") }
		o.Up()
		require.Zero(t, lines(), "there was none")
		for range 3 {
			o.Down(errors.New("cut"))
		}
		require.Equal(t, 1, lines())
		require.InDelta(t, 1, testutil.ToFloat64(o.Gauge), 0)
		time.Sleep(time.Minute) //nolint:forbidigo // the clock of a bubble
		synctest.Wait()
		o.Up()
		o.Up()
		require.Equal(t, 2, lines())
		require.Contains(t, log.String(), `"duration":60000`)
		require.False(t, o.IsDown())

		// One that comes and goes is one outage.
		o.Settle = 5 * time.Second
		for range 10 {
			o.Down(errors.New("cut"))
			o.Up()
			time.Sleep(4 * time.Second) //nolint:forbidigo // as above
			synctest.Wait()
		}
		require.Equal(t, 3, lines())
		time.Sleep(2 * time.Second) //nolint:forbidigo // as above
		synctest.Wait()
		require.Equal(t, 4, lines())
		require.InDelta(t, 0, testutil.ToFloat64(o.Gauge), 0)

		o.Down(errors.New("cut"))
		o.Up()
		o.Close()
		time.Sleep(time.Minute) //nolint:forbidigo // as above
		synctest.Wait()
		require.Equal(t, 5, lines(), "nobody is told after the end")
	})
}
