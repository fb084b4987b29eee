package contender

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/config"
)

const (
	// tutorialWorkers is how many messages are handled at once; more only wait for
	// the merchant's row.
	tutorialWorkers = 16
	// tutorialMark is how long an id is remembered.
	tutorialMark     = 24 * time.Hour
	tutorialNakDelay = 50 * time.Millisecond
)

// tutorial is what is written most often: the request publishes, and a consumer
// asks Redis whether it is the first, posts, and acks. A crash between the two
// loses the event, and a Redis that forgets doubles it.
var tutorial = Contender{
	Name: Tutorial, Queue: true,
	prepare: prepareStream,
	fill: func(ctx context.Context, cfg *config.Config, charges []charge) error {
		return fillStream(ctx, cfg, charges, func(c charge) (*nats.Msg, error) {
			return &nats.Msg{Subject: subject, Data: c.body, Header: nats.Header{}}, nil
		})
	},
	watch: watchStream,
	open:  openTutorial,
}

func openTutorial(ctx context.Context, group *errgroup.Group, cfg *config.Config, log zerolog.Logger, parts Parts) (store, error) {
	js, err := openStream(cfg)
	if err != nil {
		return nil, err
	}
	if !parts.Work {
		closeAfter(ctx, group, js.Conn().Close)
	} else if err := consume(ctx, group, cfg, log, js); err != nil {
		return nil, err
	}
	return func(ctx context.Context, c charge) error {
		if _, err := js.Publish(ctx, subject, c.body); err != nil {
			return fmt.Errorf("publish event: %w", err)
		}
		return nil
	}, nil
}

// consumer is what the workers share.
type consumer struct {
	pool  *pgxpool.Pool
	redis *redis.Client
	log   zerolog.Logger
}

func consume(ctx context.Context, group *errgroup.Group, cfg *config.Config, log zerolog.Logger, js jetstream.JetStream) error {
	pool, err := openPool(ctx, cfg, tutorialWorkers)
	if err != nil {
		return err
	}
	options, err := redis.ParseURL(cfg.Redis.URL.Reveal())
	if err != nil {
		return fmt.Errorf("read redis address: %w", err)
	}
	options.PoolSize = tutorialWorkers
	w := &consumer{pool: pool, redis: redis.NewClient(options), log: log}
	pull, err := js.CreateOrUpdateConsumer(ctx, Stream, jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: ackPending,
	})
	if err != nil {
		return fmt.Errorf("create consumer: %w", err)
	}
	messages, err := pull.Messages()
	if err != nil {
		return fmt.Errorf("consume events: %w", err)
	}
	context.AfterFunc(ctx, messages.Stop)
	group.Go(func() error {
		defer js.Conn().Close()
		defer w.redis.Close()
		defer pool.Close()
		var workers errgroup.Group
		for range tutorialWorkers {
			workers.Go(func() error { return w.loop(context.WithoutCancel(ctx), messages) })
		}
		return workers.Wait()
	})
	return nil
}

func (w *consumer) loop(ctx context.Context, messages jetstream.MessagesContext) error {
	for {
		msg, err := messages.Next()
		if errors.Is(err, jetstream.ErrMsgIteratorClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read message: %w", err)
		}
		if err := w.handle(ctx, msg.Data()); err != nil {
			w.log.Warn().Err(err).Msg("not applied")
			err = msg.NakWithDelay(tutorialNakDelay)
			if err != nil {
				w.log.Warn().Err(err).Msg("not delayed")
			}
			continue
		}
		if err := msg.Ack(); err != nil {
			w.log.Warn().Err(err).Msg("not acknowledged")
		}
	}
}

func (w *consumer) handle(ctx context.Context, body []byte) error {
	c, err := readCharge(body)
	if err != nil {
		return err
	}
	key := "processed:" + c.ID
	first, err := w.redis.SetNX(ctx, key, 1, tutorialMark).Result()
	if err != nil {
		return fmt.Errorf("mark event: %w", err)
	}
	if !first {
		return nil
	}
	if err := apply(ctx, w.pool, c); err != nil {
		if unmarked := w.redis.Del(ctx, key).Err(); unmarked != nil {
			return fmt.Errorf("unmark event: %w", errors.Join(err, unmarked))
		}
		return err
	}
	return nil
}
