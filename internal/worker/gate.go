package worker

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/telemetry"
)

const (
	// probeFirst and probeMost bound the wait between two probes of a service
	// that is away.
	probeFirst = 100 * time.Millisecond
	probeMost  = 2 * time.Second
	// probeTimeout bounds one probe.
	probeTimeout = 3 * time.Second
)

// outage turns many errors of one service into one log line when it is lost and
// one when it is back, and a gauge in between.
type outage struct {
	name  string
	log   zerolog.Logger
	gauge prometheus.Gauge

	mu    sync.Mutex
	since time.Time
}

func (o *outage) down(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.since.IsZero() {
		return
	}
	o.since = time.Now()
	o.gauge.Set(1)
	o.log.Warn().Err(err).Msg(o.name + " is unavailable, nothing is lost and no attempt is counted")
}

func (o *outage) up() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return
	}
	o.log.Info().Dur(telemetry.KeyDuration, time.Since(o.since)).Msg(o.name + " is back")
	o.since = time.Time{}
	o.gauge.Set(0)
}

// gate holds the loops back while Postgres is unavailable. When a probe finds
// it again, one loop goes first; the others follow once its batch is through.
type gate struct {
	*outage
	probe func(context.Context) error

	mu      sync.Mutex
	state   gateState
	changed chan struct{} // closed and replaced at every change of state
}

type gateState int

const (
	open gateState = iota
	closed
	halfOpen // one loop may try
	trial    // one loop tries
)

func newGate(o *outage, probe func(context.Context) error) *gate {
	return &gate{outage: o, probe: probe, changed: make(chan struct{})}
}

// wait returns when the caller may go on.
func (g *gate) wait(ctx context.Context) error {
	for {
		g.mu.Lock()
		state, changed := g.state, g.changed
		if state == halfOpen {
			g.turn(trial)
		}
		g.mu.Unlock()
		if state == open || state == halfOpen {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// turn changes the state; the caller holds mu.
func (g *gate) turn(to gateState) {
	g.state = to
	close(g.changed)
	g.changed = make(chan struct{})
}

// close holds the loops back: a batch met err.
func (g *gate) close(err error) {
	g.mu.Lock()
	if g.state != closed {
		g.turn(closed)
	}
	g.mu.Unlock()
	g.down(err)
}

// passed lets everybody go on: a batch is through.
func (g *gate) passed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == trial || g.state == halfOpen {
		g.turn(open)
	}
}

// run probes while the gate is closed, until ctx is done.
func (g *gate) run(ctx context.Context) error {
	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(probeFirst), backoff.WithMaxInterval(probeMost), backoff.WithMaxElapsedTime(0))
	for {
		g.mu.Lock()
		state, changed := g.state, g.changed
		g.mu.Unlock()
		var due <-chan time.Time
		switch state {
		case closed:
			due = time.After(wait.NextBackOff())
		case open:
			wait.Reset()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-due:
			g.try(ctx)
		}
	}
}

func (g *gate) try(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if g.probe(ctx) != nil {
		return
	}
	g.up()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == closed {
		g.turn(halfOpen)
	}
}
