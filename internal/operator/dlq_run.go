package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// MovedLetter is what became of one dead letter. Its JSON names are part of the
// public interface.
type MovedLetter struct {
	Seq     uint64 `json:"dlq_seq"`
	Source  string `json:"source"`
	EventID string `json:"event_id"`
	Variant string `json:"variant,omitempty"`
	Reason  string `json:"reason"`
	// Result is redriven, discarded, stale (its event is decided: the letter was
	// deleted), refused (it stays as it was) or failed (repeat the command).
	Result string `json:"result"`
	// Redrive numbers the redriven event's message, and Message is its sequence
	// in EVENTS.
	Redrive int    `json:"redrive,omitempty"`
	Message uint64 `json:"seq,omitempty"`
	Error   string `json:"error,omitempty"`
}

// run is one command at work: it gathers pages, keeps the rate, and counts.
type run struct {
	s          *Session
	verb, done string
	single     bool // named letters: what is not done is an error
	page       []*dlq.Letter
	size       int
	pacer      pacer
	bar        *progressbar.ProgressBar
	count      map[string]int
	refused    map[string]int // by why
	began      time.Time
}

func newRun(s *Session, verb, done string, total int, m LetterMove) *run {
	bar := progressbar.DefaultSilent(int64(total))
	if m.All {
		bar = s.progress(verb, total)
	}
	return &run{
		s: s, verb: verb, done: done, single: !m.All, size: min(letters.Page, m.Rate), pacer: pacer{rate: m.Rate}, bar: bar, began: time.Now(),
		count: map[string]int{}, refused: map[string]int{},
	}
}

type pageMover func([]*dlq.Letter) ([]letters.Result, error)

func (r *run) add(ctx context.Context, l *dlq.Letter, do pageMover) error {
	if r.page = append(r.page, l); len(r.page) < r.size {
		return nil
	}
	return r.flush(ctx, do)
}

// flush moves the page, no sooner than the rate allows.
func (r *run) flush(ctx context.Context, do pageMover) error {
	if len(r.page) == 0 {
		return nil
	}
	if err := r.pacer.wait(ctx, len(r.page)); err != nil {
		return err
	}
	results, err := do(r.page)
	r.page = r.page[:0]
	for _, result := range results {
		if told := r.tell(result); told != nil && (err == nil || r.single) {
			err = errors.Join(err, told) // of a bulk command the first tells enough
		}
	}
	return err
}

// tell prints and counts one result; an error is one that ends the command.
func (r *run) tell(result letters.Result) error {
	l := result.Letter
	moved := MovedLetter{
		Seq: l.Seq, Source: l.Source, EventID: l.EventID, Variant: l.Variant, Reason: string(l.Reason),
		Redrive: result.Redrive, Message: result.Seq,
	}
	err := result.Err
	switch {
	case result.Done:
		moved.Result = r.done
	case result.Was == letters.Stale:
		moved.Result = "stale"
		if r.single {
			err = fmt.Errorf("dead letter %d was stale and is deleted: event %s of %s is %s %s", l.Seq, l.EventID, l.Source, result.Row.State, result.Row.Outcome)
		}
	case errors.Is(err, dlq.ErrNoEnvelope):
		moved.Result, err = "refused", errors.New("the letter holds no event: only a discard can end it")
	case errors.Is(err, letters.ErrBusy), errors.Is(err, letters.ErrRepeated):
		moved.Result = "refused"
	default:
		moved.Result = "failed"
	}
	if err != nil {
		moved.Error = err.Error()
	}
	r.count[moved.Result]++
	_ = r.bar.Add(1) // a progress bar that cannot be drawn is no error
	if r.s.JSON {
		if printed := r.s.object(moved); printed != nil {
			return printed
		}
	}
	if moved.Result == "refused" && !r.single {
		r.refused[moved.Error]++
		return nil
	}
	return err
}

// end prints the sum, also of a command that was cut short.
func (r *run) end(err error) error {
	_ = r.bar.Finish() // as above
	if r.s.JSON {
		return err
	}
	if n := r.count[r.done]; n > 0 || err == nil {
		fmt.Fprintf(r.s.Out, "%s %s in %.1f s\n", count(n, "letter"), r.done, time.Since(r.began).Seconds())
	}
	if n := r.count["stale"]; n > 0 && !r.single {
		fmt.Fprintf(r.s.Out, "%s deleted\n", count(n, "stale letter"))
	}
	for why, n := range r.refused {
		fmt.Fprintf(r.s.Out, "%s refused: %s\n", count(n, "letter"), why)
	}
	if n := r.count["failed"]; n > 0 {
		fmt.Fprintf(r.s.Out, "%s not finished; repeat the command\n", count(n, "letter"))
	}
	return err
}
