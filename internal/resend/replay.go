package resend

import (
	"context"
	"errors"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// Result is what became of one message.
type Result struct {
	Planned
	// Sent is the copy's sequence.
	Sent uint64
	// Err is why it was not sent or parked; ErrElsewhere where that is no fault.
	Err error
}

// ErrElsewhere means that somebody else has the message in hand, or that it was
// decided meanwhile.
var ErrElsewhere = errors.New("it is in hand or decided meanwhile")

// Do sends or parks at most ReplayPage planned messages. What is undecided is
// sent last. The error is that of the first message that failed; the results
// have them all, and are those of the messages that were come to.
func (r *Replay) Do(ctx context.Context, list []Planned) ([]Result, error) {
	results := make([]Result, 0, len(list))
	var copies []*Copy
	var lost []Planned
	for _, p := range list {
		if p.Row != nil && p.Row.State != dedupe.Failed {
			continue
		}
		c, err := r.copy(ctx, &p)
		var unreadable *NoEventError
		if errors.As(err, &unreadable) {
			err = r.park(ctx, &p, unreadable)
			results = append(results, Result{Planned: p, Err: err})
		} else if err == nil {
			copies, lost = append(copies, c), append(lost, p)
			continue
		} else {
			results = append(results, Result{Planned: p, Err: err})
		}
		if fatal(err) {
			return results, err
		}
	}
	err := r.Send(ctx, copies, nil, func(claimed []*Copy) ([]*Copy, error) { return r.still(ctx, claimed) })
	for i, c := range copies {
		result := Result{Planned: lost[i], Sent: c.Sent, Err: c.Err}
		if c.Sent == 0 && c.Err == nil {
			result.Err = ErrElsewhere
			if err != nil {
				result.Err = err
			}
		}
		results = append(results, result)
	}
	if err != nil {
		return results, err
	}
	return r.undecided(ctx, list, results)
}

func (r *Replay) undecided(ctx context.Context, list []Planned, results []Result) ([]Result, error) {
	for _, p := range list {
		if p.Row == nil || p.Row.State == dedupe.Failed {
			continue
		}
		seq, err := r.Undecided(ctx, p.Row, p.Raw, &r.letters, r.Note)
		if errors.Is(err, dedupe.ErrState) {
			err = ErrElsewhere
		}
		results = append(results, Result{Planned: p, Sent: seq, Err: err})
		if fatal(err) {
			return results, err
		}
	}
	return results, nil
}

// fatal reports whether an error ends the replay: one that the next message
// would have, too.
func fatal(err error) bool {
	return err != nil && !errors.Is(err, ErrElsewhere) && !errors.Is(err, ErrGone) && !errors.Is(err, ErrNoBytes)
}

func (r *Replay) copy(ctx context.Context, p *Planned) (*Copy, error) {
	if p.Raw != nil {
		return NewCopy(p.Unaccounted, p.Raw)
	}
	return r.Copy(ctx, p.Unaccounted)
}

func (r *Replay) park(ctx context.Context, p *Planned, unreadable *NoEventError) error {
	p.Plan = Park
	err := r.Park(ctx, p.Unaccounted, unreadable)
	if errors.Is(err, dedupe.ErrState) {
		return ErrElsewhere
	}
	return err
}

// still drops the copies of messages that were accounted for between the look
// at their rows and the claim: another's copy may have been answered.
func (r *Replay) still(ctx context.Context, claimed []*Copy) ([]*Copy, error) {
	list := make([]audit.Surveyed, len(claimed))
	for i, c := range claimed {
		list[i] = audit.Surveyed{Unaccounted: c.Unaccounted, Raw: c.Raw}
	}
	now, err := r.Survey.Look(ctx, list)
	if err != nil {
		return nil, err
	}
	var left []*Copy
	for i, c := range claimed {
		if now[i].Kind != "" && !now[i].Waiting {
			left = append(left, c)
		}
	}
	return left, nil
}
