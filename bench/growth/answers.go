package growth

import "math"

// share of the highest rate is what one plans with.
const share = 0.7

// crowd is how many senders find out the highest rate of a receiver.
const crowd = 2000

// System is a configuration, and the highest rates that are predicted for it.
type System struct {
	Name string
	Scenario
	// Answered and Posted are events a second, each alone; where everything is on
	// one machine, both at once. AnsweredBy and PostedBy held them up.
	Answered, Posted     float64
	AnsweredBy, PostedBy string
}

// Highest is the rate that the system keeps up with, and what holds it up.
func (s System) Highest() (rate float64, by string) {
	if s.Answered < s.Posted {
		return s.Answered, s.AnsweredBy
	}
	return s.Posted, s.PostedBy
}

// measure predicts the highest rates of a system.
func (s System) measure(c *Calibration) System {
	if !s.Apart {
		s.Posted, s.PostedBy = sustained(c, s.Scenario)
		s.Answered, s.AnsweredBy = s.Posted, s.PostedBy
		return s
	}
	answered, posted := Simulate(c, acks(s.Scenario)), Simulate(c, drain(s.Scenario))
	s.Answered, s.AnsweredBy = answered.Acked, answered.Limit()
	s.Posted, s.PostedBy = posted.Done, posted.Limit()
	return s
}

// acks is the receivers alone, with more senders than they can serve.
func acks(s Scenario) Scenario {
	s.Senders, s.Workers, s.Rate, s.WarmUp, s.Seconds = crowd*s.Receivers, 0, 0, 0.3, 2
	return s
}

// drain is the workers alone.
func drain(s Scenario) Scenario {
	s.Backlog, s.Receivers, s.Senders, s.Rate, s.WarmUp, s.Seconds = 50_000*(1+s.Workers/2), 0, 0, 0, 0, 600
	return s
}

// sustained searches the highest rate at which nothing is refused and the ledger
// is not left behind.
func sustained(c *Calibration, s Scenario) (rate float64, limit string) {
	s.WarmUp, s.Seconds = 0.5, 1.5
	low, high := 0.0, 60_000.0
	for high-low > 0.02*high {
		s.Rate = (low + high) / 2
		got := Simulate(c, s)
		if got.Refused > 0 || got.Done < 0.97*s.Rate || got.LagP99 > 0.5 {
			high = s.Rate
			continue
		}
		low = s.Rate
		limit = got.Limit()
	}
	return low, limit
}

// million is how many customers the answers are for, unless they say otherwise.
const million = 1_000_000

// Steps are systems that grow, each by what held the one before.
func Steps(c *Calibration) []System {
	system := Scenario{Receivers: 1, Workers: 1, Cores: 2, Customers: million}
	var systems []System
	add := func(name string, change func(*Scenario)) {
		change(&system)
		systems = append(systems, System{Name: name, Scenario: system})
	}
	add("one machine with 2 cores, 1 receiver, 1 worker", func(*Scenario) {})
	add("the same with 8 cores, 2 workers", func(s *Scenario) { s.Cores, s.Workers = 8, 2 })
	add("a machine of 4 cores for each program and service, 1 worker, 3 replicas", func(s *Scenario) {
		s.Apart, s.Cores, s.Workers, s.Replicas = true, 4, 1, 3
	})
	add("… 2 receivers, 4 workers, 16 cores for Postgres", func(s *Scenario) { s.Receivers, s.Workers, s.DataCores = 2, 4, 16 })
	add("… 16 workers", func(s *Scenario) { s.Workers = 16 })
	add("… 32 workers", func(s *Scenario) { s.Workers = 32 })
	for i := range systems {
		systems[i] = systems[i].measure(c)
	}
	return systems
}

// Need is what a rate of events takes.
type Need struct {
	Rate float64
	// Cells are streams, each with a Postgres of its own; each has so many Receivers
	// and Workers, none to spare.
	Cells, Receivers, Workers int
	// Cell is one of them under its share of the rate.
	Cell Result
	// Cores are busy cores, by program, of all cells.
	Cores map[string]float64
	// WAL, Stored and Network are bytes a second: what all Postgres write of their
	// logs, what all brokers write, and what senders send.
	WAL, Stored, Network float64
	// First is the part with the lowest ceiling, and FirstAt what that is for all cells.
	First   string
	FirstAt float64
	// Commits are transactions a second of one Postgres, Batches those of one broker.
	Commits, Batches float64
}

// body is that of the benchmark's events, with headers, in bytes.
const body = 1024 + 400

// Needs answers what rates of events take, in cells like the given one with as
// few receivers and workers as do.
func Needs(c *Calibration, cell System, rates ...float64) []Need {
	var needs []Need
	highest, _ := cell.Highest()
	for _, rate := range rates {
		n := Need{Rate: rate, Cells: int(math.Ceil(rate / (share * highest))), Cores: map[string]float64{}}
		s := cell.Scenario
		s.Rate, s.WarmUp, s.Seconds = rate/float64(n.Cells), 0.5, 1.5
		enough := s.Rate / share * 0.999 // a cell's own highest rate was rounded
		n.Receivers = fewest(cell.Receivers, func(n int) bool { s.Receivers = n; return Simulate(c, acks(s)).Acked >= enough })
		n.Workers = fewest(cell.Workers, func(n int) bool { s.Workers = n; return Simulate(c, drain(s)).Done >= enough })
		s.Receivers, s.Workers = n.Receivers, n.Workers
		n.Cell = Simulate(c, s)
		for name, us := range n.Cell.CPU {
			n.Cores[name] = us * rate / 1e6
		}
		replicas := float64(max(s.Replicas, 1))
		n.Cores["nats"] *= replicas // followers are taken to do as much
		n.WAL, n.Stored, n.Network = rate*c.WALBytes.Value, rate*c.StoredBytes.Value*replicas, rate*body
		for _, ceiling := range Ceilings(c, s) {
			if !ceiling.If {
				n.First, n.FirstAt = ceiling.Part, ceiling.Rate*float64(n.Cells)
				break
			}
		}
		n.Commits, n.Batches = s.Rate/n.Cell.DoneBatch, s.Rate/n.Cell.AckBatch
		needs = append(needs, n)
	}
	return needs
}

// fewest is the least number that is enough, or most.
func fewest(most int, enough func(n int) bool) int {
	for n := 1; n < most; n++ {
		if enough(n) {
			return n
		}
	}
	return most
}
