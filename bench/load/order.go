package load

import (
	"math/rand/v2"
	"time"

	"github.com/onceledger/onceledger/bench/traffic"
)

const (
	// recent is how many events back a resend or a conflict reaches: what a sender
	// repeats, it repeats within seconds.
	recent = 5000
	// seed lets every arm meet the same deliveries at the same times.
	seed = 7
)

// delivery is one request that is due.
type delivery struct {
	// due counts from the beginning of the run; 0 in a closed loop.
	due      time.Duration
	event    int
	conflict bool
}

// order says what is sent when. It never looks at what came of it. It is the same
// for the same plan.
type order struct {
	plan   Plan
	random *rand.Rand
	due    time.Duration
	events int
}

func newOrder(plan Plan) *order {
	return &order{plan: plan, random: rand.New(rand.NewPCG(seed, seed))} //nolint:gosec // the same in every arm
}

// next returns the next delivery, and false when none is due before the plan ends.
// Independent senders are as likely to come now as at any other time: what lies
// between two of them is distributed exponentially.
func (o *order) next() (delivery, bool) {
	if o.plan.Rate > 0 {
		o.due += time.Duration(o.random.ExpFloat64() / o.plan.Rate * float64(time.Second))
		if o.due >= o.plan.WarmUp+o.plan.Measure {
			return delivery{}, false
		}
	}
	d := delivery{due: o.due}
	kind := o.random.Float64()
	if kind < o.plan.Resends+o.plan.Conflicts && o.events > 0 {
		d.event = o.events - 1 - o.random.IntN(min(o.events, recent))
		d.conflict = kind >= o.plan.Resends
		return d, true
	}
	d.event = o.events
	o.events++
	return d, true
}

// Events is what deliveries that were accepted were of, so that it can be told
// what a ledger must hold after them.
type Events struct {
	// Applied is how many events there were.
	Applied int
	// Conflicts is how many of them came with both amounts: one of the two stands,
	// the other is a dead letter.
	Conflicts int
	// Least and Most are what they move together in minor units, depending on which
	// amounts stand.
	Least, Most int64
}

// tally notes what of each event was accepted.
type tally []uint8

const (
	sawCharge   = 1
	sawConflict = 2
)

func (t *tally) add(d delivery) {
	for len(*t) <= d.event {
		*t = append(*t, 0)
	}
	if d.conflict {
		(*t)[d.event] |= sawConflict
	} else {
		(*t)[d.event] |= sawCharge
	}
}

// lacking are the events below sent of which nothing was accepted.
func (t tally) lacking(sent int) (events []int) {
	for n := range sent {
		if n >= len(t) || t[n] == 0 {
			events = append(events, n)
		}
	}
	return events
}

func (t tally) sum() Events {
	var e Events
	for n, saw := range t {
		var amounts []int64
		if saw&sawCharge != 0 {
			amounts = append(amounts, traffic.Amount(n))
		}
		if saw&sawConflict != 0 {
			amounts = append(amounts, traffic.ConflictAmount(n))
		}
		if len(amounts) == 0 {
			continue
		}
		e.Applied++
		e.Conflicts += len(amounts) - 1
		e.Least += min(amounts[0], amounts[len(amounts)-1])
		e.Most += max(amounts[0], amounts[len(amounts)-1])
	}
	return e
}
