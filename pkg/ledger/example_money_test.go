package ledger_test

import (
	"errors"
	"fmt"

	"github.com/onceledger/onceledger/pkg/ledger"
)

func ExampleParseMajor() {
	assets, _ := ledger.NewAssets([]ledger.Asset{{Code: "POINTS"}})
	for _, code := range []string{"USD", "KWD", "JPY"} {
		asset, _ := assets.Lookup(code)
		amount, err := ledger.ParseMajor("19.99", asset.Exponent)
		if errors.Is(err, ledger.ErrAmountPrecision) {
			fmt.Println(code, "has no such decimals")
			continue
		}
		fmt.Println(code, amount, "=", ledger.FormatMinor(amount, asset.Exponent))
	}
	// Output:
	// USD 1999 = 19.99
	// KWD 19990 = 19.990
	// JPY has no such decimals
}
