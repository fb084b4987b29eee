package operator

import (
	"context"
	"strings"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// assetCode is the code of an asset as a person writes it: in lower case, too.
func assetCode(code string) string { return strings.ToUpper(code) }

// knownAsset returns the code of an asset that the ledger knows, and refuses others: a
// filter that is mistyped selects nothing. An empty one selects all.
func knownAsset(ctx context.Context, q ledger.Querier, code string) (string, error) {
	if code == "" {
		return "", nil
	}
	assets, err := ledger.DeclaredAssets(ctx, q)
	if err != nil {
		return "", err
	}
	asset, ok := assets.Lookup(assetCode(code))
	if !ok {
		return "", exit.Usagef("asset %s is neither an ISO 4217 code nor one that the ledger knows; a worker that starts with it under assets: makes it known", printable(code))
	}
	return asset.Code, nil
}
