package operator

import (
	"context"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// pacer keeps a rate: each wait lasts until what went before has had its time.
type pacer struct {
	rate int // a second
	next time.Time
}

// wait waits for n things to be done next.
func (p *pacer) wait(ctx context.Context, n int) error {
	now := time.Now()
	p.next = later(p.next, now)
	wait := time.NewTimer(p.next.Sub(now))
	defer wait.Stop()
	p.next = p.next.Add(time.Duration(n) * time.Second / time.Duration(p.rate))
	select {
	case <-wait.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// progress draws a bar for a person at the terminal, and nothing elsewhere.
func (s *Session) progress(what string, total int) *progressbar.ProgressBar {
	out := io.Discard
	if s.Terminal {
		out = s.errors()
	}
	return progressbar.NewOptions(total, progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
}
