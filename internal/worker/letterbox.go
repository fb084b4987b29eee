package worker

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/onceledger/onceledger/internal/telemetry"
)

// letterDelay bounds how long an event is put off whose letter cannot be
// stored. Its row is failed already, so that nothing hangs on it but the letter.
const letterDelay = 10 * time.Second

// letterbox keeps a dead-letter stream that is away or full from holding up
// what needs no letter: while it is, one letter at a time is tried, further and
// further apart, and the others are put off without a try.
type letterbox struct {
	*telemetry.Outage
	now func() time.Time

	mu     sync.Mutex
	broken bool // the last letter could not be stored
	wait   *backoff.ExponentialBackOff
	next   time.Time // when the next letter may be tried, while broken
}

func newLetterbox(o *telemetry.Outage) *letterbox {
	return &letterbox{Outage: o, now: time.Now, wait: backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(probeFirst), backoff.WithMaxInterval(probeMost), backoff.WithMaxElapsedTime(0))}
}

// takes reports whether a letter may be tried now.
func (b *letterbox) takes() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.broken {
		return true
	}
	if b.now().Before(b.next) {
		return false
	}
	b.next = b.now().Add(parkTimeout) // unless its outcome comes first
	return true
}

// told notes what became of a letter.
func (b *letterbox) told(err error) {
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
