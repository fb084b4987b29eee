package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/onceledger/onceledger/internal/resend"
	"github.com/onceledger/onceledger/internal/stream"
)

// ReplayPreview is what a replay would do. Its JSON names are part of the public
// interface.
type ReplayPreview struct {
	Action string `json:"action"`
	// From and To bound the messages that were looked at; Gone were asked for
	// and are before the first that the stream still has.
	From uint64 `json:"from_seq"`
	To   uint64 `json:"to_seq"`
	Gone uint64 `json:"gone"`
	// Messages is the number that was looked at.
	Messages int           `json:"messages"`
	Groups   []ReplayGroup `json:"groups"`

	groups map[groupKey]*ReplayGroup
	detail resend.Detail
	last   uint64
}

// ReplayGroup counts the messages of one source for which one thing would be
// done.
type ReplayGroup struct {
	// Plan is send, park, refuse, later (another content of its event goes
	// first), repeat (its event is sent with another message), wait or done.
	Plan string `json:"plan"`
	// Why is lost, undecided or other_content; empty where nothing is wrong.
	Why      string `json:"why,omitempty"`
	Source   string `json:"source"`
	Messages int    `json:"messages"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
}

type groupKey struct {
	plan        resend.Plan
	why, source string
}

// plans are in the order in which a person wants to read them.
var plans = []resend.Plan{resend.Send, resend.Park, resend.Refuse, resend.Later, resend.Repeat, resend.Wait, resend.Done}

// preview looks at the whole range, and sets it.
func (r Replay) preview(ctx context.Context, s *Session, replay *resend.Replay) (*ReplayPreview, error) {
	p := &ReplayPreview{Action: "replay", Groups: []ReplayGroup{}, groups: map[groupKey]*ReplayGroup{}}
	var err error
	if p.From, p.Gone, err = r.begin(ctx, replay); err != nil {
		return nil, err
	}
	p.To, p.last = replay.Stream.Last, replay.Stream.Last
	if r.ToSeq != 0 {
		p.To = min(p.To, r.ToSeq)
	}
	replay.From, replay.To = p.From, p.To
	if p.From > p.To {
		return p, nil
	}
	bar := s.progress("look", int(p.To-p.From)+1)
	defer func() { _ = bar.Finish() }() // a progress bar that cannot be drawn is no error
	err = replay.Each(ctx, func(page []resend.Planned) error {
		for i := range page {
			p.add(&page[i])
			if seq := page[i].Seq; page[i].Raw != nil {
				_ = bar.Set(int(seq - p.From + 1))
			}
		}
		return nil
	})
	for _, g := range p.groups {
		p.Groups = append(p.Groups, *g)
	}
	slices.SortFunc(p.Groups, func(a, b ReplayGroup) int {
		return cmp.Or(cmp.Compare(slices.Index(plans, resend.Plan(a.Plan)), slices.Index(plans, resend.Plan(b.Plan))),
			cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Why, b.Why))
	})
	return p, err
}

func (p *ReplayPreview) add(m *resend.Planned) {
	p.Messages++
	key := groupKey{m.Plan, m.Why(), m.Key.Source}
	g := p.groups[key]
	if g == nil {
		g = &ReplayGroup{Plan: string(m.Plan), Why: key.why, Source: key.source, First: m.Seq}
		p.groups[key] = g
	}
	g.Messages++
	g.First, g.Last = min(g.First, m.Seq), max(g.Last, m.Seq)
	if m.Plan == resend.Send || m.Plan == resend.Park {
		p.detail.Add(m.Unaccounted)
	}
}

// of is the number of messages for which one thing would be done.
func (p *ReplayPreview) of(plan resend.Plan) int {
	n := 0
	for _, g := range p.Groups {
		if g.Plan == string(plan) {
			n += g.Messages
		}
	}
	return n
}

// total is the number of messages for which something would be done.
func (p *ReplayPreview) total() int { return p.of(resend.Send) + p.of(resend.Park) }

// showReplay prints the counts; beside JSON results they go where errors go.
func (s *Session) showReplay(p *ReplayPreview, dryRun bool) error {
	if s.JSON && dryRun {
		return s.object(p)
	}
	out := s.Out
	if s.JSON {
		out = s.errors()
	}
	if p.Gone > 0 {
		fmt.Fprintf(out, "messages before %d are gone from %s: what the database lost of them cannot be replayed\n", p.From, stream.Events)
	}
	if p.Messages == 0 {
		switch {
		case p.last == 0:
			fmt.Fprintf(out, "nothing to replay: %s is empty\n", stream.Events)
		case p.From > p.To:
			fmt.Fprintf(out, "nothing to replay: there are no messages from there on, %s ends with message %d\n", stream.Events, p.last)
		default:
			fmt.Fprintln(out, "nothing to replay: no messages match")
		}
		return nil
	}
	t := newTable(out, "MESSAGES", "PLAN", "WHY", "SOURCE", "FIRST", "LAST")
	for _, g := range p.Groups {
		t.row(fmt.Sprint(g.Messages), g.Plan, cmp.Or(g.Why, "-"), g.Source, fmt.Sprint(g.First), fmt.Sprint(g.Last))
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s to replay, of %s from %d to %d\n", count(p.total(), "message"), count(p.Messages, "message"), p.From, p.To)
	if n := p.of(resend.Later); n > 0 {
		fmt.Fprintf(out, "%s later: another content of their event has to be decided first; the sweep, or another replay, sends them\n", count(n, "message"))
	}
	if n := p.of(resend.Wait); n > 0 {
		fmt.Fprintf(out, "%s: a worker decides them, or the sweep sends them again, by itself\n", count(n, "waiting message"))
	}
	if n := p.of(resend.Refuse); n > 0 {
		fmt.Fprintf(out, "%s that a copy cannot help: see %s audit%s\n", count(n, "message"), s.command(), s.where())
	}
	return nil
}
