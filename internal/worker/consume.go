package worker

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/stream"
)

// prefetch is how many deliveries the client holds ready: one batch for each
// loop, which a worker finishes well within the ack wait.
func (w *worker) prefetch() int { return loops * w.tuning.Batch }

// consume hands deliveries to the loops until ctx ends, then those that the
// client already holds. A consumer or stream that went away is opened again.
func (w *worker) consume(ctx context.Context) error {
	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(probeFirst), backoff.WithMaxInterval(probeMost), backoff.WithMaxElapsedTime(0))
	fetching := &outage{name: "fetching from " + stream.Events, log: w.log, gauge: w.metrics.away.WithLabelValues("fetch")}
	for ctx.Err() == nil {
		ended, err := w.fetch(ctx, func() { fetching.up(); wait.Reset() })
		if err == nil && ended {
			return nil
		}
		if err != nil {
			fetching.down(err)
		}
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
	gone := make(chan error, 1)
	consuming, err := consumer.Consume(
		func(msg jetstream.Msg) { w.deliveries <- msg },
		jetstream.PullMaxMessages(w.prefetch()),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
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
	select {
	case <-ctx.Done():
		consuming.Drain()
		<-consuming.Closed()
		return true, nil
	case err = <-gone:
	case <-consuming.Closed():
		err = errors.New("the consumer ended")
	}
	consuming.Stop()
	<-consuming.Closed()
	return false, err
}
