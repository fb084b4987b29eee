package contender

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/onceledger/onceledger/internal/config"
)

// Stream is where Watermill and the tutorial keep what they received: on disk,
// every message synced before its answer, as the server is configured.
const Stream = "CONTENDER"

const (
	subject  = "contender"
	durable  = "worker"
	maxBytes = 4 << 30
	// duplicateWindow is the server's default.
	duplicateWindow = 2 * time.Minute
	// ackWait and ackPending are the server's defaults.
	ackWait    = 30 * time.Second
	ackPending = 1000
	// fillBatch is the broker's bound of an atomic batch.
	fillBatch = 1000
)

func openStream(cfg *config.Config) (jetstream.JetStream, error) {
	nc, err := nats.Connect(cfg.NATS.URL, nats.Name("contender"), nats.MaxReconnects(-1))
	if err != nil {
		return nil, fmt.Errorf("connect to nats: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	return js, nil
}

func prepareStream(ctx context.Context, cfg *config.Config) error {
	js, err := openStream(cfg)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: Stream, Subjects: []string{subject},
		Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
		Discard: jetstream.DiscardNew, MaxBytes: maxBytes,
		Duplicates: duplicateWindow, AllowAtomicPublish: true,
	})
	if err != nil {
		return fmt.Errorf("create stream: %w", err)
	}
	return nil
}

// fillStream publishes what message makes of each charge.
func fillStream(ctx context.Context, cfg *config.Config, charges []charge, message func(charge) (*nats.Msg, error)) error {
	js, err := openStream(cfg)
	if err != nil {
		return err
	}
	defer js.Conn().Close()
	for chunk := range slices.Chunk(charges, fillBatch) {
		msgs := make([]*nats.Msg, len(chunk))
		for i, c := range chunk {
			if msgs[i], err = message(c); err != nil {
				return fmt.Errorf("write message: %w", err)
			}
		}
		if _, err := jetstreamext.PublishMsgBatch(ctx, js, msgs); err != nil {
			return fmt.Errorf("publish backlog: %w", err)
		}
	}
	return nil
}

func watchStream(_ context.Context, cfg *config.Config) (Left, func(), error) {
	nc, err := nats.Connect(cfg.NATS.URL)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to nats: %w", err)
	}
	// The older client reads consumers of both kinds.
	js, err := nc.JetStream()
	if err != nil {
		nc.Close()
		return nil, nil, fmt.Errorf("open jetstream: %w", err)
	}
	return func(ctx context.Context) (int, error) { return leftInStream(ctx, js) }, nc.Close, nil
}

func leftInStream(ctx context.Context, js nats.JetStreamContext) (int, error) {
	s, err := js.StreamInfo(Stream, nats.Context(ctx))
	if err != nil {
		return 0, fmt.Errorf("look at stream: %w", err)
	}
	// The stream is new and keeps all: its sequences count its messages. A
	// consumer's NumPending would not do, which is 0 when it was just created.
	total := int(s.State.LastSeq)
	info, err := js.ConsumerInfo(Stream, durable, nats.Context(ctx))
	if errors.Is(err, nats.ErrConsumerNotFound) {
		return total, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at consumer: %w", err)
	}
	return total - int(info.Delivered.Stream) + info.NumAckPending, nil
}
