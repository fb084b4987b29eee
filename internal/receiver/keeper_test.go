package receiver

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/telemetry"
)

// A server that lost its peers shows its streams for long, and stores nothing.
func TestStreamThatIsShownIsNotBack(t *testing.T) {
	r := newRig(t)
	outage := func() *telemetry.Outage {
		return &telemetry.Outage{Log: zerolog.Nop(), Gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "away"})}
	}
	k := &keeper{publisher: r.server.publisher, away: outage(), full: outage()}

	k.observe(committed{err: errDeadline})
	k.tell(nil)
	require.True(t, k.away.IsDown(), "seeing is not storing")
	k.observe(committed{})
	k.tell(nil)
	require.False(t, k.away.IsDown())

	k.tell(errors.New("no leader"))
	require.True(t, k.away.IsDown())
	k.tell(nil)
	require.False(t, k.away.IsDown(), "nothing says that it does not store")
}
