package keeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/resend"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

const (
	// maxSweep bounds the messages that one round sends again, so that what is
	// swept does not crowd out what arrives; a round that reached it is followed
	// by another at once.
	maxSweep = 2000
	// parkTimeout bounds the wait for one letter's PubAck.
	parkTimeout = 10 * time.Second
)

// sweep repairs what the audit found, by kind. It changes nothing where an
// event is merely in flight: a message counts as lost only once it was answered,
// and a row as overdue only once nothing can come for it.
func (k *keeper) sweep(ctx context.Context, p *audit.Progress) (more bool, err error) {
	events, err := k.JS.Stream(ctx, stream.Events)
	if err != nil {
		return false, fmt.Errorf("open stream %s: %w", stream.Events, err)
	}
	if !stream.Incarnation(events.CachedInfo().Created).Equal(p.Stream.Created) {
		return true, nil // another stream than the one that was audited
	}
	s := &sweep{keeper: k, p: p, counts: map[string]int{}, sender: &resend.Sender{
		Pool: k.Pool, JS: k.JS, Events: events, Stream: p.Stream, Actor: actor, Verb: dedupe.VerbSweep,
	}}
	defer s.tell()
	if more, err = s.lost(ctx); err != nil {
		return false, err
	}
	if err := s.unlettered(ctx); err != nil {
		return false, err
	}
	if k.steady.IsZero() || time.Since(k.steady) < k.Grace {
		return more, nil // after an outage everything is overdue, and comes by itself
	}
	return more, s.overdue(ctx)
}

// sweep is one run.
type sweep struct {
	*keeper
	p            *audit.Progress
	sender       *resend.Sender
	counts       map[string]int
	unrepairable int
	// copies are where other deliveries of lost events lie; nil until asked for.
	copies map[audit.Content]uint64
}

// lost sends the messages again that were answered and have no outcome: the copy
// is decided as any delivery is.
func (s *sweep) lost(ctx context.Context) (more bool, err error) {
	var copies []*resend.Copy
	for _, u := range s.p.Unaccounted {
		// A row that names this message or waits is not repaired by a copy, unless
		// all it waits for is its letter; a second copy of what stands under
		// another content is for a person.
		if u.Owner || u.Kind == audit.Undecided && !u.Unlettered || u.Kind == audit.OtherContent && u.Sent {
			if u.Kind == audit.OtherContent {
				s.unrepairable++
			}
			continue
		}
		if len(copies) == maxSweep {
			more = true
			break
		}
		c, err := s.copy(ctx, u)
		if err != nil {
			return false, err
		}
		if c != nil {
			copies = append(copies, c)
		}
	}
	err = s.sender.Send(ctx, copies, s.record(ctx), nil)
	for _, c := range copies {
		if c.Sent != 0 {
			s.counts[string(c.Kind)]++
		}
	}
	return more, err
}

// copy makes the copy of a message, nil where there is none. A message that
// holds no event is parked instead.
func (s *sweep) copy(ctx context.Context, u audit.Unaccounted) (*resend.Copy, error) {
	c, err := s.sender.Copy(ctx, u)
	var unreadable *resend.NoEventError
	switch {
	case errors.Is(err, resend.ErrGone):
		s.unrepairable++
		return nil, nil
	case errors.As(err, &unreadable):
		err = s.sender.Park(ctx, u, unreadable)
		if err == nil {
			s.counts["unreadable"]++
		}
		return nil, ignore(err, dedupe.ErrState)
	}
	return c, err
}

// record writes one action for all copies, before they are published.
func (s *sweep) record(ctx context.Context) func(pgx.Tx, []*resend.Copy) error {
	return func(tx pgx.Tx, copies []*resend.Copy) error {
		var detail resend.Detail
		for _, c := range copies {
			detail.Add(c.Unaccounted)
		}
		a := dedupe.Action{Actor: actor, Verb: dedupe.VerbSweep, Note: "accepted, answered, and without an outcome", Detail: detail}
		return dedupe.Record(ctx, tx, a, nil)
	}
}

// ignore returns err unless it is harmless.
func ignore(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}

// overdue sends events again that wait, or whose attempt has begun, and for
// which nothing will come any more.
func (s *sweep) overdue(ctx context.Context) error {
	answered := dedupe.Position{StreamCreated: s.p.Stream.Created, Seq: s.p.Stream.AckFloor}
	rows, err := dedupe.Overdue(ctx, s.Pool, answered, s.Grace, s.LongOverdue, maxSweep)
	if err != nil || len(rows) == 0 {
		return err
	}
	since, err := s.sender.Undelivered(ctx)
	if err != nil {
		return err
	}
	letters := &resend.Letters{JS: s.JS}
	for _, row := range rows {
		if !since.IsZero() && since.Before(row.Decided.Add(s.Grace)) {
			continue // a copy may be among what is still to be delivered
		}
		_, err := s.sender.Undecided(ctx, row, nil, letters, fmt.Sprintf("%s, and nothing came for it", row.State))
		switch {
		case errors.Is(err, resend.ErrNoBytes):
			s.unrepairable++
		case err == nil:
			s.counts[string(audit.Undecided)]++
		case !errors.Is(err, dedupe.ErrState):
			return err
		}
	}
	return nil
}

// tell counts the repairs and logs them in one line.
func (s *sweep) tell() {
	s.metrics.set("sweep_unrepairable", float64(s.unrepairable))
	if len(s.counts) == 0 {
		return
	}
	repaired := zerolog.Dict()
	for kind, n := range s.counts {
		s.metrics.sweeps.WithLabelValues(kind).Add(float64(n))
		repaired.Int(kind, n)
	}
	s.Log.Warn().Int("unrepairable", s.unrepairable).Dict("repaired", repaired).
		Str(telemetry.KeyStream, stream.Events).Msg("the sweep repaired what was missing")
}
