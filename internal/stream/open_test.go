package stream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/stream"
)

func TestOpen(t *testing.T) {
	t.Parallel()

	t.Run("an older server is refused", func(t *testing.T) {
		t.Parallel()
		for _, version := range []string{"2.14.9", "1.99.0", "nonsense"} {
			_, err := stream.Open(t.Context(), config.NATS{URL: impostor(t, version)}, "test", zerolog.Nop())
			require.ErrorIs(t, err, stream.ErrVersion, version)
			require.ErrorIs(t, err, stream.ErrRefused, version)
			require.ErrorContains(t, err, "have "+version+", want 2.15.0 or newer")
		}
	})
	t.Run("a newer server is accepted", func(t *testing.T) {
		t.Parallel()
		for _, version := range []string{"2.15.0", "2.15.3-RC.1", "2.16.0", "3.0.0"} {
			conn, err := stream.Open(t.Context(), config.NATS{URL: impostor(t, version)}, "test", zerolog.Nop())
			require.NoError(t, err, version)
			conn.Close()
		}
	})
	t.Run("wrong credentials are an error at once and do not print", func(t *testing.T) {
		t.Parallel()
		s := broker(t, func(o *server.Options) { o.Username, o.Password = "ledger", "right" })
		url := strings.Replace(s.ClientURL(), "nats://", "nats://ledger:wrong-secret@", 1)
		_, err := stream.Open(t.Context(), config.NATS{URL: url}, "test", zerolog.Nop())
		require.ErrorIs(t, err, nats.ErrAuthorization)
		require.NotContains(t, err.Error(), "wrong-secret")
	})
	t.Run("a server that is away is waited for until the context ends", func(t *testing.T) {
		t.Parallel()
		url := fmt.Sprintf("nats://127.0.0.1:%d", free(t))
		stop := errors.New("stop")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, stop)
		defer cancel()
		_, err := stream.Open(ctx, config.NATS{URL: url}, "test", zerolog.Nop())
		require.ErrorIs(t, err, stop)
	})
}

// lines is a log that a test reads while others write.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.buf.String()), "\n")
}

func TestOutageIsOneLineAtItsStartAndOneAtItsEnd(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), free(t)
	s := broker(t, func(o *server.Options) { o.StoreDir, o.Port = dir, port })

	var log lines
	conn, err := stream.Open(t.Context(), configOf(s), "test", zerolog.New(&log))
	require.NoError(t, err)
	defer conn.Close()
	status := conn.NC.StatusChanged(nats.RECONNECTING, nats.CONNECTED)
	defer conn.NC.RemoveStatusListener(status)

	s.Shutdown()
	s.WaitForShutdown()
	require.Equal(t, nats.RECONNECTING, <-status)

	t.Run("nothing is buffered meanwhile", func(t *testing.T) {
		require.ErrorIs(t, conn.NC.Publish("events.x", nil), nats.ErrReconnectBufExceeded)
	})
	refuse(t, port, 3)
	broker(t, func(o *server.Options) { o.StoreDir, o.Port = dir, port })
	for <-status != nats.CONNECTED { // each failed try reports RECONNECTING again
	}
	require.Eventually(t, func() bool { return len(log.all()) == 2 }, time.Minute, 5*time.Millisecond)
	require.Contains(t, log.all()[0], "nats is away")
	require.Contains(t, log.all()[1], "nats is back")
}

// refuse takes the server's port and hangs up on the first tries to reconnect.
func refuse(t *testing.T, port, tries int) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	require.NoError(t, err)
	defer l.Close()
	for range tries {
		conn, err := l.Accept()
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
}
