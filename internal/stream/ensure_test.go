package stream_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/stream"
)

func TestEnsure(t *testing.T) {
	t.Parallel()

	t.Run("creates both streams and accepts them again", func(t *testing.T) {
		t.Parallel()
		cfg := configOf(broker(t))
		conn := open(t, cfg)
		require.NoError(t, stream.Ensure(t.Context(), conn.JS, cfg))
		require.NoError(t, stream.Ensure(t.Context(), conn.JS, cfg))

		events, err := conn.JS.Stream(t.Context(), stream.Events)
		require.NoError(t, err)
		have := events.CachedInfo().Config
		require.Equal(t, jetstream.DiscardNew, have.Discard)
		require.Equal(t, jetstream.LimitsPolicy, have.Retention)
		require.Equal(t, jetstream.FileStorage, have.Storage)
		require.Zero(t, have.MaxAge)
		require.True(t, have.AllowAtomicPublish)
		require.Equal(t, cfg.EventsMaxBytes, have.MaxBytes)
		dlq, err := conn.JS.Stream(t.Context(), stream.DLQ)
		require.NoError(t, err)
		require.Equal(t, []string{"dlq.>"}, dlq.CachedInfo().Config.Subjects)
	})
	t.Run("programs that start together do not trip each other", func(t *testing.T) {
		t.Parallel()
		cfg := configOf(broker(t))
		var group errgroup.Group
		for range 8 {
			conn := open(t, cfg)
			group.Go(func() error { return stream.Ensure(t.Context(), conn.JS, cfg) })
		}
		require.NoError(t, group.Wait())
	})
	t.Run("lists every difference of both streams and changes nothing", func(t *testing.T) {
		t.Parallel()
		cfg := configOf(broker(t))
		conn := open(t, cfg)
		events, dlq := stream.Settings(cfg)
		events.MaxAge, events.Discard, events.AllowAtomicPublish = time.Hour, jetstream.DiscardOld, false
		dlq.MaxBytes, dlq.Subjects = 1<<20, []string{"dlq.*"}
		_, err := conn.JS.CreateStream(t.Context(), events)
		require.NoError(t, err)
		_, err = conn.JS.CreateStream(t.Context(), dlq)
		require.NoError(t, err)

		err = stream.Ensure(t.Context(), conn.JS, cfg)
		require.ErrorIs(t, err, stream.ErrSettings)
		require.ErrorIs(t, err, stream.ErrRefused)
		for _, want := range []string{
			"\n  EVENTS max age: have 1h0m0s, want 0s (nats stream edit EVENTS --max-age 0",
			"\n  EVENTS discard: have DiscardOld, want DiscardNew",
			"\n  EVENTS atomic publish: have false, want true",
			"\n  DLQ max bytes: have 1048576, want 536870912",
			"\n  DLQ subjects: have [dlq.*], want [dlq.>]",
		} {
			require.ErrorContains(t, err, want)
		}
		var diffs stream.SettingsError
		require.ErrorAs(t, err, &diffs)
		require.Len(t, diffs, 5)
		s, err := conn.JS.Stream(t.Context(), stream.Events)
		require.NoError(t, err)
		require.Equal(t, time.Hour, s.CachedInfo().Config.MaxAge)
	})
	t.Run("limits that together exceed the store are refused", func(t *testing.T) {
		t.Parallel()
		cfg := configOf(broker(t, func(o *server.Options) { o.JetStreamMaxStore = 1 << 30 }))
		conn := open(t, cfg)
		err := stream.Ensure(t.Context(), conn.JS, cfg)
		require.ErrorIs(t, err, stream.ErrSettings)
		require.ErrorContains(t, err, "events_max_bytes + dlq_max_bytes: have 1610612736, want at most the store limit of 1073741824")
		_, err = conn.JS.Stream(t.Context(), stream.Events)
		require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "nothing is created half")
	})
	t.Run("without a monitoring address the server's own refusal is explained", func(t *testing.T) {
		t.Parallel()
		cfg := configOf(broker(t, func(o *server.Options) { o.JetStreamMaxStore = 1 << 20 }))
		cfg.MonitorURL = ""
		err := stream.Ensure(t.Context(), open(t, cfg).JS, cfg)
		require.ErrorIs(t, err, stream.ErrSettings)
		require.ErrorContains(t, err, "raise max_file_store")
	})
	t.Run("replicas on a lone server are refused with what to change", func(t *testing.T) {
		t.Parallel()
		cfg := configOf(broker(t))
		cfg.Replicas = 3
		err := stream.Ensure(t.Context(), open(t, cfg).JS, cfg)
		require.ErrorIs(t, err, stream.ErrSettings)
		require.ErrorContains(t, err, "set replicas: 1")
	})
	t.Run("a server without JetStream is refused", func(t *testing.T) {
		t.Parallel()
		cfg := configOf(broker(t, func(o *server.Options) { o.JetStream = false }))
		err := stream.Ensure(t.Context(), open(t, cfg).JS, cfg)
		require.ErrorIs(t, err, stream.ErrSettings)
	})
}

func TestWorkerConsumerIsSharedAndFollowsTheAckWait(t *testing.T) {
	t.Parallel()
	cfg := configOf(broker(t))
	conn := open(t, cfg)
	require.NoError(t, stream.Ensure(t.Context(), conn.JS, cfg))
	for _, wait := range []time.Duration{30 * time.Second, 5 * time.Second} {
		c, err := stream.WorkerConsumer(t.Context(), conn.JS, wait)
		require.NoError(t, err)
		have := c.CachedInfo().Config
		require.Equal(t, wait, have.AckWait)
		require.Equal(t, -1, have.MaxDeliver)
		require.Equal(t, stream.MaxAckPending, have.MaxAckPending)
		require.Empty(t, have.BackOff)
	}
}
