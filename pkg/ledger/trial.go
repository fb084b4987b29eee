package ledger

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// AssetTotal is what all accounts in one asset add up to, in minor units of any
// size.
type AssetTotal struct {
	Asset
	Accounts        int
	Debits, Credits *big.Int
}

// Equal reports whether debits are credits, as they must be.
func (t *AssetTotal) Equal() bool { return t.Debits.Cmp(t.Credits) == 0 }

// trialPage is how many accounts one statement sums up.
const trialPage = 1000

// TrialBalance returns the totals of each asset, or of the one that is named,
// ordered by asset, as they stood before an instant (see BalanceAt for what that
// means; a zero at means now). What has Settled has equal totals; before that,
// only a REPEATABLE READ transaction does. Now, it reads the accounts in one
// statement, so that it finds what was written to them past this package. For an
// instant it may sum transfers, which have two sides whatever accounts say; that
// costs as much as BalanceAt of every account, a page of them at a time.
func TrialBalance(ctx context.Context, q Querier, at time.Time, asset string) ([]*AssetTotal, error) {
	if at.IsZero() {
		return totals(ctx, q, asset)
	}
	byAsset := make(map[string]*AssetTotal)
	f := AccountFilter{Asset: asset, Limit: trialPage}
	for {
		page, err := BalancesAt(ctx, q, f, at)
		if err != nil {
			return nil, err
		}
		for _, b := range page {
			if !b.OpenAt(at) {
				continue
			}
			t := byAsset[b.Code]
			if t == nil {
				t = &AssetTotal{Asset: b.Asset, Debits: new(big.Int), Credits: new(big.Int)}
				byAsset[b.Code] = t
			}
			t.Accounts++
			t.Debits.Add(t.Debits, big.NewInt(b.Debits))
			t.Credits.Add(t.Credits, big.NewInt(b.Credits))
		}
		if len(page) < trialPage {
			break
		}
		last := page[len(page)-1]
		f.AfterName, f.AfterAsset = last.Account, last.Code
	}
	list := make([]*AssetTotal, 0, len(byAsset))
	for _, code := range slices.Sorted(maps.Keys(byAsset)) {
		list = append(list, byAsset[code])
	}
	return list, nil
}

// totals adds up today's balances.
func totals(ctx context.Context, q Querier, asset string) ([]*AssetTotal, error) {
	found, err := q.Query(ctx, `
		SELECT t.asset, x.exponent, t.accounts, t.debits::text, t.credits::text
		FROM (
			SELECT asset, count(*) AS accounts, sum(debits_posted) AS debits, sum(credits_posted) AS credits
			FROM accounts
			WHERE $1 = '' OR asset = $1
			GROUP BY asset
		) AS t
		LEFT JOIN assets x ON x.code = t.asset
		ORDER BY t.asset`, asset)
	if err != nil {
		return nil, fmt.Errorf("add up accounts: %w", err)
	}
	list, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (*AssetTotal, error) {
		t := AssetTotal{Debits: new(big.Int), Credits: new(big.Int)}
		var exponent *int
		var debits, credits string
		if err := row.Scan(&t.Code, &exponent, &t.Accounts, &debits, &credits); err != nil {
			return nil, err
		}
		t.Exponent = exponentOf(t.Code, exponent)
		t.Debits.SetString(debits, 10)
		t.Credits.SetString(credits, 10)
		return &t, nil
	})
	if err != nil {
		return nil, fmt.Errorf("add up accounts: %w", err)
	}
	return list, nil
}
