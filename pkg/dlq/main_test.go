package dlq_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dlq"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker runs a real nats-server of the test's own, since the stream has one
// name, with the streams as the programs make them.
func broker(t testing.TB) jetstream.JetStream {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, MaxPayload: 2 << 20,
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 4 << 30, NoLog: true, NoSigs: true,
	})
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(20*time.Second))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	conn, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	require.NoError(t, stream.Ensure(t.Context(), js, config.NATS{Replicas: 1, EventsMaxBytes: 1 << 30, DLQMaxBytes: 1 << 30}))
	return js
}

// letter is a letter with every part set.
func letter() dlq.Letter {
	return dlq.Letter{
		Source: "stripe", EventID: "evt_1", Variant: "conflict:00",
		Reason: dlq.RuleError, Error: "no such key: amount", Attempts: 3,
		FirstSeen: time.Date(2024, 5, 1, 10, 0, 0, 123456789, time.UTC), OriginSeq: 42,
		Header: nats.Header{"ce-id": {"evt_1"}, "Onceledger-H-X-Two": {"a", "b"}, "Onceledger-Redrive": {"2"}},
		Data:   []byte(`{"id":"evt_1"}`),
	}
}

func park(t testing.TB, js jetstream.JetStream, l dlq.Letter) uint64 {
	t.Helper()
	seq, err := dlq.Park(t.Context(), js, l)
	require.NoError(t, err)
	return seq
}

func list(t testing.TB, js jetstream.JetStream, filter dlq.Filter) []*dlq.Letter {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var all []*dlq.Letter
	require.NoError(t, dlq.List(ctx, js, filter, func(l *dlq.Letter) error { all = append(all, l); return nil }))
	return all
}
