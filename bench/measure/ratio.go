package measure

import (
	"fmt"
	"time"

	"github.com/onceledger/onceledger/bench/rig"
)

const (
	// expectBatch is what batches must be worth to a worker.
	expectBatch = 10
	// expectLedger is what is to be left of bare inserts, and ledgerBatch where that
	// is looked at.
	expectLedger = 0.5
	ledgerBatch  = 500
)

// expectGroup is what group commit must be worth with so many senders.
var expectGroup = map[int]float64{256: 4, 1000: 8}

// Ratio compares two cells.
type Ratio struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// Lowest and Highest are those of single rounds.
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
	// Expected is the least it should be; 0: it is only shown.
	Expected float64 `json:"expected,omitempty"`
}

// Verdict is OK or BELOW, or nothing where nothing is expected.
func (r Ratio) Verdict() string {
	switch {
	case r.Expected == 0:
		return ""
	case r.Value < r.Expected:
		return "BELOW"
	}
	return "OK"
}

func ratios(result *Result) []Ratio {
	var found []Ratio
	batch, bare := float64(expectBatch), expectLedger
	if !result.Size.Judge {
		batch, bare = 0, 0
	}
	found = append(found, receiverRatios(result)...)
	drained := map[string]DrainCell{}
	for _, c := range result.Worker {
		drained[c.Name] = c
	}
	if len(drained) > 0 {
		found = append(found,
			ratio("worker: batches / one transaction per event", drained[Batches].Rounds, drained[EachAlone].Rounds, batch),
			ratio("worker, distinct events: with Redis / without", drained[Batches].Rounds, drained[BatchesNoRedis].Rounds, 0),
			ratio("worker, every event twice: with Redis / without", drained[Storm].Rounds, drained[StormNoRedis].Rounds, 0),
		)
	}
	for _, c := range result.Ledger {
		if c.Batch == ledgerBatch && c.Accounts == Spread && len(drained) > 0 {
			found = append(found, ratio("worker / operations and transfers merely inserted", drained[Batches].Rounds, c.Inserted, bare))
		}
		if c.Batch == ledgerBatch {
			found = append(found, ratio(fmt.Sprintf("ledger, batches of %d, %s: posted / merely inserted", c.Batch, c.Accounts), c.Posted, c.Inserted, bare))
		}
	}
	found = append(found, contenderRatios(result.Contenders, result.Size.Judge)...)
	return append(found, pathRatios(result)...)
}

func receiverRatios(result *Result) (found []Ratio) {
	received := map[rig.Publishing]map[int]ReceiverCell{rig.GroupCommit: {}, rig.OneByOne: {}}
	for _, c := range result.Receiver {
		received[c.Publishing][c.Senders] = c
		if least := expectGroup[c.Senders]; c.Publishing == rig.OneByOne && least > 0 {
			if !result.Size.Judge {
				least = 0
			}
			found = append(found, ratio(fmt.Sprintf("receiver, %d senders: group commit / one by one", c.Senders),
				received[rig.GroupCommit][c.Senders].Rounds, c.Rounds, least))
		}
	}
	for _, c := range result.Bare {
		found = append(found, ratio(fmt.Sprintf("receiver, %d senders / the broker alone, batches of %d", c.Senders, c.Batch),
			received[rig.GroupCommit][c.Senders].Rounds, c.Rounds, 0))
	}
	return found
}

// ratio compares the means, and the rounds pair by pair.
func ratio(name string, ours, theirs []float64, expected float64) Ratio {
	r := Ratio{Name: name, Expected: expected}
	if other := mean(theirs); other > 0 {
		r.Value = mean(ours) / other
	}
	for i := range min(len(ours), len(theirs)) {
		if theirs[i] == 0 {
			continue // too short to have measured anything
		}
		value := ours[i] / theirs[i]
		if r.Lowest == 0 || value < r.Lowest {
			r.Lowest = value
		}
		r.Highest = max(r.Highest, value)
	}
	return r
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}

// PerEvent is CPU time in microseconds an event, by program.
type PerEvent struct {
	Of map[string]float64 `json:"cpu_us"`
	// Foreign is how many cores others kept busy meanwhile.
	Foreign float64 `json:"foreign_cores"`
}

func perEvent(cost rig.Cost, events int) PerEvent {
	p := PerEvent{Of: map[string]float64{}, Foreign: cost.Foreign()}
	for name, used := range cost.Of {
		p.Of[name] = float64(used) / float64(time.Microsecond) / float64(max(events, 1))
	}
	return p
}
