package measure

import (
	"fmt"
	"slices"

	"github.com/onceledger/onceledger/bench/contender"
	"github.com/onceledger/onceledger/bench/rig"
)

const (
	// expectDrain is a drain against what the plain handler does in its requests.
	expectDrain = 10
	// expectNever is the least anywhere: never behind.
	expectNever = 1
)

// expectEndToEnd is where most senders send at once.
var expectEndToEnd = map[string]float64{contender.River: 8, contender.Naive: 4, contender.Watermill: 4}

// contenderRatios compares onceledger with each of the others at the same work.
func contenderRatios(cells []ContenderCell, judged bool) (found []Ratio) {
	if len(cells) == 0 {
		return nil
	}
	type key struct {
		work    Work
		senders int
		name    string
	}
	rounds, most := map[key][]float64{}, 0
	cells = slices.DeleteFunc(slices.Clone(cells), func(c ContenderCell) bool { return c.Rows > 0 }) // onceledger's are in Growth
	for _, c := range cells {
		rounds[key{c.Work, c.Senders, c.Name}] = c.Rounds
		most = max(most, c.Senders)
	}
	add := func(name string, ours, theirs []float64, expected float64) {
		if !judged {
			expected = 0
		}
		found = append(found, ratio(name, ours, theirs, expected))
	}
	for _, c := range cells {
		if c.Name == rig.Ours {
			continue
		}
		expected, what := float64(expectNever), fmt.Sprintf("%s, %d senders", c.Work, c.Senders)
		switch {
		case c.Work == Drain:
			what = string(c.Work)
		case c.Work == EndToEnd && c.Senders == most && expectEndToEnd[c.Name] > 0:
			expected = expectEndToEnd[c.Name]
		}
		add(what+": onceledger / "+c.Name, rounds[key{c.Work, c.Senders, rig.Ours}], c.Rounds, expected)
	}
	if plain := rounds[key{EndToEnd, most, contender.Naive}]; len(plain) > 0 {
		add(fmt.Sprintf("drain: onceledger / %s end to end, %d senders", contender.Naive, most), rounds[key{Drain, 0, rig.Ours}], plain, expectDrain)
	}
	return found
}
