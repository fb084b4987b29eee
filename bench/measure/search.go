package measure

import "math"

// search looks for the highest rate that holds between low and high, in a fixed
// number of tries, each in the middle of what is left by its logarithm: the error
// that remains is a factor. It returns 0 where nothing held.
func search(low, high float64, tries int, holds func(rate float64) (bool, error)) (best float64, err error) {
	for range tries {
		rate := math.Sqrt(low * high)
		ok, err := holds(rate)
		if err != nil {
			return 0, err
		}
		if ok {
			best, low = rate, rate
		} else {
			high = rate
		}
	}
	return best, nil
}
