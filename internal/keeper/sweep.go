package keeper

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

const (
	// maxSweep bounds the messages that one round sends again, so that what is
	// swept does not crowd out what arrives; a round that reached it is followed
	// by another at once.
	maxSweep = 2000
	// namedEvents bounds the events that one recorded action names.
	namedEvents = 50
	// publishTimeout bounds the wait for one copy's PubAck.
	publishTimeout = 10 * time.Second
)

// sweep repairs what the audit found, by kind. It changes nothing where an
// event is merely in flight: a message counts as lost only once it was answered,
// and a row as overdue only once nothing can come for it.
func (k *keeper) sweep(ctx context.Context, p *audit.Progress) (more bool, err error) {
	s := &sweep{keeper: k, p: p, counts: map[string]int{}}
	if s.events, err = k.JS.Stream(ctx, stream.Events); err != nil {
		return false, fmt.Errorf("open stream %s: %w", stream.Events, err)
	}
	if !s.events.CachedInfo().Created.UTC().Truncate(time.Microsecond).Equal(p.Stream.Created) {
		return true, nil // another stream than the one that was audited
	}
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
	events       jetstream.Stream
	counts       map[string]int
	unrepairable int
}

// lost sends the messages again that were answered and have no outcome: the copy
// is decided as any delivery is.
func (s *sweep) lost(ctx context.Context) (more bool, err error) {
	var copies []*copyOf
	for _, u := range s.p.Unaccounted {
		// A row that names this message or waits is not repaired by a copy; a
		// second copy of what stands under another content is for a person.
		if u.Owner || u.Kind == audit.Undecided || u.Kind == audit.OtherContent && u.Sent {
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
	if len(copies) == 0 {
		return more, nil
	}
	if err := s.record(ctx, copies); err != nil {
		return false, err
	}
	return more, s.publish(ctx, copies)
}

// copyOf is a message that is sent again.
type copyOf struct {
	audit.Unaccounted
	msg *nats.Msg
}

// copy reads a message and returns what is to be published, nil where nothing
// is. One that holds no event is parked instead, since its place is its key.
func (s *sweep) copy(ctx context.Context, u audit.Unaccounted) (*copyOf, error) {
	raw, err := envelope.ReadOne(ctx, s.JS, stream.Events, u.Seq)
	if errors.Is(err, envelope.ErrNotStored) {
		s.unrepairable++
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	event, err := envelope.Decode(raw.Header, raw.Data)
	if err != nil {
		return nil, s.parkUnreadable(ctx, u, raw, err)
	}
	msg, err := again(raw.Header, raw.Data, event.Redrive+1)
	if err != nil {
		return nil, err
	}
	return &copyOf{u, msg}, nil
}

// again is a message with the bytes and headers of a stored one, without what
// the broker wrote.
func again(h nats.Header, data []byte, n int) (*nats.Msg, error) {
	letter := dlq.Letter{Header: nats.Header{}, Data: data}
	for name, values := range h {
		if !strings.HasPrefix(strings.ToLower(name), "nats-") {
			letter.Header[name] = values
		}
	}
	return letter.Message(n)
}

// record writes one action for all copies, before they are published.
func (s *sweep) record(ctx context.Context, copies []*copyOf) error {
	type named struct {
		Seq    uint64 `json:"seq"`
		Source string `json:"source"`
		ID     string `json:"event_id"`
	}
	detail := struct {
		Count int     `json:"count"`
		First uint64  `json:"first_seq"`
		Last  uint64  `json:"last_seq"`
		Names []named `json:"events"` // the first of them
	}{Count: len(copies), First: copies[0].Seq, Last: copies[len(copies)-1].Seq}
	for _, c := range copies[:min(len(copies), namedEvents)] {
		detail.Names = append(detail.Names, named{c.Seq, c.Key.Source, c.Key.ID})
	}
	a := dedupe.Action{Actor: actor, Verb: dedupe.VerbSweep, Note: "accepted, answered, and without an outcome", Detail: detail}
	return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error { return dedupe.Record(ctx, tx, a, nil) })
}

// publish stores the copies and notes where, so that they are not sent twice
// while they are in flight. A crash in between costs duplicates.
func (s *sweep) publish(ctx context.Context, copies []*copyOf) error {
	sent := make(map[uint64]uint64, len(copies))
	var failed error
	futures := make([]jetstream.PubAckFuture, 0, len(copies))
	for _, c := range copies {
		f, err := s.JS.PublishMsgAsync(c.msg)
		if err != nil {
			failed = fmt.Errorf("send message %d again: %w", c.Seq, err)
			break
		}
		futures = append(futures, f)
	}
	for i, f := range futures {
		timeout := time.NewTimer(publishTimeout)
		select {
		case ack := <-f.Ok():
			sent[copies[i].Seq] = ack.Sequence
			s.counts[string(copies[i].Kind)]++
		case err := <-f.Err():
			failed = fmt.Errorf("send message %d again: %w", copies[i].Seq, err)
		case <-timeout.C:
			failed = fmt.Errorf("send message %d again: no answer in %s", copies[i].Seq, publishTimeout)
		case <-ctx.Done():
			failed = context.Cause(ctx)
		}
		timeout.Stop()
		if ctx.Err() != nil {
			break
		}
	}
	if err := audit.Sent(ctx, s.Pool, s.p.Stream.Created, sent); err != nil {
		return err
	}
	return failed
}

// overdue sends events again that wait, or whose attempt has begun, and for
// which nothing will come any more.
func (s *sweep) overdue(ctx context.Context) error {
	answered := dedupe.Position{StreamCreated: s.p.Stream.Created, Seq: s.p.Stream.AckFloor}
	rows, err := dedupe.Overdue(ctx, s.Pool, answered, s.Grace, s.LongOverdue, maxSweep)
	if err != nil || len(rows) == 0 {
		return err
	}
	since, err := s.undelivered(ctx)
	if err != nil {
		return err
	}
	letters := &letterBox{js: s.JS}
	for _, row := range rows {
		if !since.IsZero() && since.Before(row.Decided.Add(s.Grace)) {
			continue // a copy may be among what is still to be delivered
		}
		if err := s.sendAgain(ctx, row, letters); err != nil && !errors.Is(err, dedupe.ErrState) {
			return err
		}
	}
	return nil
}

// undelivered returns when the first message was stored that no worker has been
// given; zero if there is none.
func (s *sweep) undelivered(ctx context.Context) (time.Time, error) {
	consumer, err := s.events.Consumer(ctx, stream.Consumer)
	if err != nil {
		return time.Time{}, fmt.Errorf("read consumer: %w", err)
	}
	if consumer.CachedInfo().NumPending == 0 {
		return time.Time{}, nil
	}
	next, err := s.first(ctx, envelope.Range{From: consumer.CachedInfo().Delivered.Stream + 1})
	if err != nil || next == nil {
		return time.Time{}, err
	}
	return next.Time, nil
}

func (s *sweep) sendAgain(ctx context.Context, row *dedupe.Row, letters *letterBox) error {
	from, err := s.message(ctx, row)
	if err == nil && from == nil {
		from, err = letters.find(ctx, row)
	}
	if err != nil {
		return err
	}
	if from == nil {
		s.unrepairable++
		return nil
	}
	if _, err := again(from.header, from.data, 1); err != nil {
		s.unrepairable++
		return nil //nolint:nilerr // what holds no event cannot be sent
	}
	note := fmt.Sprintf("%s, and nothing came for it", row.State)
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		return dedupe.SendAgain(ctx, tx, row, dedupe.Action{Actor: actor, Note: note})
	})
	if err != nil {
		return err
	}
	msg, err := again(from.header, from.data, row.Redrives)
	if err != nil {
		return err
	}
	publishing, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if _, err := s.JS.PublishMsg(publishing, msg); err != nil {
		return fmt.Errorf("send event %s of %s again: %w", row.ID, row.Source, err)
	}
	s.counts[string(audit.Undecided)]++
	return nil
}

// stored is what an event's message or letter holds.
type stored struct {
	header nats.Header
	data   []byte
	at     time.Time // when the message was stored
}

// message returns the message that row names, nil if the stream has it no more.
func (s *sweep) message(ctx context.Context, row *dedupe.Row) (*stored, error) {
	if !row.StreamCreated.Equal(s.p.Stream.Created) {
		return nil, nil
	}
	raw, err := envelope.ReadOne(ctx, s.JS, stream.Events, row.Seq)
	if errors.Is(err, envelope.ErrNotStored) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(raw.Data) != row.BodyHash {
		return nil, nil
	}
	return &stored{raw.Header, raw.Data, raw.Time}, nil
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
