package growth

// Scenario is one system under one load. Senders, Rate and Backlog exclude
// each other.
type Scenario struct {
	// Senders each wait for an answer before they send again.
	Senders int
	// Rate is how many events a second arrive, at random times.
	Rate float64
	// Backlog is how many events are in the stream at the beginning.
	Backlog int

	Receivers, Workers int
	// Replicas of the stream: 1 or 3.
	Replicas int
	// Generator runs the load generator on the same machine, not elsewhere.
	Generator bool
	// Customers have an account with a limit each; 0: no two batches that are
	// under way have one in common.
	Customers int
	// One account is in every event, unless NoShared is set.
	NoShared bool
	// Apart gives each program and service a machine of its own; otherwise all
	// share one. A machine has Cores, the broker's and Postgres' DataCores if that
	// is set. A fraction is what others left.
	Apart            bool
	Cores, DataCores float64
	// Threads is GOMAXPROCS of the Go programs; 0: as many as Cores, rounded up.
	Threads int
	// Seconds are simulated after WarmUp.
	WarmUp, Seconds float64
	Seed            uint64
}

// Result is a prediction.
type Result struct {
	// Acked and Done are events a second: answered, and in the ledger.
	Acked, Done float64
	// Complete is how many a second were in the ledger from the first request to
	// when it had all that was answered.
	Complete float64
	// Refused are events a second that got a 503.
	Refused float64
	// AckP50 and AckP99 are seconds to an answer, LagP50 and LagP99 from the
	// beginning of a request to the commit of its debit.
	AckP50, AckP99, LagP50, LagP99 float64
	// AckBatch and DoneBatch are messages a commit of the broker and of Postgres.
	AckBatch, DoneBatch float64
	// CPU is microseconds an event, by program.
	CPU map[string]float64
	// Busy is for which share of the time a resource was: of a machine, its cores.
	Busy map[string]float64
}

// saturated is from when a resource is what holds the others up.
const saturated = 0.9

// Limit names what held the rest up: a resource that was saturated; if there is
// none, whoever waits for answers all the time.
func (r Result) Limit() string {
	limit := ""
	for name, busy := range r.Busy {
		if name != committers && name != workerLoops && busy >= saturated && (limit == "" || busy > r.Busy[limit] || busy == r.Busy[limit] && name < limit) {
			limit = name
		}
	}
	switch {
	case limit != "":
		return limit
	case r.Busy[committers] > r.Busy[workerLoops]:
		return committers
	}
	return workerLoops
}
