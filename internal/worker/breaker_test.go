package worker

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/telemetry"
)

func TestABrokenServiceIsTriedOnceAtATime(t *testing.T) {
	b := newBreaker(&telemetry.Outage{Log: zerolog.Nop(), Gauge: prometheus.NewGauge(prometheus.GaugeOpts{})}, parkTimeout, probeFirst, probeMost)
	now := time.Now()
	b.now = func() time.Time { return now }
	for range 3 {
		require.True(t, b.takes())
	}
	b.told(errors.New("full"))
	require.False(t, b.takes(), "not at once")
	now = now.Add(probeMost)
	require.True(t, b.takes(), "one is tried")
	require.False(t, b.takes(), "and no other while that one is under way")
	now = now.Add(parkTimeout)
	require.True(t, b.takes(), "unless it never ends")
	b.told(nil)
	for range 3 {
		require.True(t, b.takes(), "all may go")
	}
}
