package stream_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
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
	require.True(t, s.ReadyForConnections(time.Minute))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// free returns a port that nobody listens on, below those that the system gives to
// clients: one of theirs may be taken while the server that had it is away.
func free(t *testing.T) int {
	t.Helper()
	for {
		port := 10_000 + rand.IntN(20_000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
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

// impostor greets like a nats-server of another version, as often as a client that
// has no patience comes.
func impostor(t *testing.T, version string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			greet(t, conn, version)
		}
	}()
	return "nats://" + l.Addr().String()
}

// greet plays a server of a version until its client or the test ends.
func greet(t *testing.T, conn net.Conn, version string) {
	defer conn.Close()
	defer context.AfterFunc(t.Context(), func() { _ = conn.Close() })()
	fmt.Fprintf(conn, "INFO {\"server_id\":\"X\",\"version\":%q,\"proto\":1,\"headers\":true,\"max_payload\":1048576}\r\n", version)
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "PING") {
			fmt.Fprint(conn, "PONG\r\n")
		}
	}
}
