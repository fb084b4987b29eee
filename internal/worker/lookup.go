package worker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/onceledger/onceledger/internal/fetch"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// publishTimeout bounds the wait for the PubAck of one event.
const publishTimeout = 5 * time.Second

// errPutOff means that the API is not asked now, since it was away a moment ago.
var errPutOff = errors.New("the API is not asked now")

// lookUp asks the API what a hint is about and stores what it tells. Beside the
// errors of fetch, errPutOff, and those of Postgres and the broker, which cost
// nothing. A fetcher that panics has refused.
func (l *lane) lookUp(ctx context.Context, it *item) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: panic: %v\n%s", fetch.ErrRefused, p, debug.Stack())
		}
	}()
	ask, err := l.source.Fetch.Ask(it.event)
	if err != nil {
		return err
	}
	if known, err := l.known(ctx, it, ask); err != nil || known {
		return err
	}
	if !l.breaker.takes() {
		return errPutOff
	}
	facts, err := l.ask(ctx, it, ask)
	if err != nil {
		return err
	}
	events := make([]*envelope.Event, len(facts))
	for i, f := range facts {
		events[i] = l.source.LookedUp(it.event, envelope.Event{
			ID: f.ID, Type: f.Type, Account: f.Account, Mode: f.Mode, Time: f.Time, Data: f.Body,
		})
	}
	fresh, err := l.fresh(ctx, events)
	if err != nil {
		return err
	}
	if err := l.store(ctx, fresh); err != nil {
		return err
	}
	if len(fresh) == 0 {
		l.count(lookupKnown)
	} else {
		l.count(lookupFetched)
	}
	return nil
}

// ask asks the API and tells the breaker how it went.
func (l *lane) ask(ctx context.Context, it *item, ask fetch.Ask) ([]fetch.Fact, error) {
	began := time.Now()
	facts, err := l.source.Fetch.Facts(ctx, it.event, ask)
	l.w.metrics.lookupTime.Observe(time.Since(began).Seconds())
	switch {
	case ctx.Err() != nil: // a stop, not an answer
	case errors.Is(err, fetch.ErrUnavailable):
		l.breaker.told(err)
	default:
		l.breaker.told(nil) // it answered, whatever it said
	}
	return facts, err
}

// known reports whether the only event that a hint leads to is completed, so that
// nothing has to be asked: what the object became since is not what it tells.
func (l *lane) known(ctx context.Context, it *item, ask fetch.Ask) (bool, error) {
	if ask.ID == "" {
		return false, nil
	}
	event := l.source.LookedUp(it.event, envelope.Event{ID: ask.ID, Account: ask.Account, Mode: ask.Mode})
	rows, err := l.rows(ctx, []*envelope.Event{event})
	if err != nil {
		return false, err
	}
	row := rows[keyOf(event)]
	if row == nil || !row.Standing() {
		return false, nil
	}
	l.count(lookupKnown)
	return true, nil
}

// fresh returns the events that have no outcome yet, or one for another content.
func (l *lane) fresh(ctx context.Context, events []*envelope.Event) ([]*envelope.Event, error) {
	rows, err := l.rows(ctx, events)
	if err != nil {
		return nil, err
	}
	var fresh []*envelope.Event
	for _, e := range events {
		if row := rows[keyOf(e)]; row != nil && row.Terminal() {
			content, err := l.meaning(ctx, e)
			if err != nil {
				return nil, err
			}
			if content.Compare(row.Content) == dedupe.Same {
				continue
			}
		}
		fresh = append(fresh, e)
	}
	return fresh, nil
}

func (l *lane) meaning(ctx context.Context, e *envelope.Event) (dedupe.Content, error) {
	it := &item{event: e, content: dedupe.Content{BodyHash: sha256.Sum256(e.Data)}, row: &dedupe.Row{}}
	if l.w.understand(ctx, []*item{it}); it.fault != nil {
		return dedupe.Content{}, fmt.Errorf("%w: %w", fetch.ErrRefused, it.fault)
	}
	return it.content, nil
}

func (l *lane) rows(ctx context.Context, events []*envelope.Event) (map[dedupe.Key]*dedupe.Row, error) {
	keys := make([]dedupe.Key, len(events))
	for i, e := range events {
		keys[i] = keyOf(e)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	rows, err := dedupe.Read(ctx, l.w.pool, keys)
	if err != nil && verdictOf(err) == unavailable {
		l.w.gate.close(err)
	}
	return rows, err
}

func keyOf(e *envelope.Event) dedupe.Key { return dedupe.Key{Source: e.Source, ID: e.ID} }

// store publishes events in their order, each once the one before is stored.
func (l *lane) store(ctx context.Context, events []*envelope.Event) error {
	for _, e := range events {
		msg, err := e.Msg()
		if err != nil {
			return fmt.Errorf("%w: %w", fetch.ErrRefused, err)
		}
		bounded, cancel := context.WithTimeout(ctx, publishTimeout)
		_, err = l.w.js.PublishMsg(bounded, msg)
		cancel()
		if errors.Is(err, nats.ErrMaxPayload) {
			return fmt.Errorf("%w: %w", fetch.ErrRefused, err)
		}
		if err != nil {
			return fmt.Errorf("store event %s: %w", e.ID, err)
		}
	}
	return nil
}
