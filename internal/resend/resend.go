// Package resend sends messages of EVENTS again whose events the database does
// not know, or knows only as undecided: by itself for the sweep, and by hand for
// a replay.
//
// Guarantee: a copy has the bytes and headers of its message, with
// Onceledger-Redrive one higher, and meets the event's row as any delivery does,
// so that one copy too many is a duplicate and moves no money. Two processes
// that send again at one time send one copy: who sends claims first, in the
// database. A claim whose owner dies holds for a minute.
//
//	sender := &resend.Sender{Pool: pool, JS: js, Events: events, Stream: report.Stream, Actor: "keeper", Verb: dedupe.VerbSweep}
//	c, err := sender.Copy(ctx, unaccounted)
//	err = sender.Send(ctx, []*resend.Copy{c}, nil, nil) // c.Sent, c.Err
package resend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/faultpoint"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

const (
	// publishTimeout bounds the wait for one copy's PubAck.
	publishTimeout = 10 * time.Second
	// cleanTimeout bounds what is still done after a failure.
	cleanTimeout = 5 * time.Second
	// namedEvents bounds the events that one recorded action names.
	namedEvents = 50
)

// What keeps a message from being sent again.
var (
	// ErrGone means that the stream has the message no more.
	ErrGone = errors.New("the message is no longer in the stream")
	// ErrNoBytes means that neither a message nor a dead letter has what the
	// event's row was made of.
	ErrNoBytes = errors.New("nothing has the event's bytes any more")
)

// NoEventError means that a message holds no event, and so has no copy: Park is
// for it.
type NoEventError struct {
	Raw   *envelope.Stored
	cause error
}

func (e *NoEventError) Error() string { return e.cause.Error() }

// Unwrap returns what is wrong with the message.
func (e *NoEventError) Unwrap() error { return e.cause }

// Sender sends messages of one incarnation of EVENTS again.
type Sender struct {
	Pool   *pgxpool.Pool
	JS     jetstream.JetStream
	Events jetstream.Stream
	// Stream says up to where messages were answered when it was looked.
	Stream audit.Stream
	// Actor and Verb are what the recorded actions name.
	Actor string
	Verb  dedupe.Verb
}

// Copy is a message to send again, and what became of it.
type Copy struct {
	audit.Unaccounted
	Raw *envelope.Stored
	// Sent is the sequence of the copy, 0 where there is none: somebody else has
	// the message in hand, or Err says why not.
	Sent uint64
	Err  error

	msg *nats.Msg
	// perhaps is set where nobody knows whether the broker has the copy.
	perhaps bool
}

func (c *Copy) content() audit.Content { return audit.Content{Key: c.Key, Hash: c.Hash} }

// Copy reads a message and makes its copy. It fails with ErrGone, or with a
// NoEventError.
func (s *Sender) Copy(ctx context.Context, u audit.Unaccounted) (*Copy, error) {
	raw, err := envelope.ReadOne(ctx, s.JS, stream.Events, u.Seq)
	if errors.Is(err, envelope.ErrNotStored) {
		return nil, fmt.Errorf("read message %d: %w", u.Seq, ErrGone)
	}
	if err != nil {
		return nil, err
	}
	return NewCopy(u, raw)
}

// NewCopy makes the copy of a message that was read. It fails with a NoEventError.
func NewCopy(u audit.Unaccounted, raw *envelope.Stored) (*Copy, error) {
	event, err := envelope.Decode(raw.Header, raw.Data)
	if err != nil {
		return nil, &NoEventError{raw, err}
	}
	msg, err := Again(raw, event.Redrive+1)
	if err != nil {
		return nil, err
	}
	return &Copy{Unaccounted: u, Raw: raw, msg: msg}, nil
}

// Again is a stored message as it is sent again for the n-th time.
func Again(m *envelope.Stored, n int) (*nats.Msg, error) {
	letter := dlq.Letter{Header: m.Header, Data: m.Data} // which knows what to leave out
	return letter.Message(n)
}

// Send claims the contents of copies, lets record write into the same
// transaction what is sent, and publishes: a record without its copies is
// repeated, copies without their record are not explained. Of two copies with
// one content the first is sent. still, asked after the claim, says which are to
// be sent yet; both may be nil. The errors of publishing are in the copies, too.
// What was not sent is free to be claimed again; what perhaps was, after a minute.
func (s *Sender) Send(ctx context.Context, copies []*Copy, record func(pgx.Tx, []*Copy) error, still func([]*Copy) ([]*Copy, error)) error {
	chosen, err := s.claim(ctx, copies, record)
	if err != nil {
		return err
	}
	faultpoint.Reach(faultpoint.Swept)
	left := chosen
	if still != nil && len(chosen) > 0 {
		if left, err = still(chosen); err != nil {
			return errors.Join(err, s.release(ctx, chosen))
		}
	}
	failed := s.publish(ctx, left)
	sent := make(map[audit.Content]uint64, len(left))
	for _, c := range left {
		if c.Sent != 0 {
			sent[c.content()] = c.Sent
		}
	}
	// Also where ctx has ended: what was stored should not be sent twice.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	if len(sent) > 0 {
		if err := audit.Sent(ctx, s.Pool, s.Stream.Created, sent); err != nil {
			return errors.Join(failed, err)
		}
	}
	return errors.Join(failed, s.release(ctx, chosen))
}

func (s *Sender) claim(ctx context.Context, copies []*Copy, record func(pgx.Tx, []*Copy) error) (chosen []*Copy, err error) {
	if len(copies) == 0 {
		return nil, nil
	}
	contents := make([]audit.Content, len(copies))
	for i, c := range copies {
		contents[i] = c.content()
	}
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		claimed, err := audit.Claim(ctx, tx, s.Stream.Created, s.Stream.AckFloor, contents)
		if err != nil {
			return err
		}
		for i, c := range copies {
			if claimed[contents[i]] {
				chosen = append(chosen, c)
				delete(claimed, contents[i])
			}
		}
		if record == nil || len(chosen) == 0 {
			return nil
		}
		return record(tx, chosen)
	})
	return chosen, err
}

// release gives the claims of those back that were certainly not sent.
func (s *Sender) release(ctx context.Context, chosen []*Copy) error {
	var rest []audit.Content
	for _, c := range chosen {
		if c.Sent == 0 && !c.perhaps {
			rest = append(rest, c.content())
		}
	}
	if len(rest) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	return audit.Release(ctx, s.Pool, s.Stream.Created, rest)
}

// publish stores copies, in their order, and returns the first error.
func (s *Sender) publish(ctx context.Context, copies []*Copy) error {
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
	for _, c := range copies[len(futures):] {
		c.Err = failed
	}
	for i, f := range futures {
		c := copies[i]
		c.Sent, c.Err = answer(ctx, f)
		if c.Err != nil {
			var refused *jetstream.APIError
			c.perhaps = !errors.As(c.Err, &refused)
			c.Err = fmt.Errorf("send message %d again: %w", c.Seq, c.Err)
			failed = errors.Join(failed, c.Err)
		}
	}
	return failed
}

func answer(ctx context.Context, f jetstream.PubAckFuture) (uint64, error) {
	timeout := time.NewTimer(publishTimeout)
	defer timeout.Stop()
	select {
	case ack := <-f.Ok():
		return ack.Sequence, nil
	case err := <-f.Err():
		return 0, err
	case <-timeout.C:
		return 0, fmt.Errorf("no answer in %s", publishTimeout)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// Detail is what one recorded action says of the copies it is for.
type Detail struct {
	Count int    `json:"count"`
	First uint64 `json:"first_seq"`
	Last  uint64 `json:"last_seq"`
	// Events are the first of them.
	Events []Named `json:"events"`
}

// Named is one message that is sent again.
type Named struct {
	Seq    uint64 `json:"seq"`
	Source string `json:"source"`
	ID     string `json:"event_id"`
}

// Add counts a message.
func (d *Detail) Add(u audit.Unaccounted) {
	if d.Count == 0 || u.Seq < d.First {
		d.First = u.Seq
	}
	d.Count++
	d.Last = max(d.Last, u.Seq)
	if len(d.Events) < namedEvents {
		d.Events = append(d.Events, Named{u.Seq, u.Key.Source, u.Key.ID})
	}
}
