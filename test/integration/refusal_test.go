package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/stream"
)

// The exit codes of the programs, as their help says.
const (
	exitUsage   = 2
	exitRefused = 3
)

// refuses wants a program to end with code and to say what to change.
func (s *system) refuses(env []string, program string, code int, says ...string) {
	s.t.Helper()
	env = append(slices.Clone(env), "RECEIVER_LISTEN="+freeAddress(s), "RECEIVER_ADMIN="+freeAddress(s), "WORKER_ADMIN="+freeAddress(s))
	got, out := s.run(env, program, "--config", s.cat.Config.File)
	require.Equal(s.t, code, got, "%s:\n%s", program, out)
	for _, text := range says {
		require.Contains(s.t, out, text, program)
	}
}

func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	s := newSystem(t, base)
	programs := []string{"receiver", "worker"}

	s.step("on a broker that answers before its disk does", func(t *testing.T) {
		broker, err := server.NewServer(&server.Options{
			Host: "127.0.0.1", Port: server.RANDOM_PORT, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT,
			JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		})
		require.NoError(t, err)
		broker.Start()
		t.Cleanup(func() { broker.Shutdown(); broker.WaitForShutdown() })
		require.True(t, broker.ReadyForConnections(10*time.Second))
		at := s.Addresses
		at.NATSURL, at.NATSMonitorURL = broker.ClientURL(), "http://"+broker.MonitorAddr().String()
		for _, program := range programs {
			s.refuses(at.Env(), program, exitRefused, "set sync_interval: always")
		}
	})
	s.step("on streams with other settings", func(t *testing.T) {
		events, dlq := stream.Settings(s.cat.Config.NATS)
		events.MaxAge, events.AllowAtomicPublish = time.Hour, false
		dlq.MaxBytes = 32 << 20
		require.NoError(t, s.js.DeleteStream(t.Context(), stream.Events))
		_, err := s.js.CreateStream(t.Context(), events)
		require.NoError(t, err)
		_, err = s.js.UpdateStream(t.Context(), dlq)
		require.NoError(t, err)
		for _, program := range programs {
			s.refuses(s.Env(), program, exitRefused,
				"EVENTS max age: have 1h0m0s, want 0s", "nats stream edit EVENTS --max-age 0",
				"EVENTS atomic publish: have false, want true",
				"DLQ max bytes: have 33554432, want 67108864", "nats stream edit DLQ --max-bytes 67108864")
		}
		require.NoError(t, s.js.DeleteStream(t.Context(), stream.Events))
		require.NoError(t, s.js.DeleteStream(t.Context(), stream.DLQ))
	})
	s.step("on a database that nobody migrated", func(t *testing.T) {
		at := s.Addresses
		at.DatabaseURL = sharedDatabase(t)
		s.refuses(at.Env(), "worker", exitRefused, "the database is empty", "run `onceledger migrate`")
	})
	s.step("on a schema that is older or newer", func(t *testing.T) {
		for _, change := range []struct{ do, says, undo string }{
			{`INSERT INTO ledger_migrations (version_id, is_applied) VALUES (9999, true)`, "start a newer release",
				`DELETE FROM ledger_migrations WHERE version_id = 9999`},
			{`UPDATE postgres_migrations SET version_id = -1 WHERE version_id > 0`, "run `onceledger migrate` of this release", ``},
		} {
			_, err := s.pool.Exec(t.Context(), change.do)
			require.NoError(t, err)
			s.refuses(s.Env(), "worker", exitRefused, "database schema and program do not fit", change.says)
			_, err = s.pool.Exec(t.Context(), change.undo)
			require.NoError(t, err)
		}
	})
}

func TestBadConfigurationIsExplained(t *testing.T) {
	t.Parallel()
	s := newSystem(t, base)
	for _, fault := range []struct{ old, with, at, says string }{
		{"mode: test", "mode: prod", "prod", `sources.stripe-test.mode: "prod" is not one of live, test`},
		{"amount: body.amount", "amount: bdy.amount", "bdy", "sources.shop.rules[0].transfers[0].amount: undeclared reference to 'bdy'"},
		{"attempts: 3", "attempts: 0", "0, age", "retry.attempts: 0 is outside 1 to 1000"},
	} {
		require.Contains(t, base, fault.old)
		text := strings.Replace(base, fault.old, fault.with, 1)
		require.NoError(t, os.WriteFile(s.cat.Config.File, []byte(text), 0o600))
		for _, program := range []string{"receiver", "worker"} {
			s.refuses(s.Env(), program, exitUsage, fmt.Sprintf("%s:%s: %s", s.cat.Config.File, place(text, fault.at), fault.says))
		}
	}
	missing := filepath.Join(s.dir, "missing.yaml")
	for _, program := range []string{"receiver", "worker"} {
		code, out := s.run(s.Env(), program, "--config", missing)
		require.Equal(t, exitUsage, code)
		require.Contains(t, out, missing)
		code, _ = s.run(s.Env(), program, "--no-such-flag")
		require.Equal(t, exitUsage, code)
	}
}

// place returns line:column of the first needle in text, from 1.
func place(text, needle string) string {
	before, _, _ := strings.Cut(text, needle)
	return fmt.Sprintf("%d:%d", strings.Count(before, "\n")+1, len(before)-strings.LastIndex(before, "\n"))
}
