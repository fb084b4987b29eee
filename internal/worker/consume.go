package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/stream"
)

const (
	// lookEvery is how often the stream and the consumer are looked at: the
	// client is not always told that they were removed, or that they have no
	// leader.
	lookEvery = 2 * time.Second
	// lookTimeout bounds one look.
	lookTimeout = 2 * time.Second
)

// errReplaced means that the stream was removed and made again.
var errReplaced = errors.New("the stream was removed and made again")

// prefetch is how many deliveries the client holds ready: one batch for each
// loop, which a worker finishes well within the ack wait.
func (w *worker) prefetch() int { return loops * w.tuning.Batch }

// consume hands deliveries to the loops until ctx ends, then those that the
// client already holds. A consumer or stream that went away is made again.
func (w *worker) consume(ctx context.Context) error {
	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(probeFirst), backoff.WithMaxInterval(probeMost), backoff.WithMaxElapsedTime(0))
	for ctx.Err() == nil {
		ended, err := w.fetch(ctx, wait.Reset)
		if ended {
			return nil
		}
		w.fetching.Down(err)
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
		}
	}
	return nil
}

// fetch consumes until ctx ends (ended) or the consumer is gone.
func (w *worker) fetch(ctx context.Context, started func()) (ended bool, err error) {
	if err := stream.Ensure(ctx, w.js, w.cat.Config.NATS); err != nil {
		return false, err
	}
	if err := w.openEvents(ctx); err != nil {
		return false, err
	}
	consumer, err := stream.WorkerConsumer(ctx, w.js, w.ackWait)
	if err != nil {
		return false, err
	}
	incarnation := w.incarnation()
	gone := make(chan error, 1)
	consuming, err := consumer.Consume(
		func(msg jetstream.Msg) { w.deliveries <- delivery{msg, incarnation} },
		jetstream.PullMaxMessages(w.prefetch()),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			if isGone(err) {
				select {
				case gone <- err:
				default:
				}
			}
		}),
	)
	if err != nil {
		return false, err
	}
	started()
	w.fetching.Up()
	err = w.watch(ctx, consuming, gone)
	if err == nil {
		consuming.Drain()
		<-consuming.Closed()
		return true, nil
	}
	consuming.Stop()
	<-consuming.Closed()
	return false, err
}

// watch returns nil when ctx ends, and why fetching must begin anew otherwise.
// A broker that does not answer is waited for; the client then goes on by itself.
func (w *worker) watch(ctx context.Context, consuming jetstream.ConsumeContext, gone <-chan error) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-gone:
			return err
		case <-consuming.Closed():
			return errors.New("the consumer ended")
		case <-look.C:
		}
		if !w.conn.NC.IsConnected() {
			continue // an outage of its own
		}
		err := w.look(ctx)
		switch {
		case err == nil:
			w.fetching.Up()
		case isGone(err) || errors.Is(err, errReplaced):
			return err
		case ctx.Err() == nil:
			w.fetching.Down(err)
		}
	}
}

// look asks for the stream and the consumer that are fetched from.
func (w *worker) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	events, err := w.js.Stream(ctx, stream.Events)
	if err != nil {
		return fmt.Errorf("look at stream %s: %w", stream.Events, err)
	}
	if !created(events).Equal(w.incarnation()) {
		return errReplaced
	}
	if _, err := events.Consumer(ctx, stream.Consumer); err != nil {
		return fmt.Errorf("look at consumer %s: %w", stream.Consumer, err)
	}
	return nil
}

func isGone(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) ||
		errors.Is(err, jetstream.ErrStreamNotFound)
}
