package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

func TestTheEnvironmentWinsOverTheFile(t *testing.T) {
	t.Parallel()
	path := write(t, `
receiver: {listen: 127.0.0.1:1, admin: 127.0.0.1:2}
worker: {admin: 127.0.0.1:3}
nats: {url: nats://file, monitor_url: http://file}
database: {url: "${NOT_SET}"}
redis: {url: redis://file}
`)
	vars := []string{
		"RECEIVER_LISTEN", "127.0.0.1:11", "RECEIVER_ADMIN", "127.0.0.1:12", "WORKER_ADMIN", "127.0.0.1:13",
		"NATS_URL", "nats://env", "NATS_MONITOR_URL", "http://env",
		"DATABASE_URL", "postgres://env", "REDIS_URL", "redis://env",
	}
	cfg, err := config.Load(path, env(vars...))
	require.NoError(t, err)
	require.Equal(t, vars, []string{
		"RECEIVER_LISTEN", cfg.Receiver.Listen, "RECEIVER_ADMIN", cfg.Receiver.Admin, "WORKER_ADMIN", cfg.Worker.Admin,
		"NATS_URL", cfg.NATS.URL, "NATS_MONITOR_URL", cfg.NATS.MonitorURL,
		"DATABASE_URL", cfg.Database.URL.Reveal(), "REDIS_URL", cfg.Redis.URL.Reveal(),
	})

	cfg, err = config.Load(write(t, ""), env(vars...))
	require.NoError(t, err)
	require.Equal(t, "nats://env", cfg.NATS.URL)
}

func TestAnEmptyVariableLeavesTheFileAlone(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(write(t, "redis: {url: redis://file}\n"), env("REDIS_URL", ""))
	require.NoError(t, err)
	require.Equal(t, "redis://file", cfg.Redis.URL.Reveal())
}

func TestAWrongVariableIsNamedAndNotShown(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"DATABASE_URL: must start with one of postgres://, postgresql://"},
		faults(t, "", env("DATABASE_URL", "mysql://user:hunter2@db")))
}

func TestVariablesAreExpandedInSecretsKeysAndURLsOnly(t *testing.T) {
	t.Parallel()
	vars := env("PORT", "8080", "HOST", "db", "A", "one", "B", "${C}")
	require.Equal(t, []string{"1:21: receiver.listen: variables are expanded in secrets, public keys and URLs only"},
		faults(t, "receiver: {listen: '127.0.0.1:${PORT}'}\n", vars))

	cfg, err := config.Load(write(t, `
database: {url: "postgres://${HOST}:5432/${HOST}"}
sources: {s: {provider: stripe, secret: "$x-${A}-${B}", public_keys: ["${A}${B}"], audience: "${A}", rules: [{when: "'${A}' != ''", transfers: []}]}}
`), vars)
	require.NoError(t, err)
	require.Equal(t, "postgres://db:5432/db", cfg.Database.URL.Reveal())
	// What a variable holds is not expanded again, and a lone $ is a $.
	require.Equal(t, "$x-one-${C}", cfg.Sources[0].Secrets[0].Reveal())
	require.Equal(t, "one${C}", cfg.Sources[0].PublicKeys[0].Value)
	require.Equal(t, "${A}", cfg.Sources[0].Audience.Value)
	require.Equal(t, "'${A}' != ''", cfg.Sources[0].Rules[0].When.Value)
	// A key of several lines ends with the block's last line.
	cfg, err = config.Load(write(t, `
sources:
  s:
    provider: stripe
    secrets:
      - |
        -----BEGIN KEY-----
        a
        -----END KEY-----
      - two
    rules: [{when: 'true', transfers: []}]
`), vars)
	require.NoError(t, err)
	require.Equal(t, "-----BEGIN KEY-----\na\n-----END KEY-----", cfg.Sources[0].Secrets[0].Reveal())
	require.Equal(t, []string{"1:59: sources.s.public_keys[0]: variable GONE is not set or empty"},
		faults(t, `sources: {s: {provider: wise, audience: a, public_keys: ["${GONE}"]}}`, vars))
}
