package dlq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

const (
	// listBatch is how many letters one request asks the broker for, and
	// listBytes bounds them: letters may be large.
	listBatch = 500
	listBytes = 8 << 20
	// listTimeout bounds one such request.
	listTimeout = 30 * time.Second
)

// List calls each for every letter that filter selects, oldest first, up to the
// last one stored when it began; letters that are removed meanwhile are passed
// over. It stops at each's first error and returns it. Memory is bounded by a
// batch of 500 letters or 8 MiB.
func List(ctx context.Context, js jetstream.JetStream, filter Filter, each func(*Letter) error) error {
	stream, err := js.Stream(ctx, Stream)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", Stream, err)
	}
	last := stream.CachedInfo().State.LastSeq
	if filter.To != 0 {
		last = min(last, filter.To)
	}
	for next := max(filter.From, 1); next <= last; {
		batch, err := readBatch(ctx, js, filter, next)
		if err != nil {
			return fmt.Errorf("read stream %s: %w", Stream, err)
		}
		if len(batch) == 0 {
			return nil
		}
		if batch[len(batch)-1].Seq < next {
			return fmt.Errorf("read stream %s: the broker answered with letter %d, asked from %d on", Stream, batch[len(batch)-1].Seq, next)
		}
		next = batch[len(batch)-1].Seq + 1
		for _, l := range batch {
			if l.Seq > last {
				return nil
			}
			if !filter.Selects(l) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("read stream %s: %w", Stream, err)
			}
			if err := each(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// readBatch reads letters of the filter's subject from a sequence on, past gaps.
func readBatch(ctx context.Context, js jetstream.JetStream, filter Filter, from uint64) ([]*Letter, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	stored, err := jetstreamext.GetBatch(ctx, js, Stream, listBatch, jetstreamext.GetBatchSeq(from),
		jetstreamext.GetBatchSubject(filter.subject()), jetstreamext.GetBatchMaxBytes(listBytes))
	if err != nil {
		return nil, err
	}
	var batch []*Letter
	for msg, err := range stored {
		if errors.Is(err, jetstreamext.ErrNoMessages) {
			break
		}
		if err != nil {
			return nil, err
		}
		letter := read(msg.Header, msg.Data)
		letter.Seq, letter.Parked = place(msg)
		batch = append(batch, letter)
	}
	return batch, nil
}

// place returns where and when a message was stored. The broker says so in
// headers behind those of the message, which may have some of the same name.
func place(msg *jetstream.RawStreamMsg) (uint64, time.Time) {
	seq, at := msg.Sequence, msg.Time
	if values := msg.Header[jetstream.SequenceHeader]; len(values) > 1 {
		if n, err := strconv.ParseUint(values[len(values)-1], 10, 64); err == nil {
			seq = n
		}
	}
	if values := msg.Header[jetstream.TimeStampHeaer]; len(values) > 1 {
		if t, err := time.Parse(time.RFC3339Nano, values[len(values)-1]); err == nil {
			at = t
		}
	}
	return seq, at
}

// Get returns one letter; ErrNotFound if there is none with that sequence.
func Get(ctx context.Context, js jetstream.JetStream, seq uint64) (*Letter, error) {
	stream, err := js.Stream(ctx, Stream)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", Stream, err)
	}
	msg, err := stream.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, fmt.Errorf("%w: %d", ErrNotFound, seq)
	}
	if err != nil {
		return nil, fmt.Errorf("read dead letter %d: %w", seq, err)
	}
	letter := read(msg.Header, msg.Data)
	letter.Seq, letter.Parked = msg.Sequence, msg.Time
	return letter, nil
}
