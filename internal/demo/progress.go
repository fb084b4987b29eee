package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/stream"
)

const (
	// stallWait is how long the workers may go on without an answer, longer than
	// the ack wait, before the run has failed.
	stallWait = 20 * time.Second
	drainPoll = 50 * time.Millisecond
)

// progress is how far the workers are.
type progress struct {
	stored     int // messages of EVENTS
	waiting    int // not delivered yet
	unanswered int // delivered, and not acknowledged
	deliveries int // handed out, again and again
}

func (s *stage) progress(ctx context.Context) (progress, error) {
	events, err := s.conn.JS.Stream(ctx, stream.Events)
	if err != nil {
		return progress{}, fmt.Errorf("read progress: %w", err)
	}
	consumer, err := events.Consumer(ctx, stream.Consumer)
	if err != nil {
		return progress{}, fmt.Errorf("read progress: %w", err)
	}
	info, state := consumer.CachedInfo(), events.CachedInfo().State
	// A consumer that was just made says that nothing is pending.
	waiting := max(info.NumPending, state.LastSeq-min(state.LastSeq, info.Delivered.Stream))
	return progress{
		stored:     int(state.Msgs), //nolint:gosec // 20,000 or so
		waiting:    int(waiting),    //nolint:gosec // as above
		unanswered: info.NumAckPending,
		deliveries: int(info.Delivered.Consumer), //nolint:gosec // as above
	}, nil
}

// drain waits until the workers have answered every message, and tells how many
// they have. It is an error when they get stuck.
func (s *stage) drain(ctx context.Context, tell func(answered, of int)) (progress, error) {
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	most, since := -1, time.Now()
	for {
		p, err := s.progress(ctx)
		if err != nil {
			return p, err
		}
		answered := p.stored - p.waiting - p.unanswered
		tell(answered, p.stored)
		if answered > most {
			most, since = answered, time.Now()
		}
		switch {
		case answered == p.stored:
			return p, nil
		case time.Since(since) > stallWait:
			return p, fmt.Errorf("wait for the workers: stuck with %d messages waiting and %d unanswered", p.waiting, p.unanswered)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return p, ctx.Err()
		}
	}
}

// letters counts the dead letters, by reason.
func (s *stage) letters(ctx context.Context) (map[string]int, error) {
	dlq, err := s.conn.JS.Stream(ctx, stream.DLQ)
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	info, err := dlq.Info(ctx, jetstream.WithSubjectFilter(stream.DLQSubjects))
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	count := map[string]int{}
	for subject, n := range info.State.Subjects {
		if tokens := strings.Split(subject, "."); len(tokens) > 1 {
			count[tokens[1]] += int(n) //nolint:gosec // some hundreds
		}
	}
	return count, nil
}
