package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

const (
	// maxStep bounds the messages that one incremental run reads.
	maxStep = 200_000
	// maxOpen bounds the messages that are carried from run to run. It is what
	// the broker lets be unanswered; where more are open, reading waits.
	maxOpen = stream.MaxAckPending
	// maxUnlettered bounds the parked events whose letters one run looks for.
	maxUnlettered = 1000
)

// Progress is what an incremental audit has found.
type Progress struct {
	// Report has the findings that stand now. Its sum is over all runs: a term
	// says what a message was when it was accounted for.
	Report
	// Accounted is the last message up to which everything is accounted for,
	// apart from Open; Open are those in flight or unaccounted.
	Accounted uint64
	Open      int
	// FirstOpen is the first of them, 0 if none.
	FirstOpen uint64
	// Parked is how many events are parked now, MoneyDifferences how many
	// findings are about the ledger.
	Parked, MoneyDifferences int
	// More says that a bound was reached: the next run should follow at once.
	More bool
	// Unaccounted are the messages to send again, Unlettered the parked events
	// whose letter is to be stored again.
	Unaccounted []Unaccounted
	Unlettered  []*dedupe.Row
}

// Unaccounted is a message that was answered and has no outcome.
type Unaccounted struct {
	Seq  uint64
	Kind Kind
	Key  dedupe.Key
	Hash [32]byte
	// Owner is set if the event's row names this very message, so that sending
	// it again cannot help; Sent if it was sent again before.
	Owner, Sent bool
	// Unlettered is set if its event is parked without a letter, so that a copy
	// stores one.
	Unlettered bool
}

// step is one incremental run.
type step struct {
	mark mark
	// open are the messages to carry on, closed the carried ones that ended.
	open   []*message
	closed []int64
	// applied are the events whose transfers are to be there.
	applied []int64
	wrong   []Unaccounted
}

// count notes what became of a message.
func (s *step) count(m *message, c class) {
	switch {
	case c.term == inFlight || c.term == unaccounted:
		s.open = append(s.open, m)
	case m.open:
		s.closed = append(s.closed, int64(m.seq)) //nolint:gosec // sequences stay far below 2⁶³
	}
	if c.term == applied {
		s.applied = append(s.applied, c.no)
	}
	if c.problem != "" {
		s.wrong = append(s.wrong, Unaccounted{Seq: m.seq, Kind: c.problem, Key: m.key, Hash: m.hash, Owner: c.owner, Sent: m.copy != 0, Unlettered: c.unlettered()})
	}
}

// errFull stops reading where too much is open.
var errFull = errors.New("too many open messages")

// Advance continues the audit where the last run ended, which the database
// knows: it reads what was delivered since, looks again at what was open, and
// adds up what was posted since. It must not run twice at the same time
// (ErrFenced). What is wrong stays among the findings until it is repaired.
//
// It does not look again at what is accounted for and final: changes behind the
// system's back are found by Run.
func Advance(ctx context.Context, o Options) (*Progress, error) {
	began := time.Now()
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	a := &auditor{Options: o, step: &step{}, report: &Report{Started: began.UTC(), Findings: []Finding{}}}
	a.report.Books.Assets = []AssetTotal{}
	p := &Progress{}
	for _, part := range []struct {
		name string
		run  func(context.Context, *Progress) error
	}{
		{"fix the end of " + stream.Events, func(ctx context.Context, _ *Progress) error { return a.fix(ctx) }},
		{"account for messages", a.proceed},
		{"explain suspects", func(ctx context.Context, _ *Progress) error { return a.explainSuspects(ctx) }},
		{"read assets", func(ctx context.Context, _ *Progress) error { return a.readAssets(ctx) }},
		{"check the ledger", a.ledger},
		{"check dead letters", a.checkLetters},
		{"store the mark", a.conclude},
	} {
		if err := part.run(ctx, p); err != nil {
			return nil, fmt.Errorf("audit: %s: %w", part.name, err)
		}
	}
	a.report.Seconds = time.Since(began).Seconds()
	a.report.Clean = a.report.Problems == 0
	p.Report, p.Unlettered = *a.report, a.unlettered
	return p, nil
}

// proceed looks again at what is open, and then at what was delivered since the
// mark. What was not delivered is in flight, and is not read.
func (a *auditor) proceed(ctx context.Context, p *Progress) error {
	s := a.step
	var err error
	if s.mark, err = a.readMark(ctx); err != nil {
		return err
	}
	var carried []*message
	if !s.mark.goneBack {
		if carried, err = a.readOpen(ctx); err != nil {
			return err
		}
	}
	for len(carried) > 0 {
		n := min(len(carried), readBatch)
		if err := a.account(ctx, carried[:n]); err != nil {
			return err
		}
		carried = carried[n:]
	}
	a.report.Sum.Messages = 0 // those were counted when they were read
	end := min(a.report.Stream.Last, max(a.delivered, s.mark.seq))
	upTo := min(end, s.mark.seq+maxStep)
	err = a.readOn(ctx, upTo)
	switch {
	case errors.Is(err, errFull):
	case err != nil:
		return err
	default:
		s.mark.seq = max(s.mark.seq, upTo)
	}
	p.More = s.mark.seq < end && !errors.Is(err, errFull)
	return nil
}

// readOn reads and accounts from the mark on, and moves it.
func (a *auditor) readOn(ctx context.Context, upTo uint64) error {
	return a.readAll(ctx, a.step.mark.seq+1, upTo, func(ctx context.Context, p *page) error {
		if len(a.step.open)+a.suspects.n >= maxOpen {
			return errFull
		}
		if err := a.tally(ctx, p.messages, p.found); err != nil {
			return err
		}
		end := p.messages[len(p.messages)-1]
		a.step.mark.seq, a.step.mark.last = end.seq, place{end.seq, end.stored}
		return nil
	})
}

// explainSuspects reads the letters of the sources that have suspects which a
// letter might explain, and looks again at the others. What was noted of letters
// is cheaper to read, and read again after them: a letter is noted before it is
// removed.
func (a *auditor) explainSuspects(ctx context.Context) error {
	if err := a.superseded(ctx); err != nil {
		return err
	}
	sources := map[string]bool{}
	for key := range a.suspects.by {
		sources[key.Source] = true
	}
	for source := range sources {
		err := dlq.List(ctx, a.JS, dlq.Filter{Source: source}, func(l *dlq.Letter) error {
			a.acquit(l)
			return nil
		})
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
	}
	if err := a.superseded(ctx); err != nil {
		return err
	}
	return a.again(ctx)
}

// conclude stores the mark and turns the run's counts into those of all runs.
func (a *auditor) conclude(ctx context.Context, p *Progress) error {
	s, now := a.step, a.report.Sum
	total := &s.mark.sum
	total.Messages += now.Messages
	for t := applied; t < inFlight; t++ {
		*total.counter(t) += *now.counter(t)
	}
	if err := s.save(ctx, a); err != nil {
		return err
	}
	a.report.Sum = *total
	a.report.Sum.InFlight, a.report.Sum.Unaccounted = now.InFlight, now.Unaccounted
	if waiting := a.report.Stream.Last - min(s.mark.seq, a.report.Stream.Last); waiting > 0 { // not delivered, or not read yet
		a.report.Sum.Messages += int(waiting) //nolint:gosec // far below 2⁶³
		a.report.Sum.InFlight += int(waiting) //nolint:gosec // as above
	}
	if err := a.missed(ctx, &s.mark); err != nil {
		return err
	}
	p.Accounted, p.Open, p.Unaccounted = s.mark.seq, len(s.open), s.wrong
	for _, m := range s.open {
		if p.FirstOpen == 0 || m.seq < p.FirstOpen {
			p.FirstOpen = m.seq
		}
	}
	return nil
}

// checkLetters counts the parked events and looks for those without a letter: no
// sequence, one that the stream does not have, or one of an earlier stream.
func (a *auditor) checkLetters(ctx context.Context, p *Progress) error {
	if err := a.Pool.QueryRow(ctx, `SELECT count(*) FROM events WHERE state = 'failed'`).Scan(&p.Parked); err != nil {
		return fmt.Errorf("count parked events: %w", err)
	}
	a.report.Letters.Failed = p.Parked
	var created time.Time
	var first, last int64
	deleted := []int64{}
	letters, err := a.JS.Stream(ctx, stream.DLQ)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		created = a.now
	case err != nil:
		return err
	default:
		info, err := letters.Info(ctx, jetstream.WithDeletedDetails(true))
		if err != nil {
			return err
		}
		created, first, last = info.Created, int64(info.State.FirstSeq), int64(info.State.LastSeq) //nolint:gosec // far below 2⁶³
		a.report.Letters.Stored = int(info.State.Msgs)                                             //nolint:gosec // as above
		for _, n := range info.State.Deleted {
			deleted = append(deleted, int64(n)) //nolint:gosec // as above
		}
	}
	numbers, err := a.find(ctx, fmt.Sprintf(`
		SELECT no
		FROM events
		WHERE state = 'failed'
		  AND CASE WHEN dlq_seq IS NULL THEN decided_at < now() - interval '%d milliseconds'
		           ELSE dlq_seq < %d OR dlq_seq > %d OR dlq_seq = ANY($2) OR decided_at < $1
		      END
		ORDER BY no
		LIMIT %d`, a.Grace.Milliseconds(), first, last, maxUnlettered), created, deleted)
	if err != nil {
		return err
	}
	return a.letter(ctx, numbers)
}
