package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// MaxAckPending bounds deliveries without an answer; delayed ones hold places,
// so it is the most events that can wait for a retry at once.
const MaxAckPending = 100_000

// WorkerConsumer creates the durable consumer that all workers share, or
// brings its ack wait up to date. It has no BackOff (that inflates delayed
// naks) and no delivery limit (the budget is in Postgres): an event leaves it
// only by an ack that follows a committed row.
func WorkerConsumer(ctx context.Context, js jetstream.JetStream, ackWait time.Duration) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	consumer, err := js.CreateOrUpdateConsumer(ctx, Events, jetstream.ConsumerConfig{
		Durable:       Consumer,
		Description:   "the worker pool",
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: MaxAckPending,
		ReplayPolicy:  jetstream.ReplayInstantPolicy,
	})
	if err != nil {
		return nil, fmt.Errorf("ensure consumer %s of %s: %w", Consumer, Events, err)
	}
	return consumer, nil
}
