package stream

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/telemetry"
)

// outage turns the connection's many callbacks into one line when it is lost
// and one when it is back.
type outage struct {
	log zerolog.Logger

	mu    sync.Mutex
	since time.Time // zero while connected
	last  string    // the last asynchronous error, logged when it changes
}

// began is called for the loss and for each try that failed since; err is nil
// where this program closed the connection itself.
func (o *outage) began(nc *nats.Conn, err error) {
	if err == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.since.IsZero() {
		return
	}
	o.since = time.Now()
	o.log.Warn().Err(err).Msg("nats is away, trying to reconnect")
}

func (o *outage) ended(nc *nats.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = ""
	if o.since.IsZero() {
		return
	}
	o.log.Info().Dur(telemetry.KeyDuration, time.Since(o.since)).
		Str(telemetry.KeyServer, nc.ConnectedServerName()).Msg("nats is back")
	o.since = time.Time{}
}

// report logs what the server says outside of any request, for example a
// missing permission, once until it changes.
func (o *outage) report(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil || err.Error() == o.last {
		return
	}
	o.last = err.Error()
	o.log.Error().Err(err).Msg("nats reported an error")
}
