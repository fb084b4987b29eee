package measure

import "fmt"

const (
	// expectStorm is what is to be left of the rate of distinct events when every one
	// comes twice.
	expectStorm = 0.6
	// expectGrown is what is to be left of the rate on empty tables at grownRows.
	expectGrown = 0.7
	grownRows   = 10_000_000
)

func pathRatios(result *Result) []Ratio {
	var found []Ratio
	expected := func(least float64) float64 {
		if !result.Size.Judge {
			return 0
		}
		return least
	}
	var loop, storm []float64
	for _, c := range result.Open {
		switch {
		case c.Name == ClosedStorm:
			storm = []float64{c.EventsPerSecond}
		case c.Offered == 0:
			loop = []float64{c.EventsPerSecond} // the last one has as many senders as the storm
		}
	}
	if len(storm) > 0 && len(loop) > 0 {
		found = append(found, ratio("whole path, distinct events: half of all deliveries resends / none", storm, loop, expected(expectStorm)))
	}
	empty := map[string]float64{}
	for _, c := range result.Growth {
		if c.Workers > 1 {
			continue // there is none of them on empty tables
		}
		if c.Rows == 0 {
			empty[c.IDs] = c.EventsPerSecond
			continue
		}
		if empty[c.IDs] == 0 {
			continue
		}
		least := 0.0
		if c.Rows >= grownRows {
			least = expected(expectGrown)
		}
		found = append(found, ratio(fmt.Sprintf("worker, ids %s: %s events there / none", c.IDs, millions(c.Rows)),
			[]float64{c.EventsPerSecond}, []float64{empty[c.IDs]}, least))
	}
	return found
}

func millions(n int) string {
	if n%1_000_000 == 0 {
		return fmt.Sprintf("%d million", n/1_000_000)
	}
	return fmt.Sprint(n)
}
