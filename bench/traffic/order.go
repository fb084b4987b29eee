package traffic

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Distinct returns the numbers 0 to n-1 in order.
func Distinct(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// Storm returns deliveries of the events 0 to n-1, each of which comes twice,
// the second time up to window deliveries after the first, as when a sender
// repeats what it got no answer for. It is the same for the same arguments.
func Storm(n, window int) []int {
	type delivery struct{ at, event int }
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same order in every arm
	deliveries := make([]delivery, 0, 2*n)
	for i := range n {
		deliveries = append(deliveries, delivery{2 * i, i}, delivery{2*i + 1 + random.IntN(window), i})
	}
	slices.SortStableFunc(deliveries, func(a, b delivery) int { return cmp.Compare(a.at, b.at) })
	numbers := make([]int, len(deliveries))
	for i, d := range deliveries {
		numbers[i] = d.event
	}
	return numbers
}

// Delivery returns the event that delivery i brings where each comes a second time,
// about twice deliveries after the first; 0: each comes once.
func Delivery(i, twice int) int {
	switch event := i / 2; {
	case twice == 0:
		return i
	case i%2 == 1 && event >= twice/2:
		return event - twice/2
	default: // in the beginning the second comes at once, and once more later
		return event
	}
}
