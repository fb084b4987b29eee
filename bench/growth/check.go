package growth

import (
	"math"
	"slices"
)

// tolerance is how far a prediction may be off to count as right.
const tolerance = 0.25

// Check is one prediction beside what was measured.
type Check struct {
	Where, What         string
	Measured, Predicted float64
	Foreign             float64 // cores
	// Used says that the parameters are from this very load. From its CPU times,
	// never from what is compared.
	Used bool
}

// Error is how far the prediction is off, as a share of what was measured.
func (c Check) Error() float64 { return c.Predicted/c.Measured - 1 }

// OK reports whether the prediction is right, within the tolerance.
func (c Check) OK() bool { return math.Abs(c.Error()) <= tolerance }

// Compare predicts everything in m. The cores of each prediction are those that
// others left.
func Compare(c *Calibration, m *Measured) []Check {
	var checks []Check
	threads := int(m.Machine.Cores)
	for _, cell := range m.Receiver {
		if cell.Publishing != groupCommit {
			continue
		}
		got := Simulate(c, Scenario{Senders: cell.Senders, Receivers: 1, Generator: true, Cores: m.left(cell.Cost), Threads: threads, WarmUp: 0.5, Seconds: 3})
		where, used := "receiver, "+many(cell.Senders, "sender"), cell.Senders == small || cell.Senders == large
		checks = append(checks,
			Check{where, "acks/s", cell.AcksPerSecond, got.Acked, cell.Cost.Foreign, used},
			Check{where, "p50 ms", cell.P50, got.AckP50 * 1e3, cell.Cost.Foreign, used},
			Check{where, "p99 ms", cell.P99, got.AckP99 * 1e3, cell.Cost.Foreign, used},
		)
	}
	alone := slices.IndexFunc(m.Backlogs, BacklogCell.alone)
	for i, cell := range m.Backlogs {
		if cell.Rows != 0 {
			continue
		}
		got := Simulate(c, Scenario{Backlog: cell.Backlog, Workers: cell.Workers, Cores: m.left(cell.Cost), Threads: threads, Seconds: 600})
		where := "backlog of " + count(float64(cell.Backlog)) + ", " + many(cell.Workers, "worker")
		checks = append(checks,
			Check{where, "events/s", cell.EventsPerSecond, got.Done, cell.Cost.Foreign, i == alone},
			Check{where, "CPU µs/event", sum(cell.Cost.CPU), sum(got.CPU), cell.Cost.Foreign, i == alone},
		)
	}
	for _, cell := range m.Open {
		if !cell.comparable() {
			continue
		}
		checks = append(checks, m.checkTogether(c, cell)...)
	}
	return checks
}

// together is the scenario of receiver and worker at once.
func (m *Measured) together(cell OpenCell) Scenario {
	s := Scenario{Receivers: 1, Workers: 1, Generator: true, Cores: m.left(cell.Cost), Threads: int(m.Machine.Cores), WarmUp: 1, Seconds: 3}
	if cell.Offered > 0 {
		s.Rate = cell.Offered
	} else {
		s.Senders = cell.Senders
	}
	return s
}

func (m *Measured) checkTogether(c *Calibration, cell OpenCell) []Check {
	got := Simulate(c, m.together(cell))
	where := "together, " + cell.Name
	return []Check{
		{where, "acks/s", cell.AcksPerSecond, got.Acked, cell.Cost.Foreign, false},
		{where, "p50 ms", cell.P50, got.AckP50 * 1e3, cell.Cost.Foreign, false},
		{where, "p99 ms", cell.P99, got.AckP99 * 1e3, cell.Cost.Foreign, false},
		{where, "events/s", cell.EventsPerSecond, got.Complete, cell.Cost.Foreign, false},
		{where, "CPU µs/event", sum(cell.Cost.CPU), sum(got.CPU), cell.Cost.Foreign, false},
	}
}

func sum(of map[string]float64) (total float64) {
	for _, v := range of {
		total += v
	}
	return total
}
