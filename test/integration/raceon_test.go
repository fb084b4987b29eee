//go:build race

package integration

// raceEnabled builds the programs with the race detector as well.
const raceEnabled = true
