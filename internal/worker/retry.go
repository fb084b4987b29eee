package worker

import (
	"math/rand/v2"
	"time"

	"github.com/onceledger/onceledger/internal/config"
)

const (
	// minDelay keeps a redelivery from spinning.
	minDelay = 50 * time.Millisecond
	// heldDelay bounds how long a delivery is put off, once, while somebody
	// else holds its claim. It is far below the claim's lease.
	heldDelay = time.Second
	// outageDelay bounds how long deliveries are put off that an outage
	// interrupted.
	outageDelay = 2 * time.Second
)

// delay is how long an event waits after its attempts-th failed attempt: full
// jitter, uniform in [0, min(Cap, Base·2ⁿ)] with n counting from 0, at least
// 50 ms. It depends on nothing but the stored attempt and chance.
func delay(budget config.Retry, attempts int, random func(time.Duration) time.Duration) time.Duration {
	ceiling := budget.Cap
	if shift := attempts - 1; shift >= 0 && shift < 40 {
		if grown := budget.Base << shift; grown > 0 && grown>>shift == budget.Base {
			ceiling = min(ceiling, grown)
		}
	}
	return max(minDelay, random(ceiling))
}

// jitter is uniform in [0, ceiling].
func jitter(ceiling time.Duration) time.Duration {
	if ceiling <= 0 {
		return 0
	}
	return rand.N(ceiling + 1) //nolint:gosec // spreads load, keeps no secret
}

// spent reports whether an event that has failed attempts times, first
// failingFor ago, is to be parked.
func spent(budget config.Retry, attempts int, failingFor time.Duration) bool {
	return attempts >= budget.Attempts || failingFor > budget.Age
}
