package worker

import (
	"context"
	"errors"

	"github.com/onceledger/onceledger/internal/faultpoint"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// compare returns how the delivery's content compares to a row: Unsure only to
// one that has come since, which the delivery must be understood for. Where the rules
// have changed since the row was written, it reads the row's message again and
// lets today's rules say what both mean, before any lock is taken. It returns
// nothing where it has put the delivery off, to be read later.
func (l *loop) compare(ctx context.Context, it *item) (func(*dedupe.Row) dedupe.Sameness, error) {
	known, err := dedupe.Read(ctx, l.w.pool, []dedupe.Key{it.key})
	if err != nil {
		return nil, err
	}
	row := known[it.key]
	if row == nil || row.BodyHash == it.content.BodyHash || it.meant() && it.content.Compare(row.Content) != dedupe.Unsure {
		return it.comparison, nil
	}
	var today dedupe.Content
	readable, err := l.read(ctx, it, func() error {
		if !it.meant() {
			it.understood, it.fault = false, nil
			if l.w.understand(ctx, []*item{it}); it.fault != nil {
				return errUnread
			}
		}
		if today = row.Content; it.content.Compare(today) == dedupe.Unsure {
			today, err = l.reread(ctx, row)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case readable == dedupe.Busy:
		it.wait(jitter(heldDelay))
		return nil, nil
	case readable == dedupe.Deadly:
		it.deadly = true
		return func(*dedupe.Row) dedupe.Sameness { return dedupe.Different }, nil
	}
	return func(r *dedupe.Row) dedupe.Sameness {
		if r.BodyHash == row.BodyHash {
			return definite(it.content.Compare(today))
		}
		return it.comparison(r) // superseded meanwhile
	}, nil
}

// errUnread means that the rules panicked or hung at a content that is to be
// compared, so that nobody knows what it means.
var errUnread = errors.New("the rules failed at this content")

// meant reports whether the rules have said what the item is.
func (it *item) meant() bool { return it.understood && it.fault == nil }

// comparison is how the item's content compares to a row's by what is known of both.
func (it *item) comparison(r *dedupe.Row) dedupe.Sameness {
	if !it.understood && r.BodyHash != it.content.BodyHash {
		return dedupe.Unsure // it came meanwhile, and nobody knows yet what this one means
	}
	return definite(it.content.Compare(r.Content))
}

// definite turns doubt into a difference: a conflict that a person sees is
// better than money that nobody does.
func definite(s dedupe.Sameness) dedupe.Sameness {
	if s == dedupe.Unsure {
		return dedupe.Different
	}
	return s
}

// read runs a look at what the item's content means. If it was delivered before,
// whoever had it may have died of that look, which the row of its event cannot
// count, since it has another content or none is there yet: it is counted by itself.
// A look at which the rules fail is left without its end, as by a death. What the
// look found stands, also where its end cannot be recorded now.
func (l *loop) read(ctx context.Context, it *item, look func() error) (dedupe.Readable, error) {
	if it.delivered <= 1 {
		err := look()
		if errors.Is(err, errUnread) && ctx.Err() == nil {
			return dedupe.Busy, nil // counted from its next delivery on
		}
		return dedupe.Begun, err
	}
	reading := dedupe.NewReading(it.key, it.content.BodyHash, it.event.Redrive)
	it.reading.Store(&reading) // whether or not its begin is answered
	bounded, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	readable, err := dedupe.BeginReading(bounded, l.w.pool, reading, l.w.ackWait, crashBudget)
	if err != nil {
		if verdictOf(err) == unavailable {
			l.w.gate.close(err)
		}
		return readable, err
	}
	if readable != dedupe.Begun {
		it.reading.Store(nil)
		return readable, nil
	}
	faultpoint.Reach(faultpoint.Reading)
	err = look()
	if errors.Is(err, errUnread) && ctx.Err() == nil {
		it.reading.Store(nil)
		return dedupe.Busy, nil
	}
	ending, end := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer end()
	if dedupe.EndReadings(ending, l.w.pool, []dedupe.Reading{reading}) == nil {
		it.reading.Store(nil) // else it is owed
	}
	return readable, err
}

// reread returns what the message of a row means by today's rules. A message
// that is gone keeps the meaning it had.
func (l *loop) reread(ctx context.Context, row *dedupe.Row) (dedupe.Content, error) {
	if !row.StreamCreated.Equal(l.w.incarnation()) {
		return row.Content, nil
	}
	stored, err := envelope.ReadOne(ctx, l.w.js, stream.Events, row.Seq)
	if errors.Is(err, envelope.ErrNotStored) {
		return row.Content, nil
	}
	if err != nil {
		return dedupe.Content{}, err
	}
	event, err := envelope.Decode(stored.Header, stored.Data)
	if err != nil {
		return row.Content, nil //nolint:nilerr // unreadable bytes mean what they meant
	}
	first := &item{event: event, content: row.Content, row: &dedupe.Row{}}
	l.w.understand(ctx, []*item{first})
	if first.fault != nil {
		return dedupe.Content{}, errUnread
	}
	return first.content, nil
}
