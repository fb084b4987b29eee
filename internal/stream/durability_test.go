package stream_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/stream"
)

func TestProveDurability(t *testing.T) {
	t.Parallel()

	t.Run("a server that syncs is verified", func(t *testing.T) {
		t.Parallel()
		proof, err := stream.ProveDurability(t.Context(), configOf(broker(t)), zerolog.Nop())
		require.NoError(t, err)
		require.Equal(t, stream.Verified, proof)
	})
	t.Run("the default of two minutes is refused", func(t *testing.T) {
		t.Parallel()
		cfg := configOf(broker(t, func(o *server.Options) { o.SyncAlways = false }))
		cfg.Durability = "assumed" // what is seen wins over what is said
		_, err := stream.ProveDurability(t.Context(), cfg, zerolog.Nop())
		require.ErrorIs(t, err, stream.ErrDurability)
		require.ErrorIs(t, err, stream.ErrRefused)
		require.ErrorContains(t, err, "set sync_interval: always")
	})
	t.Run("a monitoring address that does not answer is refused", func(t *testing.T) {
		t.Parallel()
		web := httptest.NewServer(http.NotFoundHandler())
		t.Cleanup(web.Close)
		require.ErrorIs(t, stream.CheckDurability(t.Context(), web.URL), stream.ErrDurability)
		web.Close()
		require.ErrorIs(t, stream.CheckDurability(t.Context(), web.URL), stream.ErrDurability)
	})
	t.Run("nobody could look: a warning until it is assumed", func(t *testing.T) {
		t.Parallel()
		cfg := configOf(broker(t))
		cfg.MonitorURL = ""
		var log lines
		proof, err := stream.ProveDurability(t.Context(), cfg, zerolog.New(&log))
		require.NoError(t, err)
		require.Equal(t, stream.Unknown, proof)
		require.Contains(t, log.all()[0], `"level":"warn"`)

		cfg.Durability = "assumed"
		var quiet lines
		proof, err = stream.ProveDurability(t.Context(), cfg, zerolog.New(&quiet))
		require.NoError(t, err)
		require.Equal(t, stream.Assumed, proof)
		require.Equal(t, []string{""}, quiet.all())
	})
}
