package keeper

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// releaseBatch is how many expired holds one transaction takes off their accounts.
const releaseBatch = 500

// release takes holds that have expired off the rows of their accounts. No limit
// counts them any more; this spares batches on those accounts the look that says so.
// More says that there may be others.
func (k *keeper) release(ctx context.Context) (more bool, err error) {
	if k.Limits == nil {
		return false, nil
	}
	var n int
	err = pgx.BeginFunc(ctx, k.Pool, func(tx pgx.Tx) error {
		n, err = ledger.ReleaseExpired(ctx, tx, k.Limits, releaseBatch)
		return err
	})
	return n == releaseBatch, err
}
