package devstack

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

func TestNATSConfigurationHoldsBothStreams(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "onceledger.yaml")
	require.NoError(t, os.WriteFile(file, []byte("sources: {}\n"), 0o600))
	defaults, _ := config.Load(file, func(string) (string, bool) { return "", false }) // the limits are there with faults too

	s := &Stack{state: &state{NATSPort: 4222, MonitorPort: 8222, Password: "12345"}}
	conf := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(conf, []byte(s.natsConf(`/da ta/"x"`)), 0o600))
	options, err := server.ProcessConfigFile(conf)
	require.NoError(t, err)

	require.True(t, options.SyncAlways)
	require.Equal(t, loopback, options.Host)
	require.Equal(t, loopback, options.HTTPHost)
	require.Equal(t, "12345", options.Password)
	require.Equal(t, `/da ta/"x"`, options.StoreDir)
	require.NotZero(t, defaults.NATS.EventsMaxBytes)
	require.Greater(t, options.JetStreamMaxStore, defaults.NATS.EventsMaxBytes+defaults.NATS.DLQMaxBytes)
}

func TestMemorySize(t *testing.T) {
	t.Parallel()
	size, err := memorySize(t.Context())
	require.NoError(t, err)
	require.Greater(t, size, int64(64<<20))
	require.Less(t, size, int64(1<<50))
}

func TestNewestPostgresIsFound(t *testing.T) {
	t.Parallel()
	require.Equal(t, 15, majorOf("/usr/lib/postgresql/15/bin"))
	require.Equal(t, 17, majorOf("/opt/homebrew/opt/postgresql@17/bin"))
	require.Equal(t, 16, majorOf("/usr/pgsql-16/bin"))
	require.Equal(t, 17, majorOf("/opt/homebrew/Cellar/postgresql@17/17.2/bin"))
	require.Zero(t, majorOf("/usr/local/bin"))

	_, err := findPostgres("1")
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, "postgres 1 (Debian:")
}

func TestAccountReachesOnlyOpenFolders(t *testing.T) {
	t.Parallel()
	stranger := &account{uid: 4242, gid: 4242}
	open, err := os.MkdirTemp("", "devstack-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(open) })
	inner := filepath.Join(open, "inner")
	require.NoError(t, os.Mkdir(inner, 0o755))

	ok, err := stranger.reaches(inner)
	require.NoError(t, err)
	require.False(t, ok, "the folder above is 0700")

	require.NoError(t, os.Chmod(open, 0o711))
	ok, err = stranger.reaches(inner)
	require.NoError(t, err)
	require.True(t, ok)
}
