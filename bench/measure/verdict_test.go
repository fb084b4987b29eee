package measure

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/bench/contender"
	"github.com/onceledger/onceledger/bench/traffic"
)

// posted are the transfers of these events, as they should be.
func posted(events ...int) (all []contender.Transfer) {
	for _, n := range events {
		all = append(all, contender.Transfer{Event: fmt.Sprintf("evt_0000tag1%010d", n), Amount: traffic.Amount(n)})
	}
	return all
}

func TestJudgeFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	misstated := posted(0, 1, 2)
	misstated[1].Amount++
	for name, test := range map[string]struct {
		asked asked
		left  int
		books contender.Books
		want  Verdict
		text  string
	}{
		"all there":             {asked{events: 3}, 0, contender.Books{Transfers: posted(2, 0, 1)}, Verdict{Posted: 3}, "exact"},
		"one lost":              {asked{events: 3}, 0, contender.Books{Transfers: posted(0, 2)}, Verdict{Posted: 2, Lost: 1}, "1 lost"},
		"one doubled":           {asked{events: 3}, 0, contender.Books{Transfers: posted(0, 1, 1, 1, 2)}, Verdict{Posted: 3, Doubled: 1}, "1 doubled"},
		"one lost, one doubled": {asked{events: 3}, 0, contender.Books{Transfers: posted(0, 1, 1)}, Verdict{Posted: 2, Lost: 1, Doubled: 1}, "1 lost, 1 doubled"},
		"one made up":           {asked{events: 1}, 0, contender.Books{Transfers: posted(0, 1)}, Verdict{Posted: 1, Strangers: 1}, "1 made up"},
		"one without an event":  {asked{events: 1}, 0, contender.Books{Transfers: append(posted(0), contender.Transfer{Amount: 1})}, Verdict{Posted: 1, Strangers: 1}, "1 made up"},
		"another amount":        {asked{events: 3}, 0, contender.Books{Transfers: misstated}, Verdict{Posted: 3, Misstated: 1}, "1 misstated"},
		"a wrong balance":       {asked{events: 1}, 0, contender.Books{Transfers: posted(0), Unbalanced: 2}, Verdict{Posted: 1, Unbalanced: 2}, "2 accounts unbalanced"},
		"a refused one absent":  {asked{events: 2, lacking: []int{1}}, 0, contender.Books{Transfers: posted(0)}, Verdict{Posted: 1}, "exact"},
		"a refused one there":   {asked{events: 2, lacking: []int{1}}, 0, contender.Books{Transfers: posted(0, 1)}, Verdict{Posted: 2}, "exact"},
		"not done":              {asked{events: 3}, 2, contender.Books{Transfers: posted(0)}, Verdict{Posted: 1, Unfinished: 2}, "2 unfinished"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := judge(test.asked, test.left, test.books)
			require.Equal(t, test.want, got)
			require.Equal(t, test.text, got.String())
			require.Equal(t, test.text != "exact" && test.left == 0, got.Wrong())
		})
	}
}

func TestContenderRatiosCompareEachWithOurs(t *testing.T) {
	t.Parallel()
	cells := []ContenderCell{
		{Work: EndToEnd, Senders: 64, Name: "onceledger", Rounds: []float64{50}},
		{Work: EndToEnd, Senders: 64, Name: contender.River, Rounds: []float64{10}},
		{Work: EndToEnd, Senders: 256, Name: "onceledger", Rounds: []float64{100}},
		{Work: EndToEnd, Senders: 256, Name: contender.River, Rounds: []float64{10}},
		{Work: EndToEnd, Senders: 256, Name: contender.Naive, Rounds: []float64{20}},
		{Work: RetryStorm, Senders: 256, Name: "onceledger", Rounds: []float64{70}},
		{Work: Drain, Name: "onceledger", Rounds: []float64{300}},
		{Work: Drain, Name: contender.River, Rounds: []float64{30}},
	}
	one := func(name string, value, expected float64) Ratio {
		return Ratio{Name: name, Value: value, Lowest: value, Highest: value, Expected: expected}
	}
	require.Equal(t, []Ratio{
		one("end to end, 64 senders: onceledger / River", 5, 1),
		one("end to end, 256 senders: onceledger / River", 10, 8),
		one("end to end, 256 senders: onceledger / naive", 5, 4),
		one("drain: onceledger / River", 10, 1),
		one("drain: onceledger / naive end to end, 256 senders", 15, 10),
		one("onceledger, 256 senders: every event twice / once", 0.7, 0.6),
	}, contenderRatios(cells, true))
	for _, r := range contenderRatios(cells, false) {
		require.Zero(t, r.Expected)
	}
}
