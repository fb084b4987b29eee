package measure

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/bench/load"
	"github.com/onceledger/onceledger/bench/rig"
)

func TestCompareFindsWhatWasLostOrDoubled(t *testing.T) {
	t.Parallel()
	refused := map[int]int{503: 2}
	for name, test := range map[string]struct {
		got    load.Result
		stored rig.Stored
		ok     bool
	}{
		"all there":                   {load.Result{Accepted: 5}, rig.Stored{Messages: 5, Distinct: 5}, true},
		"one lost":                    {load.Result{Accepted: 5}, rig.Stored{Messages: 4, Distinct: 4}, false},
		"one too many":                {load.Result{Accepted: 5}, rig.Stored{Messages: 6, Distinct: 6}, false},
		"one doubled":                 {load.Result{Accepted: 5, Unanswered: 1}, rig.Stored{Messages: 6, Distinct: 5}, false},
		"one lost, another doubled":   {load.Result{Accepted: 5}, rig.Stored{Messages: 5, Distinct: 4}, false},
		"a refused one is not there":  {load.Result{Accepted: 5, Refused: refused}, rig.Stored{Messages: 5, Distinct: 5}, true},
		"an unanswered one is there":  {load.Result{Accepted: 5, Unanswered: 1}, rig.Stored{Messages: 6, Distinct: 6}, true},
		"more than were unanswered":   {load.Result{Accepted: 5, Unanswered: 1}, rig.Stored{Messages: 7, Distinct: 7}, false},
		"nothing accepted, none kept": {load.Result{Refused: refused}, rig.Stored{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := compare(&test.got, test.stored)
			if test.ok {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrMismatch)
			}
		})
	}
}

func TestRatioComparesMeansAndShowsTheRounds(t *testing.T) {
	t.Parallel()
	r := ratio("x", []float64{10, 30}, []float64{5, 5}, 4)
	require.Equal(t, Ratio{Name: "x", Value: 4, Lowest: 2, Highest: 6, Expected: 4}, r)
	require.Equal(t, "OK", r.Verdict())
	require.Equal(t, "BELOW", ratio("x", []float64{10}, []float64{5}, 4).Verdict())
	require.Empty(t, ratio("x", []float64{10}, []float64{0}, 0).Verdict())
}
