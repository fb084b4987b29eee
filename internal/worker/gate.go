package worker

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/onceledger/onceledger/internal/telemetry"
)

const (
	// probeFirst and probeMost bound the wait between two probes of a service
	// that is away.
	probeFirst = 100 * time.Millisecond
	probeMost  = 2 * time.Second
	// probeTimeout bounds one probe.
	probeTimeout = 3 * time.Second
	// idleTrial is how long the gate waits for a batch to prove what a probe
	// has found; where none comes, the probe alone must do.
	idleTrial = time.Second
)

// gate holds the loops back while Postgres is unavailable. When a probe finds
// it again, one loop goes first; the others follow once its batch is through,
// and only then is the outage over.
//
//	open ──batch met an outage──▶ closed ──probe──▶ half open ──a loop──▶ trial
//	  ▲                              ▲                  │ nobody comes      │
//	  │                              └──────────────────│───────────────────┤ fails
//	  └─────────────────────────────────────────────────┴───────────────────┘ through
type gate struct {
	*telemetry.Outage
	probe func(context.Context) error
	most  time.Duration // between two probes

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

func newGate(o *telemetry.Outage, probe func(context.Context) error) *gate {
	return &gate{Outage: o, probe: probe, most: probeMost, changed: make(chan struct{})}
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

// isOpen reports whether batches go on as ever. Unlike wait it takes no turn.
func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state == open
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
	defer g.mu.Unlock()
	if g.state != closed {
		g.turn(closed)
	}
	g.Down(err)
}

// passed lets everybody go on: a batch is through.
func (g *gate) passed() { g.open(halfOpen, trial) }

// open opens the gate if it is in one of these states.
func (g *gate) open(from ...gateState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, state := range from {
		if g.state == state {
			g.turn(open)
			g.Up()
			return
		}
	}
}

// run probes while the gate is closed, until ctx is done.
func (g *gate) run(ctx context.Context) error {
	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(probeFirst), backoff.WithMaxInterval(g.most), backoff.WithMaxElapsedTime(0))
	for {
		g.mu.Lock()
		state, changed := g.state, g.changed
		g.mu.Unlock()
		var due, idle <-chan time.Time
		switch state {
		case closed:
			due = time.After(wait.NextBackOff())
		case halfOpen:
			idle = time.After(idleTrial)
		case open:
			wait.Reset()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-due:
			g.try(ctx)
		case <-idle:
			g.open(halfOpen)
		}
	}
}

func (g *gate) try(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if g.probe(ctx) != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == closed {
		g.turn(halfOpen)
	}
}
