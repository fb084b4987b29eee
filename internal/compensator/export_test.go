package compensator

import "time"

// What the tests look at.
const (
	Budget      = budget
	CanaryLimit = canaryLimit
	FirstWait   = firstWait
	MostWait    = mostWait
)

// Pause is the wait after so many canaries that failed in a row.
func Pause(first time.Duration, failed int) time.Duration { return pause(first, failed) }
