package audit

import (
	"cmp"
	"context"
	"fmt"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// maxPuzzles is how many messages that stand under another content a survey
// keeps before it reads the dead letters that may explain them.
const maxPuzzles = 10_000

// Survey tells message by message what an audit only counts. It finds the same:
// the end of the stream and what is answered are fixed when it is made.
type Survey struct {
	a *auditor
}

// Surveyed is what a survey says of one message. With neither Kind nor Waiting
// it is accounted for.
type Surveyed struct {
	// Unaccounted has a Kind only if the message was answered and nothing
	// accounts for it: Lost, Undecided or OtherContent.
	Unaccounted
	// Raw is the message as it is stored; nil for one that came late.
	Raw *envelope.Stored
	// Waiting means that it is to be delivered or answered yet, that it is
	// younger than grace, or that a copy of it is.
	Waiting bool
	// Row is set for a message that was answered and whose event is undecided.
	Row *dedupe.Row
}

// survey is what an auditor needs to make one.
type survey struct {
	page []Surveyed
	emit func([]Surveyed) error
}

// NewSurvey fixes what is surveyed.
func NewSurvey(ctx context.Context, o Options) (*Survey, error) {
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	a := &auditor{Options: o, report: &Report{}, survey: &survey{}}
	if err := a.fix(ctx); err != nil {
		return nil, fmt.Errorf("survey: fix the end of %s: %w", stream.Events, err)
	}
	if err := a.remember(ctx); err != nil {
		return nil, fmt.Errorf("survey: %w", err)
	}
	return &Survey{a}, nil
}

// Stream is what is surveyed.
func (s *Survey) Stream() Stream { return s.a.report.Stream }

// Each calls f for pages of the messages from one sequence to another, at most
// the fixed last one. They come in their order, but for those that only a dead
// letter may explain: these come later, without Raw. Memory is bounded by a few
// pages.
func (s *Survey) Each(ctx context.Context, from, to uint64, f func([]Surveyed) error) error {
	a := s.a
	a.survey.emit, a.survey.page, a.suspects = f, nil, suspects{}
	from, to = max(from, a.report.Stream.First, 1), min(to, a.report.Stream.Last)
	err := a.readAll(ctx, from, to, func(ctx context.Context, p *page) error { return a.surveyPage(ctx, p.messages, p.found) })
	if err == nil {
		err = a.puzzles(ctx)
	}
	if err != nil {
		return fmt.Errorf("survey: %w", err)
	}
	return nil
}

func (a *auditor) surveyPage(ctx context.Context, batch []*message, found map[dedupe.Key]*dedupe.Row) error {
	for _, m := range batch {
		c, err := a.classify(ctx, m, found)
		if err != nil {
			return err
		}
		if c.problem == OtherContent && !c.owner && a.suspect(m, c) {
			m.raw = nil
			continue
		}
		a.count(m, c)
	}
	if err := a.survey.flush(); err != nil {
		return err
	}
	if a.suspects.n < maxPuzzles {
		return nil
	}
	return a.puzzles(ctx)
}

// puzzles says what became of the messages that stand under another content.
func (a *auditor) puzzles(ctx context.Context) error {
	if a.suspects.n == 0 {
		return nil
	}
	if err := a.explainSuspects(ctx); err != nil {
		return err
	}
	a.suspects = suspects{}
	return a.survey.flush()
}

// Look looks again at messages that Each has told of, which have their Raw: their
// rows may have moved since. What a dead letter might explain it does not ask.
func (s *Survey) Look(ctx context.Context, list []Surveyed) ([]Surveyed, error) {
	a := s.a
	batch := make([]*message, len(list))
	for i, m := range list {
		batch[i] = a.decode(m.Raw)
	}
	found, err := a.lookUp(ctx, batch)
	if err != nil {
		return nil, fmt.Errorf("survey: %w", err)
	}
	again := make([]Surveyed, len(batch))
	for i, m := range batch {
		c, err := a.classify(ctx, m, found)
		if err != nil {
			return nil, fmt.Errorf("survey: %w", err)
		}
		again[i] = surveyed(m, c)
	}
	return again, nil
}

// tell notes what a survey says of m.
func (s *survey) tell(m *message, c class) { s.page = append(s.page, surveyed(m, c)) }

func surveyed(m *message, c class) Surveyed {
	return Surveyed{
		Unaccounted: Unaccounted{Seq: m.seq, Kind: c.problem, Key: m.key, Hash: m.hash, Owner: c.owner, Sent: m.copy != 0},
		Raw:         m.raw, Waiting: c.term == inFlight, Row: c.row,
	}
}

func (s *survey) flush() error {
	if len(s.page) == 0 {
		return nil
	}
	page := s.page
	s.page = nil
	return s.emit(page)
}
