package receiver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
	"golang.org/x/sync/errgroup"
)

// What can become of a message besides being stored. Only errTooLarge and
// errRejected blame the message; after the others the sender should try again.
var (
	errAway     = errors.New("stream is away")
	errFull     = errors.New("stream is full")
	errBusy     = errors.New("too many deliveries wait for the stream")
	errDeadline = errors.New("stream did not answer in time")
	errTooLarge = errors.New("message is larger than the broker takes")
	errRejected = errors.New("broker rejected the message")
)

// inflightSingles bounds single publishes under way at once: enough to hide the
// round trip, since the broker syncs them one after the other anyway. On a
// crowded machine more of them are slower than none (BenchmarkCommit).
const inflightSingles = 4

// commit stores items and settles each of them; it may reorder the slice.
func (p *publisher) commit(items []*pending) {
	items = p.due(items)
	if len(items) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(p.link.context(), publishDeadline)
	defer cancel()
	began, size := time.Now(), len(items)

	var err error
	batched := p.costs.batches(size)
	if !batched {
		err = p.singles(ctx, items)
	} else if err = p.batch(ctx, items); blames(err) {
		// One bad member fails a batch, and the broker does not say which.
		// Nothing of it was stored, so each may go by itself.
		p.observe(split{size})
		err = p.singles(ctx, items)
	} else if err != nil {
		for _, item := range items {
			item.err = err
		}
	}
	took := time.Since(began)
	if err == nil {
		p.costs.learn(size, batched, took)
	}
	// Who is answered finds it counted.
	p.observe(committed{batched: batched, size: size, took: took, err: err})
	for _, item := range items {
		item.settle(item.seq, item.err)
	}
}

// due drops what has waited past its deadline: its sender was told to try
// again, and nothing should be stored after that if we can help it.
func (p *publisher) due(items []*pending) []*pending {
	now, kept := time.Now(), items[:0]
	for _, item := range items {
		p.queued.Add(-item.size)
		if now.After(item.deadline) {
			item.settle(0, errDeadline)
			continue
		}
		kept = append(kept, item)
	}
	return kept
}

// batch stores items as one atomic batch and notes their sequences.
func (p *publisher) batch(ctx context.Context, items []*pending) error {
	msgs := make([]*nats.Msg, len(items))
	for i, item := range items {
		msgs[i] = item.msg
	}
	// Waiting for the first ack costs a round trip and cannot be broken off.
	// Without it a batch that was refused at its first message comes back as
	// incomplete, which is a rejection like others.
	ack, err := jetstreamext.PublishMsgBatch(ctx, p.js, msgs, jetstreamext.BatchFlowControl{AckFirst: false})
	if err != nil {
		return translate(err)
	}
	if ack.Stream != p.stream {
		return fmt.Errorf("%w: stored in stream %q, not %q", errAway, ack.Stream, p.stream)
	}
	first := ack.Sequence - uint64(len(items)) + 1
	p.stored(first, ack.Sequence)
	for i, item := range items {
		item.seq = first + uint64(i)
	}
	return nil
}

// singles stores each item by itself and notes its outcome. The error is that of
// an item, for the record only.
func (p *publisher) singles(ctx context.Context, items []*pending) error {
	var group errgroup.Group
	group.SetLimit(inflightSingles)
	for _, item := range items {
		unbatch(item.msg)
		group.Go(func() error {
			seq, err := p.single(ctx, item.msg)
			item.seq, item.err = seq, err
			return err
		})
	}
	err := group.Wait()

	var first, last uint64
	for _, item := range items {
		if item.err == nil {
			last = max(last, item.seq)
			if first == 0 || item.seq < first {
				first = item.seq
			}
		}
	}
	if last > 0 {
		p.stored(first, last)
	}
	return err
}

func (p *publisher) single(ctx context.Context, msg *nats.Msg) (uint64, error) {
	if ctx.Err() != nil {
		return 0, errAway
	}
	ack, err := p.js.PublishMsg(ctx, msg)
	if err != nil {
		return 0, translate(err)
	}
	if ack.Stream != p.stream {
		return 0, fmt.Errorf("%w: stored in stream %q, not %q", errAway, ack.Stream, p.stream)
	}
	return ack.Sequence, nil
}

// unbatch takes a failed batch's marks off a message: with them the broker
// would take it for a part of another batch.
func unbatch(msg *nats.Msg) {
	msg.Reply = ""
	msg.Header.Del(jetstreamext.BatchIDHeader)
	msg.Header.Del(jetstreamext.BatchSeqHeader)
	msg.Header.Del(jetstreamext.BatchCommitHeader)
}

// The broker's codes that mean "no room", whichever limit it met.
const (
	codeAccountResources = 10002
	codeInsufficient     = 10023
	codeStorage          = 10047
	codeStoreFailed      = 10077 // with "maximum bytes exceeded", and when a write failed
)

// blames reports whether err is the fault of a message and not of the moment.
func blames(err error) bool {
	return errors.Is(err, errRejected) || errors.Is(err, errTooLarge)
}

// translate maps what the client says to our words. Where the outcome is not
// known it says errAway or errDeadline.
func translate(err error) error {
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return errTooLarge
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("%w: %w", errDeadline, err)
	}
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	switch api.ErrorCode {
	case codeAccountResources, codeInsufficient, codeStorage, codeStoreFailed:
		return fmt.Errorf("%w: %w", errFull, err)
	case jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return fmt.Errorf("%w: %w", errTooLarge, err)
	}
	if api.Code >= http.StatusInternalServerError || api.Code == http.StatusTooManyRequests || api.Code == http.StatusNotFound {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	return fmt.Errorf("%w: %w", errRejected, err)
}
