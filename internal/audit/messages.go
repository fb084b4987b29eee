package audit

import (
	"context"
	"crypto/sha256"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
)

const (
	// readBatch is how many messages are read at a time, and how many keys one
	// query looks up.
	readBatch = stream.ReadBatch
	// readAhead is how many batches are looked up while another one is counted.
	readAhead = 2
)

// page is a batch of messages; found are their rows once done is closed.
type page struct {
	messages []*message
	found    map[dedupe.Key]*dedupe.Row
	err      error
	done     chan struct{}
}

// message is one message of EVENTS on its way into the sum.
type message struct {
	seq     uint64
	stored  time.Time
	key     dedupe.Key
	hash    [32]byte
	redrive bool
	// copy is the message with which this one was sent again; 0 if none.
	copy uint64
	// carried is set if an earlier run has read the message, so that its bytes
	// are not at hand.
	carried bool
	// open is set while the message is in audit_open.
	open bool
	// event is nil if the message holds none, or once its meaning is known.
	event *envelope.Event
	// meaning is set once somebody asked for it.
	meaning *dedupe.Content
	// raw is kept in a survey.
	raw *envelope.Stored
}

// messages accounts for the stream up to the fixed end.
func (a *auditor) messages(ctx context.Context) error {
	return a.readAll(ctx, max(a.report.Stream.First, 1), a.report.Stream.Last, func(ctx context.Context, p *page) error {
		return a.tally(ctx, p.messages, p.found)
	})
}

// readAll calls each for the messages from first up to last, in their order,
// with their rows: some batches are looked up while one is counted.
func (a *auditor) readAll(ctx context.Context, first, last uint64, each func(context.Context, *page) error) error {
	pages := make(chan *page, readAhead)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(pages)
		for next := first; next <= last; {
			batch, err := a.readBatch(ctx, next, last)
			if err != nil || len(batch) == 0 { // what follows was deleted
				return err
			}
			next = batch[len(batch)-1].seq + 1
			p := &page{messages: batch, done: make(chan struct{})}
			group.Go(func() error {
				defer close(p.done)
				p.found, p.err = a.lookUp(ctx, p.messages)
				return p.err
			})
			select {
			case pages <- p:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	group.Go(func() error {
		for p := range pages {
			<-p.done
			if p.err != nil {
				return p.err
			}
			if err := each(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

// readBatch reads messages from sequence first on up to last, past gaps.
func (a *auditor) readBatch(ctx context.Context, first, last uint64) ([]*message, error) {
	stored, err := stream.Read(ctx, a.JS, first, last)
	if err != nil {
		return nil, err
	}
	batch := make([]*message, len(stored))
	for i, raw := range stored {
		batch[i] = a.decode(raw)
	}
	return batch, nil
}

// fetch returns one message of EVENTS; envelope.ErrNotStored if it is not there.
func (a *auditor) fetch(ctx context.Context, seq uint64) (*envelope.Stored, error) {
	return envelope.ReadOne(ctx, a.JS, stream.Events, seq)
}

// decode reads a message as the worker does.
func (a *auditor) decode(raw *envelope.Stored) *message {
	m := &message{seq: raw.Seq, stored: raw.Time, hash: sha256.Sum256(raw.Data)}
	if a.survey != nil {
		m.raw = raw
	}
	event, err := envelope.Decode(raw.Header, raw.Data)
	if err != nil {
		m.key = dedupe.Unreadable(dedupe.Position{StreamCreated: a.created, Seq: raw.Seq})
		return m
	}
	m.event, m.redrive = event, event.Redrive > 0
	m.key = dedupe.Key{Source: event.Source, ID: event.ID}
	return m
}

// account puts a batch of messages into the sum.
func (a *auditor) account(ctx context.Context, batch []*message) error {
	found, err := a.lookUp(ctx, batch)
	if err != nil {
		return err
	}
	return a.tally(ctx, batch, found)
}

// tally puts a batch of messages into the sum, by their rows.
func (a *auditor) tally(ctx context.Context, batch []*message, found map[dedupe.Key]*dedupe.Row) error {
	for _, m := range batch {
		class, err := a.classify(ctx, m, found)
		if err != nil {
			return err
		}
		a.report.Sum.Messages++
		if class.problem != "" && a.suspect(m, class) {
			continue // it is counted when it has been looked at again
		}
		a.count(m, class)
	}
	return nil
}

// lookUp reads the rows of messages: those of their keys, and where these do
// not explain the bytes, those of parked conflicts, and what was sent again.
func (a *auditor) lookUp(ctx context.Context, batch []*message) (map[dedupe.Key]*dedupe.Row, error) {
	keys := make([]dedupe.Key, len(batch))
	for i, m := range batch {
		keys[i] = m.key
	}
	found, err := dedupe.Read(ctx, a.Pool, keys)
	if err != nil {
		return nil, err
	}
	var variants []dedupe.Key
	for _, m := range batch {
		if row := found[m.key]; row == nil || row.BodyHash != m.hash {
			variants = append(variants, dedupe.Conflict(m.key, m.hash))
		}
	}
	if len(variants) > 0 {
		conflicts, err := dedupe.Read(ctx, a.Pool, variants)
		if err != nil {
			return nil, err
		}
		maps.Copy(found, conflicts)
	}
	return found, a.copied(ctx, batch, found)
}
