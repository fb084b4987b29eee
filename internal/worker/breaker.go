package worker

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/onceledger/onceledger/internal/telemetry"
)

// breaker keeps a service that is away from holding up what does without it:
// while it is, one try at a time is made, further and further apart, and the
// others are put off without one. The dead-letter stream has one, and so has each
// API that is asked.
type breaker struct {
	*telemetry.Outage
	now  func() time.Time
	hold time.Duration // how long a try may take

	mu     sync.Mutex
	broken bool // the last try failed
	wait   *backoff.ExponentialBackOff
	next   time.Time // when the next one may be made, while broken
}

// newBreaker returns one whose tries take at most hold, and which waits between
// first and most from one to the next.
func newBreaker(o *telemetry.Outage, hold, first, most time.Duration) *breaker {
	return &breaker{Outage: o, now: time.Now, hold: hold, wait: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first), backoff.WithMaxInterval(most), backoff.WithMaxElapsedTime(0))}
}

// takes reports whether a try may be made now.
func (b *breaker) takes() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.broken {
		return true
	}
	if b.now().Before(b.next) {
		return false
	}
	b.next = b.now().Add(b.hold) // unless its outcome comes first
	return true
}

// told notes what became of a try.
func (b *breaker) told(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = err != nil
	if err == nil {
		b.wait.Reset()
		b.Up()
		return
	}
	b.next = b.now().Add(b.wait.NextBackOff())
	b.Down(err)
}
