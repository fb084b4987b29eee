package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/onceledger/onceledger/internal/resend"
)

// replayRun is one replay at work: it gathers pages, keeps the rate, and counts.
type replayRun struct {
	s      *Session
	replay *resend.Replay
	page   []resend.Planned
	size   int
	pacer  pacer
	bar    *progressbar.ProgressBar
	count  map[string]int
	began  time.Time
}

func newReplayRun(s *Session, r Replay, replay *resend.Replay, total int) *replayRun {
	return &replayRun{
		s: s, replay: replay, size: min(resend.ReplayPage, r.Rate), pacer: pacer{rate: r.Rate},
		bar: s.progress("replay", total), count: map[string]int{}, began: time.Now(),
	}
}

func (r *replayRun) add(ctx context.Context, p resend.Planned) error {
	if r.page = append(r.page, p); len(r.page) < r.size {
		return nil
	}
	return r.flush(ctx)
}

// flush sends the page, no sooner than the rate allows.
func (r *replayRun) flush(ctx context.Context) error {
	if len(r.page) == 0 {
		return nil
	}
	if err := r.pacer.wait(ctx, len(r.page)); err != nil {
		return err
	}
	results, err := r.replay.Do(ctx, r.page)
	r.page = r.page[:0]
	for _, result := range results {
		if told := r.tell(result); told != nil {
			return errors.Join(err, told)
		}
	}
	return err
}

// ReplayedMessage is what became of one message. Its JSON names are part of the
// public interface.
type ReplayedMessage struct {
	Seq     uint64 `json:"seq"`
	Source  string `json:"source"`
	EventID string `json:"event_id"`
	// Why is what was wrong: lost, undecided or other_content.
	Why string `json:"why"`
	// Result is sent, parked (it holds no event), elsewhere (in hand or decided
	// meanwhile), refused (nothing has its bytes) or failed (repeat the command).
	Result string `json:"result"`
	// Copy is the sequence of what was sent.
	Copy  uint64 `json:"copy_seq,omitempty"`
	Error string `json:"error,omitempty"`
}

// tell prints and counts one result.
func (r *replayRun) tell(result resend.Result) error {
	m := ReplayedMessage{Seq: result.Seq, Source: result.Key.Source, EventID: result.Key.ID, Why: result.Why(), Copy: result.Sent}
	switch err := result.Err; {
	case err == nil && result.Plan == resend.Park:
		m.Result = "parked"
	case err == nil:
		m.Result = "sent"
	case errors.Is(err, resend.ErrElsewhere):
		m.Result = "elsewhere"
	case errors.Is(err, resend.ErrGone), errors.Is(err, resend.ErrNoBytes):
		m.Result = "refused"
	default:
		m.Result = "failed"
	}
	if result.Err != nil {
		m.Error = result.Err.Error()
	}
	r.count[m.Result]++
	_ = r.bar.Add(1) // a progress bar that cannot be drawn is no error
	if r.s.JSON {
		return r.s.object(m)
	}
	return nil
}

// end prints the sum, also of a replay that was cut short.
func (r *replayRun) end(err error) error {
	_ = r.bar.Finish() // as above
	if r.s.JSON {
		return err
	}
	if n := r.count["sent"]; n > 0 || err == nil {
		fmt.Fprintf(r.s.Out, "%s sent again in %.1f s; workers decide them now, see: %s audit%s\n",
			count(n, "message"), time.Since(r.began).Seconds(), r.s.command(), r.s.where())
	}
	for _, line := range []struct{ result, text string }{
		{"parked", "parked: they hold no event"},
		{"elsewhere", "left alone: they were decided, or sent by the sweep, meanwhile"},
		{"refused", "not sent: nothing has their bytes any more"},
		{"failed", "not finished; repeat the command"},
	} {
		if n := r.count[line.result]; n > 0 {
			fmt.Fprintf(r.s.Out, "%s %s\n", count(n, "message"), line.text)
		}
	}
	return err
}
