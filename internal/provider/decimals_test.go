package provider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// What a provider counts otherwise is known to ISO 4217, and differs from it.
func TestDecimalsDifferFromTheStandard(t *testing.T) {
	t.Parallel()
	var assets *ledger.Assets
	for _, name := range Names() {
		for code, decimals := range presets[name].decimals {
			asset, ok := assets.Lookup(code)
			require.True(t, ok, "%s of %s", code, name)
			require.NotEqual(t, asset.Exponent, decimals, "%s of %s", code, name)
		}
	}
	for name, want := range map[string]map[string]int{
		"stripe":         {"ISK": 2, "UGX": 2, "MGA": 0},
		"adyen":          {"CLP": 2, "ISK": 2, "CVE": 0, "IDR": 0},
		"adyen-platform": {"CLP": 2, "ISK": 2, "CVE": 0, "IDR": 0},
		"checkout":       {"CLP": 2},
		"paypal":         nil,
	} {
		require.Equal(t, want, mustNew(t, sourceOf(t, name)).Decimals(), name)
	}
}
