package resend

import (
	"context"
	"errors"
	"hash/maphash"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

const (
	// ReplayPage is how many messages a replay sends with one claim.
	ReplayPage = 500
	// longOverdue is for how long nothing came for an event whose message may
	// still be delivered, before it is sent again.
	longOverdue = 15 * time.Minute
	// maxSeen bounds the events that a replay knows to have sent already.
	// Past it the claims alone keep repeats from being sent.
	maxSeen = 1 << 20
)

// Plan is what a replay would do with a message.
type Plan string

// The plans.
const (
	// Done: the message is accounted for.
	Done Plan = "done"
	// Wait: a worker has to be given it or to answer it yet, or a copy of it.
	Wait Plan = "wait"
	// Repeat: another message with the same content is sent.
	Repeat Plan = "repeat"
	// Later: another content of its event is sent, and is to be decided first.
	// The sweep sends this one then, or another replay.
	Later Plan = "later"
	// Send it again.
	Send Plan = "send"
	// Park it: it holds no event.
	Park Plan = "park"
	// Refuse: a copy cannot help, and a person has to look.
	Refuse Plan = "refuse"
)

// Planned is a message of the range with what is to be done.
type Planned struct {
	audit.Surveyed
	Plan Plan
}

// Why says in a word what is wrong with a message that is not done.
func (p *Planned) Why() string {
	switch {
	case p.Plan == Done || p.Plan == Wait || p.Plan == Repeat || p.Plan == Later:
		return ""
	case p.Kind == "":
		return string(audit.Undecided) // it was sent again before, and nothing came
	}
	return string(p.Kind)
}

// Replay plans and sends again what is missing of a range of messages.
type Replay struct {
	*Sender
	Survey *audit.Survey
	// From and To bound the range; Source selects one source's messages.
	From, To uint64
	Source   string
	// Grace is how long nothing may come for an event that waits.
	Grace time.Duration
	// Note is what is recorded with single events.
	Note string

	letters Letters
	seed    maphash.Seed
	seen    map[uint64]uint64 // contents that are sent, by event; hashes of both
	events  map[int64]bool    // undecided ones, by number
	// undelivered is when the first message was stored that no worker has.
	undelivered time.Time
}

// Each calls f for pages of the range with what is to be done. It may be called
// again, for the same range. Memory is bounded by a few pages and maxSeen.
func (r *Replay) Each(ctx context.Context, f func([]Planned) error) (err error) {
	r.letters.JS = r.JS
	r.seed, r.seen, r.events = maphash.MakeSeed(), map[uint64]uint64{}, map[int64]bool{}
	r.undelivered, err = r.Undelivered(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	return r.Survey.Each(ctx, r.From, r.To, func(page []audit.Surveyed) error {
		planned, err := r.plan(ctx, page)
		if err != nil {
			return err
		}
		return f(planned)
	})
}

func (r *Replay) plan(ctx context.Context, page []audit.Surveyed) ([]Planned, error) {
	overdue, err := r.overdue(ctx, page)
	if err != nil {
		return nil, err
	}
	planned := make([]Planned, 0, len(page))
	for _, m := range page {
		if r.Source == "" || r.Source == m.Key.Source {
			planned = append(planned, Planned{m, r.decide(&m, overdue)})
		}
	}
	return planned, nil
}

func (r *Replay) decide(m *audit.Surveyed, overdue map[int64]*dedupe.Row) Plan {
	switch {
	case m.Row != nil && m.Row.State != dedupe.Failed:
		row := overdue[m.Row.No]
		if row == nil {
			return Wait
		}
		if r.events[row.No] {
			return Repeat
		}
		r.events[row.No], m.Row = true, row
		return Send
	case m.Waiting:
		return Wait
	case m.Kind == "":
		return Done
	case m.Owner && m.Row == nil, m.Kind == audit.OtherContent && m.Sent:
		return Refuse
	}
	if plan := r.known(m); plan != Send {
		return plan
	}
	if m.Raw != nil {
		if _, err := NewCopy(m.Unaccounted, m.Raw); err != nil {
			if m.Row != nil {
				return Wait // its row is there, and the sweep stores its letter
			}
			return Park
		}
	}
	return Send
}

// known notes what m says, and whether its event is sent already.
func (r *Replay) known(m *audit.Surveyed) Plan {
	key, content := maphash.Comparable(r.seed, m.Key), maphash.Comparable(r.seed, m.Hash)
	switch sent, ok := r.seen[key]; {
	case ok && sent == content:
		return Repeat
	case ok:
		return Later
	case len(r.seen) < maxSeen:
		r.seen[key] = content
	}
	return Send
}

// overdue returns the undecided events of a page for which nothing will come, by
// number.
func (r *Replay) overdue(ctx context.Context, page []audit.Surveyed) (map[int64]*dedupe.Row, error) {
	var numbers []int64
	for _, m := range page {
		if m.Row != nil && m.Row.State != dedupe.Failed {
			numbers = append(numbers, m.Row.No)
		}
	}
	if len(numbers) == 0 {
		return nil, nil
	}
	answered := dedupe.Position{StreamCreated: r.Stream.Created, Seq: r.Stream.AckFloor}
	rows, err := dedupe.OverdueAmong(ctx, r.Pool, answered, r.Grace, longOverdue, numbers)
	if err != nil {
		return nil, err
	}
	overdue := make(map[int64]*dedupe.Row, len(rows))
	for _, row := range rows {
		if r.undelivered.IsZero() || !r.undelivered.Before(row.Decided.Add(r.Grace)) {
			overdue[row.No] = row
		}
	}
	return overdue, nil
}
