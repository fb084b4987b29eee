package report

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/onceledger/onceledger/bench/measure"
)

func TestBySecondMakesRatesOfWhatIsDone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		moments []measure.Moment
		want    plotter.XYs
	}{
		"between two moments": {
			[]measure.Moment{{Second: -0.5}, {Second: 0.5, Done: 100}, {Second: 1.5, Done: 300}, {Second: 2.5, Done: 300}},
			plotter.XYs{{X: 0.5, Y: 150}, {X: 1.5, Y: 100}},
		},
		"from the beginning": {
			[]measure.Moment{{Second: 0.5, Done: 50}, {Second: 1, Done: 90}, {Second: 1.9, Done: 500}},
			plotter.XYs{{X: 0.5, Y: 90}},
		},
		"too short": {[]measure.Moment{{Second: 0.9, Done: 50}}, nil},
		"nothing":   {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, bySecond(test.moments))
		})
	}
}

func TestAnAxisIsMarkedInEvenStepsUpToTheMost(t *testing.T) {
	t.Parallel()
	require.Equal(t, []plot.Tick{
		{Value: 0, Label: "0"}, {Value: 5000, Label: "5,000"}, {Value: 10000, Label: "10,000"}, {Value: 15000, Label: "15,000"},
		{Value: 20000, Label: "20,000"},
	}, even{22_900}.Ticks(0, 99_999))
	require.Equal(t, []plot.Tick{{Value: 0, Label: "0.0"}, {Value: 0.5, Label: "0.5"}, {Value: 1, Label: "1.0"}}, even{1.4}.Ticks(0, 2)[:3])
}
