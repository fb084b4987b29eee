// Package receiver takes webhooks: POST /webhooks/{source}. It reads the body
// within a limit, verifies the signature over exactly these bytes, wraps them
// as an envelope, stores that in JetStream by group commit, and only then
// answers with the provider's success.
//
// It guarantees that every delivery answered 2xx is in the stream and synced,
// or is identical to one that is. Whatever it cannot store it answers with 503
// and Retry-After, and keeps nothing of it in memory.
//
//	cat, err := catalog.Load(path, os.LookupEnv)
//	err = receiver.Run(ctx, cat, log) // until ctx ends, then drains
package receiver

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/telemetry"
)

// Run receives webhooks for the sources of cat until ctx ends, then drains and
// returns nil. A broker that is away at the start is waited for; one that may
// lose what it accepted is refused with an error that wraps stream.ErrRefused.
func Run(ctx context.Context, cat *catalog.Catalog, log zerolog.Logger) error {
	return RunWith(ctx, cat, log)
}

// RunWith is Run with options, for benchmarks.
func RunWith(ctx context.Context, cat *catalog.Catalog, log zerolog.Logger, options ...Option) error {
	reg := telemetry.NewRegistry()
	var server atomic.Pointer[Server]
	ready := func(ctx context.Context) error {
		if s := server.Load(); s != nil {
			return s.Ready(ctx)
		}
		return errStarting
	}
	// The admin address outlives the drain, so that both can be watched.
	adminCtx, stopAdmin := context.WithCancel(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return telemetry.ServeAdmin(adminCtx, cat.Config.Receiver.Admin, reg, ready) })
	group.Go(func() error {
		defer stopAdmin()
		return run(ctx, cat, reg, log, &server, options)
	})
	return group.Wait()
}

var errStarting = fmt.Errorf("starting: %w", errAway)

func run(ctx context.Context, cat *catalog.Catalog, reg prometheus.Registerer, log zerolog.Logger, server *atomic.Pointer[Server], options []Option) error {
	cfg := cat.Config
	conn, err := stream.Open(ctx, cfg.NATS, "onceledger-receiver", log)
	if ctx.Err() != nil && err != nil {
		return nil //nolint:nilerr // it was told to stop before it had begun
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	proof, err := stream.Prepare(ctx, conn, cfg.NATS, log, nil)
	if ctx.Err() != nil && err != nil {
		return nil //nolint:nilerr // as above
	}
	if err != nil {
		return err
	}
	s := NewServer(conn, cat, reg, log, options...)
	s.metrics.proof(proof)

	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Receiver.Listen)
	if err != nil {
		return fmt.Errorf("listen for webhooks: %w", err)
	}
	server.Store(s)
	log.Info().Str(telemetry.KeyAddress, l.Addr().String()).Str(telemetry.KeyVersion, telemetry.Version()).
		Str(telemetry.KeyDurability, string(proof)).Int(telemetry.KeyCount, len(cat.Sources)).Msg("receiving webhooks")
	err = s.Serve(ctx, l)
	if err == nil {
		log.Info().Msg("drained")
	}
	return err
}
