package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Outage turns many errors of one service into one log line when it is lost and
// one when it is back, and a gauge that is 1 in between. Who sees the gauge change
// finds the line.
type Outage struct {
	// Lost and Back are what the log says at its start and at its end.
	Lost, Back string
	Log        zerolog.Logger
	// Gauge is 1 while the outage lasts.
	Gauge prometheus.Gauge
	// Settle is how long a service must go on well before it counts as back, so
	// that one which comes and goes is one outage; 0: it is back at once.
	Settle time.Duration

	mu    sync.Mutex
	since time.Time // zero while there is none
	end   *time.Timer
}

// Down notes an error; the first one begins the outage.
func (o *Outage) Down(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end != nil {
		o.end.Stop()
		o.end = nil
	}
	if !o.since.IsZero() {
		return
	}
	o.since = time.Now()
	o.Log.Warn().Err(err).Msg(o.Lost)
	o.Gauge.Set(1)
}

// Up notes that the service did its part. It ends an outage once Settle has
// passed without another error.
func (o *Outage) Up() {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.since.IsZero() || o.end != nil:
	case o.Settle == 0:
		o.back()
	default:
		var end *time.Timer
		end = time.AfterFunc(o.Settle, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.end == end { // no error came while this waited for the lock
				o.end = nil
				o.back()
			}
		})
		o.end = end
	}
}

// back ends the outage; the caller holds mu.
func (o *Outage) back() {
	o.Log.Info().Dur(KeyDuration, time.Since(o.since)).Msg(o.Back)
	o.since = time.Time{}
	o.Gauge.Set(0)
}

// IsDown reports whether the outage lasts.
func (o *Outage) IsDown() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.since.IsZero()
}

// Close ends the waiting for an end that would come later.
func (o *Outage) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.end != nil {
		o.end.Stop()
		o.end = nil
	}
}
