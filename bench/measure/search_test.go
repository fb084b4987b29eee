package measure

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSearchComesWithinAFactorOfTheLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []float64{1100, 3000, 7999} {
		tried := 0
		best, err := search(1000, 8000, 5, func(rate float64) (bool, error) {
			tried++
			require.Greater(t, rate, 1000.0)
			require.Less(t, rate, 8000.0)
			return rate <= limit, nil
		})
		require.NoError(t, err)
		require.Equal(t, 5, tried)
		require.LessOrEqual(t, best, limit)
		require.Greater(t, best, limit/1.07, "eight is 1.067 to the 32nd")
	}
}

func TestSearchSaysThatNothingHeld(t *testing.T) {
	t.Parallel()
	best, err := search(1000, 8000, 3, func(float64) (bool, error) { return false, nil })
	require.NoError(t, err)
	require.Zero(t, best)
}

func TestSearchEndsAtAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	_, err := search(1, 2, 9, func(float64) (bool, error) { return true, broken })
	require.ErrorIs(t, err, broken)
}
