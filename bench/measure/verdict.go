package measure

import (
	"fmt"
	"strings"

	"github.com/onceledger/onceledger/bench/contender"
	"github.com/onceledger/onceledger/bench/traffic"
)

// Verdict is what a recount found, the same for every system.
type Verdict struct {
	// Posted counts the different events that are in the ledger.
	Posted int `json:"posted"`
	// Lost were accepted and are not there, though nothing is left to do; Doubled
	// are there more than once; Strangers were never sent; Misstated have another
	// amount than theirs.
	Lost      int `json:"lost"`
	Doubled   int `json:"doubled"`
	Strangers int `json:"strangers"`
	Misstated int `json:"misstated"`
	// Unbalanced counts accounts that are not the sum of their transfers.
	Unbalanced int `json:"unbalanced"`
	// Unfinished counts the deliveries that were still waiting when the time was
	// over; which of them are lost, nobody knows then.
	Unfinished int `json:"unfinished"`
}

// Wrong reports whether money is not where it should be. Being slow is not wrong.
func (v Verdict) Wrong() bool {
	return v.Lost+v.Doubled+v.Strangers+v.Misstated+v.Unbalanced > 0
}

// String says what is wrong, or that nothing is.
func (v Verdict) String() string {
	var found []string
	for _, f := range []struct {
		n    int
		what string
	}{
		{v.Lost, "lost"}, {v.Doubled, "doubled"}, {v.Strangers, "made up"}, {v.Misstated, "misstated"},
		{v.Unbalanced, "accounts unbalanced"}, {v.Unfinished, "unfinished"},
	} {
		if f.n > 0 {
			found = append(found, fmt.Sprintf("%d %s", f.n, f.what))
		}
	}
	if len(found) == 0 {
		return "exact"
	}
	return strings.Join(found, ", ")
}

func (v *Verdict) add(other Verdict) {
	v.Posted += other.Posted
	v.Lost += other.Lost
	v.Doubled += other.Doubled
	v.Strangers += other.Strangers
	v.Misstated += other.Misstated
	v.Unbalanced += other.Unbalanced
	v.Unfinished += other.Unfinished
}

// asked is what a system was given: the events below a number, of which lacking
// were not accepted and may be there or not.
type asked struct {
	events  int
	lacking []int
}

// judge holds books against what was asked.
func judge(a asked, left int, books contender.Books) Verdict {
	v := Verdict{Unbalanced: books.Unbalanced, Unfinished: left}
	times := make([]int, a.events)
	for _, t := range books.Transfers {
		n, ok := traffic.Number(t.Event)
		if !ok || n >= a.events {
			v.Strangers++
			continue
		}
		times[n]++
		if t.Amount != traffic.Amount(n) {
			v.Misstated++
		}
	}
	excused := make(map[int]bool, len(a.lacking))
	for _, n := range a.lacking {
		excused[n] = true
	}
	for n, found := range times {
		switch {
		case found > 0:
			v.Posted++
			if found > 1 {
				v.Doubled++
			}
		case left == 0 && !excused[n]:
			v.Lost++
		}
	}
	return v
}
