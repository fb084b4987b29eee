package ledger_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/ledger"
)

func TestLookupKnowsISOExponents(t *testing.T) {
	t.Parallel()
	assets, err := ledger.NewAssets(nil)
	require.NoError(t, err)
	// HUF, TWD and IQD are where display digits (CLDR) and ISO 4217 part.
	for code, exponent := range map[string]int{
		"EUR": 2, "USD": 2, "JPY": 0, "KWD": 3, "BHD": 3, "HUF": 2, "TWD": 2, "IQD": 3, "LBP": 2, "CLF": 4, "KRW": 0, "ISK": 0,
	} {
		asset, ok := assets.Lookup(code)
		require.True(t, ok, code)
		require.Equal(t, ledger.Asset{Code: code, Exponent: exponent}, asset)
	}
	// Case 68, and codes without a minor unit.
	for _, code := range []string{"", "XXX", "XTS", "XAU", "XDR", "XBA", "usd", "usd ", "USD ", "US$", "POINTS", "ABC"} {
		_, ok := assets.Lookup(code)
		require.False(t, ok, code)
	}
}

// Case 86: the exponent follows the amount's own currency, never a default.
func TestExponentFollowsTheCurrency(t *testing.T) {
	t.Parallel()
	var assets *ledger.Assets
	for code, want := range map[string]string{"KWD": "12.345", "BHD": "12.345", "JPY": "12345", "EUR": "123.45"} {
		asset, ok := assets.Lookup(code)
		require.True(t, ok)
		require.Equal(t, want, ledger.FormatMinor(12345, asset.Exponent))
	}
}

func TestDeclaredAssets(t *testing.T) {
	t.Parallel()
	assets, err := ledger.NewAssets([]ledger.Asset{{Code: "POINTS"}, {Code: "GEMS_2", Exponent: 18}})
	require.NoError(t, err)
	points, ok := assets.Lookup("POINTS")
	require.True(t, ok)
	require.Zero(t, points.Exponent)
	require.Equal(t, []ledger.Asset{{Code: "GEMS_2", Exponent: 18}, {Code: "POINTS"}}, assets.Declared())
	_, ok = assets.Lookup("EUR")
	require.True(t, ok)
}

func TestDeclarationsAreRefused(t *testing.T) {
	t.Parallel()
	for want, asset := range map[string]ledger.Asset{
		`"EUR" is an ISO 4217 currency`: {Code: "EUR", Exponent: 2},
		`"XXX" means no currency`:       {Code: "XXX"},
		`"XTS" means no currency`:       {Code: "XTS"},
		`"points" is not 2 to 16`:       {Code: "points"},
		`"P" is not 2 to 16`:            {Code: "P"},
		`"" is not 2 to 16`:             {},
		`"1UP" is not 2 to 16`:          {Code: "1UP"},
		`"GEM-S" is not 2 to 16`:        {Code: "GEM-S"},
		`AAAAA" is not 2 to 16`:         {Code: strings.Repeat("A", 17)},
		`exponent 19 is outside 0..18`:  {Code: "GEMS", Exponent: 19},
		`exponent -1 is outside 0..18`:  {Code: "GEMS", Exponent: -1},
	} {
		_, err := ledger.NewAssets([]ledger.Asset{asset})
		require.ErrorContains(t, err, want)
	}
	_, err := ledger.NewAssets([]ledger.Asset{{Code: "GEMS"}, {Code: "GEMS", Exponent: 2}, {Code: "bad"}})
	require.ErrorContains(t, err, `"GEMS" is declared twice`)
	require.ErrorContains(t, err, `"bad" is not`)
}
