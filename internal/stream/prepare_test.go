package stream_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/stream"
)

func TestPrepare(t *testing.T) {
	t.Parallel()

	t.Run("refuses a silent monitoring address of a server that answers", func(t *testing.T) {
		t.Parallel()
		cfg := configOf(broker(t))
		web := httptest.NewServer(http.NotFoundHandler())
		web.Close()
		cfg.MonitorURL = web.URL
		_, err := stream.Prepare(t.Context(), open(t, cfg), cfg, zerolog.Nop(), nil)
		require.ErrorIs(t, err, stream.ErrDurability)
		require.ErrorContains(t, err, "correct nats.monitor_url")
	})

	t.Run("waits for a server that went away after it was connected to", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		first := broker(t, func(o *server.Options) { o.StoreDir, o.Port, o.HTTPPort = dir, free(t), free(t) })
		cfg := configOf(first)
		conn := open(t, cfg)
		first.Shutdown()
		first.WaitForShutdown()

		var log lines
		type result struct {
			proof stream.Proof
			err   error
		}
		done := make(chan result, 1)
		go func() {
			proof, err := stream.Prepare(t.Context(), conn, cfg, zerolog.New(&log), nil)
			done <- result{proof, err}
		}()
		require.Eventually(t, func() bool { return strings.Contains(strings.Join(log.all(), ""), "trying again") }, time.Minute, 5*time.Millisecond)

		broker(t, func(o *server.Options) {
			o.StoreDir = dir
			o.Port = portOf(t, strings.TrimPrefix(cfg.URL, "nats://"))
			o.HTTPPort = portOf(t, strings.TrimPrefix(cfg.MonitorURL, "http://"))
		})
		got := <-done
		require.NoError(t, got.err)
		require.Equal(t, stream.Verified, got.proof)
	})
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	require.NoError(t, err)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	return port
}
