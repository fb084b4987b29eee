package contender

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	wm "github.com/ThreeDotsLabs/watermill"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/config"
)

const (
	// watermillSubscribers is how many messages are handled at once, each over a
	// connection of its own; more only wait for the merchant's row.
	watermillSubscribers = 16
	watermillNakDelay    = 50 * time.Millisecond
	watermillStop        = 20 * time.Second
)

// watermill publishes in the request. Its router hands each message to a handler
// that applies it in a transaction with a row for the event's id.
var watermill = Contender{
	Name: Watermill, Queue: true,
	prepare: prepareWatermill,
	fill: func(ctx context.Context, cfg *config.Config, charges []charge) error {
		marshal := new(wmnats.NATSMarshaler)
		return fillStream(ctx, cfg, charges, func(c charge) (*nats.Msg, error) {
			return marshal.Marshal(subject, message.NewMessage(c.ID, c.body))
		})
	},
	watch: watchStream,
	open:  openWatermill,
}

// jetStreamConfig is that of the package which Watermill recommends for
// production. The event's id is the message's id, so that the broker refuses what
// it has seen in the last two minutes; the row refuses the rest.
func jetStreamConfig() wmnats.JetStreamConfig {
	return wmnats.JetStreamConfig{
		TrackMsgId:    true,
		AckAsync:      true, // an ack that is lost meets the row
		DurablePrefix: durable,
		// Without it the client acks what was only closed upon.
		SubscribeOptions: []nats.SubOpt{nats.ManualAck()},
	}
}

// prepareWatermill makes the consumer, too: one made by a subscriber is removed by
// the same.
func prepareWatermill(ctx context.Context, cfg *config.Config) error {
	if err := prepareStream(ctx, cfg); err != nil {
		return err
	}
	nc, err := nats.Connect(cfg.NATS.URL)
	if err != nil {
		return fmt.Errorf("connect to nats: %w", err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		return fmt.Errorf("open jetstream: %w", err)
	}
	_, err = js.AddConsumer(Stream, &nats.ConsumerConfig{
		Durable: durable, DeliverGroup: durable, DeliverSubject: nc.NewRespInbox(),
		FilterSubject: subject, DeliverPolicy: nats.DeliverAllPolicy,
		AckPolicy: nats.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: ackPending,
	}, nats.Context(ctx))
	if err != nil {
		return fmt.Errorf("create consumer: %w", err)
	}
	return nil
}

func openWatermill(ctx context.Context, group *errgroup.Group, cfg *config.Config, _ zerolog.Logger, parts Parts) (store, error) {
	logger := wm.NewSlogLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	options := []nats.Option{nats.Name("contender"), nats.MaxReconnects(-1)}
	if parts.Work {
		if err := routeWatermill(ctx, group, cfg, options, logger); err != nil {
			return nil, err
		}
	}
	publisher, err := wmnats.NewPublisher(wmnats.PublisherConfig{
		URL: cfg.NATS.URL, NatsOptions: options, JetStream: jetStreamConfig(),
	}, logger)
	if err != nil {
		return nil, err
	}
	closeAfter(ctx, group, func() { _ = publisher.Close() }) // all it published was acked
	return func(_ context.Context, c charge) error {
		return publisher.Publish(subject, message.NewMessage(c.ID, c.body))
	}, nil
}

func routeWatermill(ctx context.Context, group *errgroup.Group, cfg *config.Config, options []nats.Option, logger wm.LoggerAdapter) error {
	pool, err := openPool(ctx, cfg, watermillSubscribers)
	if err != nil {
		return err
	}
	subscriber, err := wmnats.NewSubscriber(wmnats.SubscriberConfig{
		URL: cfg.NATS.URL, NatsOptions: options,
		QueueGroupPrefix: durable, SubscribersCount: watermillSubscribers,
		AckWaitTimeout: ackWait, CloseTimeout: watermillStop,
		NakDelay:  wmnats.NewStaticDelay(watermillNakDelay),
		JetStream: jetStreamConfig(),
	}, logger)
	if err != nil {
		return err
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: watermillStop}, logger)
	if err != nil {
		return err
	}
	router.AddConsumerHandler("charges", subject, subscriber, func(msg *message.Message) error {
		c, err := readCharge(msg.Payload)
		if err != nil {
			return err
		}
		return applyOnce(msg.Context(), pool, c)
	})
	group.Go(func() error {
		defer pool.Close()
		return router.Run(ctx)
	})
	return nil
}
