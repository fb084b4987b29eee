package catalog_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

var update = flag.Bool("update", false, "write the golden files anew")

const example = "../../config/onceledger.example.yaml"

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

func exampleEnv() func(string) (string, bool) {
	return env("STRIPE_WEBHOOK_SECRET", "whsec_stripe", "GITHUB_WEBHOOK_SECRET", "github-secret",
		"ORDERS_WEBHOOK_SECRET", "whsec_c2VjcmV0LWtleS1mb3ItdGVzdHM=", "SHOP_WEBHOOK_SECRET", "shop-secret",
		"POSTGRES_PASSWORD", "password")
}

func load(t *testing.T, yaml string) (*catalog.Catalog, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "onceledger.yaml")
	require.NoError(t, os.WriteFile(path, []byte(yaml), 0o600))
	return catalog.Load(path, env())
}

func TestTheExampleLoads(t *testing.T) {
	t.Parallel()
	cat, err := catalog.Load(example, exampleEnv())
	require.NoError(t, err)
	require.NoError(t, cat.Config.Require(config.NeedNATS, config.NeedDatabase, config.NeedRedis))
	require.Len(t, cat.Sources, 4)
	for _, provider := range []string{"stripe", "github", "standard-webhooks", "hmac"} {
		found := false
		for _, source := range cat.Sources {
			found = found || source.Config.Provider.Value == provider
		}
		require.True(t, found, provider)
	}
	_, ok := cat.Assets.Lookup("POINTS")
	require.True(t, ok)

	require.Equal(t, 10, cat.Sources["stripe"].Retry.Attempts)
	require.Equal(t, config.Retry{Attempts: 20, Age: 24 * time.Hour, Base: time.Second, Cap: 10 * time.Minute}, cat.Sources["shop"].Retry)
}

// The example without its variables is refused (case 46): nothing runs without secrets.
func TestTheExampleNeedsItsSecrets(t *testing.T) {
	t.Parallel()
	_, err := catalog.Load(example, env())
	var faults config.Faults
	require.ErrorAs(t, err, &faults)
	require.Len(t, faults, 5)
	require.ErrorContains(t, err, "sources.stripe.secrets[0]: variable STRIPE_WEBHOOK_SECRET is not set or empty")
}

// Faults of the file, of providers and of expressions are one report.
func TestEveryFaultOfEverySourceIsReported(t *testing.T) {
	t.Parallel()
	_, err := catalog.Load("testdata/faults.yaml", env())
	require.Error(t, err)
	if *update {
		require.NoError(t, os.WriteFile("testdata/faults.golden", []byte(err.Error()+"\n"), 0o600))
	}
	want, readErr := os.ReadFile("testdata/faults.golden")
	require.NoError(t, readErr)
	require.Equal(t, strings.Split(strings.TrimSpace(string(want)), "\n"), strings.Split(err.Error(), "\n"))
}

func TestTheMostSpecificAccountRuleWins(t *testing.T) {
	t.Parallel()
	cat, err := load(t, `
accounts:
  - {match: "*", limit: credits_must_not_exceed_debits, policy: record}
  - {match: "wallet:*", limit: debits_must_not_exceed_credits, policy: enforce}
  - {match: "wallet:h*"}
  - {match: "wallet:house*"}
  - {match: "wallet:house", limit: debits_must_not_exceed_credits, policy: record}
`)
	require.NoError(t, err)
	for name, want := range map[string]string{
		"stripe": "*", "wallet:": "wallet:*", "wallet:bob": "wallet:*", "wallet:harry": "wallet:h*",
		"wallet:house": "wallet:house", "wallet:house2": "wallet:house*", "": "*",
	} {
		rule, ok := cat.AccountRule(name)
		require.True(t, ok, name)
		require.Equal(t, want, rule.Match.Value, name)
	}

	cat, err = load(t, `accounts: [{match: "wallet:*"}]`)
	require.NoError(t, err)
	_, ok := cat.AccountRule("wallet")
	require.False(t, ok)
}

const twoSources = `
sources:
  one: {provider: stripe, secret: long-enough}
  two: {provider: stripe, secret: long-enough}
accounts:
`

// {source} is the name of each source, whichever of them an event is of: an account
// has one declaration.
func TestMarksStandForEverySource(t *testing.T) {
	t.Parallel()
	cat, err := load(t, twoSources+`
  - {match: "clearing:{source}"}
  - {match: "clearing:two", limit: debits_must_not_exceed_credits, policy: record}
  - {match: "clearing:{source}:*"}
  - {match: "clearing:one:*", limit: debits_must_not_exceed_credits, policy: enforce}
  - {match: "clearing:*"}
  - {match: "{source}-{source}"}
`)
	require.NoError(t, err)
	for name, want := range map[string]string{
		"clearing:one": "clearing:{source}", "clearing:two": "clearing:two", "clearing:three": "clearing:*",
		"clearing:one:fees": "clearing:one:*", "clearing:two:fees": "clearing:{source}:*", "clearing:three:fees": "clearing:*",
		"clearing:{source}": "clearing:*", "one-one": "{source}-{source}", "one-two": "",
	} {
		rule, ok := cat.AccountRule(name)
		require.Equal(t, want != "", ok, name)
		require.Equal(t, want, rule.Match.Value, name)
	}
}

func TestWhichAccountsOpenByThemselves(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]struct{ wallet, clearing, other bool }{
		"open": {}, "declared": {other: true}, "explicit": {wallet: true, clearing: true, other: true},
	} {
		cat, err := load(t, "accounts_policy: "+policy+twoSources+`
  - {match: "wallet:*", limit: debits_must_not_exceed_credits, policy: enforce}
  - {match: "clearing:{source}"}
`)
		require.NoError(t, err)
		limit, bounded := cat.Limit("wallet:1")
		require.True(t, bounded)
		require.Equal(t, ledger.Limit{Rule: ledger.DebitsMustNotExceedCredits, Enforce: true, Explicit: want.wallet}, limit, policy)
		for name, explicit := range map[string]bool{"clearing:one": want.clearing, "clearing:none": want.other} {
			limit, bounded = cat.Limit(name)
			require.Equal(t, explicit, bounded, policy)
			require.Equal(t, ledger.Limit{Explicit: explicit}, limit, "%s: %s", policy, name)
		}
	}
}

// An event that would move an account in an asset that is not its own keeps its
// meaning, so that it is compared as ever, and moves nothing.
func TestAssetsOfAccounts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(example)
	require.NoError(t, err)
	decide := func(asset string) rules.Decision {
		path := filepath.Join(t.TempDir(), "onceledger.yaml")
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), "accounts:\n", "accounts:\n"+asset, 1)), 0o600))
		cat, err := catalog.Load(path, exampleEnv())
		require.NoError(t, err)
		d, version := cat.Decide(&envelope.Event{Source: "stripe", ID: "evt_1", Type: "charge.succeeded", Mode: "live", ContentType: "application/json",
			Data: []byte(`{"data":{"object":{"id":"ch_1","customer":"cus_1","amount":1999,"currency":"usd"}}}`)})
		require.NotZero(t, version)
		return d
	}
	free := decide("")
	require.Len(t, free.Transfers, 1)
	for _, allowed := range []string{
		"  - {match: 'wallet:cus_1', asset: USD}\n", "  - {match: 'wallet:cus_*', asset: [EUR, USD]}\n", "  - {match: 'wallet:cus_2', asset: EUR}\n",
		"  - {match: 'wallet:cus_1'}\n  - {match: 'wallet:cus_*', asset: EUR}\n",
	} {
		require.Equal(t, free, decide(allowed), allowed)
	}
	for refused, why := range map[string]string{
		"  - {match: 'wallet:cus_1', asset: EUR}\n":                  "account wallet:cus_1 takes EUR alone, by its declaration wallet:cus_1, and no USD",
		"  - {match: '{source}:receivable', asset: [EUR, POINTS]}\n": "account stripe:receivable takes EUR, POINTS alone, by its declaration {source}:receivable, and no USD",
	} {
		d := decide(refused)
		require.Empty(t, d.Transfers)
		require.Equal(t, dlq.CurrencyMismatch, d.Parked)
		require.EqualError(t, d.Err, why)
		require.Equal(t, free.Fingerprint, d.Fingerprint)
	}
}

// The rules know what the provider says of its events: its spelling of
// currencies, its modes and what its events mean.
func TestRulesKnowTheirProvider(t *testing.T) {
	t.Parallel()
	cat, err := catalog.Load(example, exampleEnv())
	require.NoError(t, err)
	source, now := cat.Sources["stripe"], time.Unix(1_700_000_000, 0)
	decide := func(body string) rules.Decision {
		request, err := source.Sign([]byte(body), "", now)
		require.NoError(t, err)
		require.NoError(t, source.Verify(t.Context(), request, now))
		return source.Rules.Decide(source.Events(request, now)[0])
	}
	const body = `{"id":"evt_1","object":"event","livemode":true,"created":1700000000,"type":"charge.succeeded",
		"data":{"object":{"id":"ch_1","status":"succeeded","customer":"cus_1","amount":1999,"currency":"usd"}}}`

	charge := decide(body)
	require.NoError(t, charge.Err)
	require.Len(t, charge.Transfers, 1)
	require.Equal(t, "stripe:receivable", charge.Transfers[0].Debit)
	require.Equal(t, "wallet:cus_1", charge.Transfers[0].Credit)
	require.Equal(t, "USD", charge.Transfers[0].Asset)
	require.Equal(t, int64(1999), charge.Transfers[0].Amount)

	test := decide(strings.Replace(body, `"livemode":true`, `"livemode":false`, 1))
	require.Empty(t, test.Transfers)
	require.Equal(t, dlq.ModeMismatch, test.Ignored)

	// No rule reads the status, but for Stripe it carries meaning.
	require.Equal(t, charge.Fingerprint, decide(body+" ").Fingerprint)
	require.NotEqual(t, charge.Fingerprint, decide(strings.Replace(body, `"status":"succeeded"`, `"status":"failed"`, 1)).Fingerprint)
}

func TestAnUnreadableFileIsNoFault(t *testing.T) {
	t.Parallel()
	_, err := catalog.Load(filepath.Join(t.TempDir(), "gone.yaml"), env())
	require.ErrorIs(t, err, os.ErrNotExist)
}
