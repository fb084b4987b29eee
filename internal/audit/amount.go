package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// readAssets reads what findings print amounts in.
func (a *auditor) readAssets(ctx context.Context) (err error) {
	a.assets, err = ledger.DeclaredAssets(ctx, a.Pool)
	return err
}

// amount says minor units as people do: "12.50 USD".
func (a *auditor) amount(minor int64, asset string) string {
	return a.sum(strconv.FormatInt(minor, 10), asset)
}

// sum is amount for a sum of any size.
func (a *auditor) sum(minor, asset string) string {
	known, ok := a.assets.Lookup(asset)
	switch {
	case asset == "":
		return minor + " (minor units)"
	case !ok:
		return minor + " " + asset + " (minor units)"
	}
	return decimal(json.Number(minor), known.Exponent) + " " + asset
}

// assetsOf returns the assets of those of some operations that are there.
func (a *auditor) assetsOf(ctx context.Context, operations []string) (map[string]string, error) {
	assets := make(map[string]string, len(operations))
	if len(operations) == 0 {
		return assets, nil
	}
	found, err := a.Pool.Query(ctx, `
		SELECT key, asset
		FROM operations
		WHERE key = ANY($1)`, operations)
	if err != nil {
		return nil, fmt.Errorf("read assets of operations: %w", err)
	}
	var key, asset string
	if _, err := pgx.ForEachRow(found, []any{&key, &asset}, func() error { assets[key] = asset; return nil }); err != nil {
		return nil, fmt.Errorf("read assets of operations: %w", err)
	}
	return assets, nil
}
