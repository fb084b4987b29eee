package stream_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker runs a real nats-server in this process; edit changes its options.
func broker(t *testing.T, edit ...func(*server.Options)) *server.Server {
	t.Helper()
	opts := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT,
		HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT,
		JetStream: true, StoreDir: t.TempDir(), SyncAlways: true,
		JetStreamMaxStore: 4 << 30, NoLog: true, NoSigs: true,
	}
	for _, e := range edit {
		e(opts)
	}
	s, err := server.NewServer(opts)
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(10*time.Second))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

func configOf(s *server.Server) config.NATS {
	return config.NATS{
		URL:            s.ClientURL(),
		MonitorURL:     "http://" + s.MonitorAddr().String(),
		Replicas:       1,
		EventsMaxBytes: 1 << 30,
		DLQMaxBytes:    1 << 29,
	}
}

func open(t *testing.T, cfg config.NATS) *stream.Conn {
	t.Helper()
	conn, err := stream.Open(t.Context(), cfg, t.Name(), zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// impostor greets like a nats-server of another version.
func impostor(t *testing.T, version string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		context.AfterFunc(t.Context(), func() { _ = conn.Close() })
		fmt.Fprintf(conn, "INFO {\"server_id\":\"X\",\"version\":%q,\"proto\":1,\"headers\":true,\"max_payload\":1048576}\r\n", version)
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "PING") {
				fmt.Fprint(conn, "PONG\r\n")
			}
		}
	}()
	return "nats://" + l.Addr().String()
}
