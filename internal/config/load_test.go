package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

// env is an environment that holds pairs and nothing else.
func env(pairs ...string) func(string) (string, bool) {
	vars := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		vars[pairs[i]] = pairs[i+1]
	}
	return func(name string) (string, bool) {
		s, ok := vars[name]
		return s, ok
	}
}

func write(t *testing.T, yaml string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "onceledger.yaml")
	require.NoError(t, os.WriteFile(path, []byte(yaml), 0o600))
	return path
}

// faults loads yaml and returns the faults without the file's name.
func faults(t *testing.T, yaml string, env func(string) (string, bool)) []string {
	t.Helper()
	path := write(t, yaml)
	_, err := config.Load(path, env)
	if err == nil {
		return nil
	}
	var found config.Faults
	require.ErrorAs(t, err, &found)
	var lines []string
	for _, f := range found {
		require.Equal(t, path, f.File)
		f.File = ""
		lines = append(lines, f.String())
	}
	return lines
}

func TestLoadReadsEveryKey(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load("testdata/full.yaml", env("STRIPE_SECRET", "whsec_one", "DB_PASSWORD", "pa:ss"))
	require.NoError(t, err)

	require.Equal(t, "testdata/full.yaml", cfg.File)
	require.Equal(t, config.Receiver{Listen: ":8443", Admin: "127.0.0.1:9999", MaxBody: 512 << 10}, cfg.Receiver)
	require.Equal(t, config.Worker{Admin: "[::1]:9998", AckWait: 45 * time.Second}, cfg.Worker)
	require.Equal(t, config.NATS{
		URL: "nats://a:4222,nats://b:4222", MonitorURL: "http://a:8222", Durability: "assumed",
		Replicas: 3, EventsMaxBytes: 16 << 30, DLQMaxBytes: 1_000_000,
	}, cfg.NATS)
	require.Equal(t, "postgres://ledger:pa:ss@db/ledger", cfg.Database.URL.Reveal())
	require.Equal(t, "redis://cache:6379/0", cfg.Redis.URL.Reveal())
	require.Equal(t, config.Retry{Attempts: 5, Age: 90 * time.Minute, Base: 500 * time.Millisecond, Cap: 2 * time.Minute}, cfg.Retry)

	require.Len(t, cfg.Assets, 2)
	require.Equal(t, "POINTS", cfg.Assets[0].Code.Value)
	require.Equal(t, 4, cfg.Assets[1].Exponent)
	require.Len(t, cfg.Accounts, 2)
	require.Equal(t, "wallet:*", cfg.Accounts[0].Match.Value)
	require.Equal(t, "debits_must_not_exceed_credits", cfg.Accounts[0].Limit)
	require.Equal(t, "enforce", cfg.Accounts[0].Policy)
	require.Empty(t, cfg.Accounts[1].Limit)
	require.Equal(t, []string{"EUR"}, values(cfg.Accounts[0].Assets))
	require.Equal(t, []string{"EUR", "GEMS"}, values(cfg.Accounts[1].Assets))
	require.Equal(t, "declared", cfg.AccountsPolicy)

	require.Len(t, cfg.Sources, 2)
	stripe, shop := cfg.Sources[0], cfg.Sources[1]
	require.Equal(t, "stripe", stripe.Name.Value)
	require.Equal(t, "stripe", stripe.Provider.Value)
	require.Len(t, stripe.Secrets, 1)
	require.Equal(t, "whsec_one", stripe.Secrets[0].Reveal())
	require.Equal(t, "live", stripe.Mode)
	require.Equal(t, "ignore", stripe.Unmatched)
	require.Zero(t, stripe.Tolerance)
	require.Nil(t, stripe.Retry)
	require.Len(t, stripe.Rules, 2)
	require.Equal(t, `event.type == "charge.succeeded"`, stripe.Rules[0].When.Value)
	require.Len(t, stripe.Rules[0].Transfers, 5)
	require.Equal(t, "body.data.object.paid", stripe.Rules[0].Expect.Value)
	require.False(t, stripe.Rules[0].Transfers[0].RunningTotal)
	require.True(t, stripe.Rules[0].Transfers[4].RunningTotal)
	hold, capture, void := stripe.Rules[0].Transfers[1], stripe.Rules[0].Transfers[2], stripe.Rules[0].Transfers[3]
	require.True(t, hold.Hold)
	require.Equal(t, 168*time.Hour, hold.Expires)
	require.Equal(t, []string{`op("hold", body.id)`, "body.final"}, values([]config.Text{capture.Captures, capture.Final}))
	require.True(t, capture.Fact)
	require.Equal(t, []string{`op("hold", body.id)`, ""}, values([]config.Text{void.Voids, void.Amount}))
	require.Equal(t, "minor(body.data.object.amount)", stripe.Rules[0].Transfers[0].Amount.Value)
	require.Equal(t, `op("order", body.data.object.order)`, stripe.Rules[0].Transfers[0].Parent.Value)
	require.Equal(t, `op("order", body.data.object.order)`, stripe.Rules[0].Transfers[0].Refunds.Value)
	require.Equal(t, "true", stripe.Rules[1].When.Value)
	require.Empty(t, stripe.Rules[1].Transfers)

	require.Equal(t, "test", shop.Mode)
	require.Equal(t, "park", shop.Unmatched)
	require.Equal(t, "shops", shop.OperationScope)
	require.Equal(t, 10*time.Minute, shop.Tolerance)
	require.Equal(t, []string{"first-secret", "second-secret"}, []string{shop.Secrets[0].Reveal(), shop.Secrets[1].Reveal()})
	require.Equal(t, "X-Signature", shop.HMAC.Header)
	require.Equal(t, "sha512=", shop.HMAC.Prefix)
	require.Equal(t, "base64", shop.HMAC.Encoding)
	require.Equal(t, "sha512", shop.HMAC.Algorithm)
	require.Equal(t, "{id}.{timestamp}.{body}", shop.HMAC.Content.Value)
	require.Equal(t, "X-Time", shop.HMAC.TimestampHeader)
	require.Equal(t, "X-Id", shop.HMAC.IDHeader)
	require.Equal(t, "header:X-Id", shop.ID.Value)
	require.Equal(t, "body:event.type", shop.Type.Value)
	require.Equal(t, "body:event.at", shop.Time.Value)
	require.Equal(t, "body:shop", shop.Account.Value)
	require.Equal(t, "body:live", shop.LiveMode.Value)
	require.Equal(t, "body:total", shop.Fingerprint[0].Value)
	// What the source's budget does not say is the global one's.
	require.Equal(t, &config.Retry{Attempts: 2, Age: 90 * time.Minute, Base: 500 * time.Millisecond, Cap: 2 * time.Minute}, shop.Retry)
	// An alias stands for what it names.
	require.Equal(t, "1", shop.Rules[0].Transfers[0].Amount.Value)
}

func values(texts []config.Text) (values []string) {
	for _, t := range texts {
		values = append(values, t.Value)
	}
	return values
}

func TestAnEmptyFileIsTheDefaults(t *testing.T) {
	t.Parallel()
	for _, yaml := range []string{"", "# nothing\n", "---\n", "sources:\nreceiver:\n", "\ufeffsources: {}\n"} {
		cfg, err := config.Load(write(t, yaml), env())
		require.NoError(t, err, yaml)
		require.Equal(t, config.Receiver{Listen: "127.0.0.1:8080", Admin: "127.0.0.1:9080", MaxBody: 1_000_000}, cfg.Receiver)
		require.Equal(t, config.Worker{Admin: "127.0.0.1:9081", AckWait: 30 * time.Second}, cfg.Worker)
		require.Equal(t, config.NATS{URL: "nats://127.0.0.1:4222", Replicas: 1, EventsMaxBytes: 8 << 30, DLQMaxBytes: 2 << 30}, cfg.NATS)
		require.Equal(t, config.Retry{Attempts: 10, Age: 24 * time.Hour, Base: time.Second, Cap: 10 * time.Minute}, cfg.Retry)
		require.Equal(t, "open", cfg.AccountsPolicy)
		require.Empty(t, cfg.Sources)
	}
}

// A mark stands for each source, so that a few of them can mean many accounts.
func TestMarksOfSourcesAreBounded(t *testing.T) {
	t.Parallel()
	var yaml strings.Builder
	yaml.WriteString("accounts:\n")
	for i := range 11 {
		fmt.Fprintf(&yaml, "  - match: \"%d:{source}\"\n", i)
	}
	yaml.WriteString("sources:\n")
	for i := range 1000 {
		fmt.Fprintf(&yaml, "  s%d: {provider: x, secret: long-enough}\n", i)
	}
	require.Equal(t, []string{"12:13: accounts[10].match: with the names of 1000 sources these are more than 10000 accounts"},
		faults(t, yaml.String(), env()))
	require.Empty(t, faults(t, strings.Replace(yaml.String(), `"10:{source}"`, "ten", 1), env()))
}

func TestRequireNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	path := write(t, "sources: {}\n")
	cfg, err := config.Load(path, env())
	require.NoError(t, err)
	require.NoError(t, cfg.Require(config.NeedNATS))
	require.EqualError(t, cfg.Require(config.NeedNATS, config.NeedRedis, config.NeedDatabase),
		path+": database.url: is missing; set it or the variable DATABASE_URL\n"+
			path+": redis.url: is missing; set it or the variable REDIS_URL")

	cfg, err = config.Load(path, env("DATABASE_URL", "postgres:///x", "REDIS_URL", "redis://x"))
	require.NoError(t, err)
	require.NoError(t, cfg.Require(config.NeedNATS, config.NeedRedis, config.NeedDatabase))
}

func TestAMissingFileIsNamed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gone.yaml")
	_, err := config.Load(path, env())
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, path)
	require.NotErrorAs(t, err, new(config.Faults))
}

func TestPathPrefersTheFlagThenTheEnvironment(t *testing.T) {
	t.Parallel()
	require.Equal(t, "onceledger.yaml", config.Path("", env()))
	require.Equal(t, "onceledger.yaml", config.Path("", env("ONCELEDGER_CONFIG", "")))
	require.Equal(t, "b.yaml", config.Path("", env("ONCELEDGER_CONFIG", "b.yaml")))
	require.Equal(t, "a.yaml", config.Path("a.yaml", env("ONCELEDGER_CONFIG", "b.yaml")))
}
