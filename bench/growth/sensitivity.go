package growth

import (
	"cmp"
	"math"
	"slices"
)

// factor is how wrong a parameter may be, up or down, to see what depends on it.
const factor = 1.5

// Sensitivity is what becomes of a system's highest rates when one parameter is
// half as much again, as shares: -0.1 is 10 % less.
type Sensitivity struct {
	Name             string
	Source           string
	Answered, Posted float64
}

// Sensitivities tries every parameter of c, those first that matter most.
func Sensitivities(c *Calibration, s Scenario) []Sensitivity {
	highest := func(c *Calibration) (answered, posted float64) {
		asked := acks(s)
		asked.Seconds = 0.5
		return Simulate(c, asked).Acked, Simulate(c, drain(s)).Done
	}
	answered, posted := highest(c)
	var found []Sensitivity
	for name := range c.all() {
		changed := *c
		for other, p := range changed.all() {
			if other == name {
				p.Value *= factor
			}
		}
		a, p := highest(&changed)
		found = append(found, Sensitivity{Name: name, Answered: a/answered - 1, Posted: p/posted - 1})
	}
	for name, p := range c.all() {
		for i := range found {
			if found[i].Name == name {
				found[i].Source = p.Source
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Sensitivity) int { return -cmp.Compare(a.most(), b.most()) })
	return found
}

func (s Sensitivity) most() float64 { return max(math.Abs(s.Answered), math.Abs(s.Posted)) }
