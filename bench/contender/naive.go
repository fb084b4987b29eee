package contender

import (
	"context"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/config"
)

// naiveConns is where more connections gained nothing: every transaction waits
// for the merchant's row until the one before has committed.
const naiveConns = 16

// naive applies each event in its request: no queue, nothing to lose, and as slow
// for its sender as the ledger is.
var naive = Contender{
	Name: Naive,
	open: func(ctx context.Context, group *errgroup.Group, cfg *config.Config, _ zerolog.Logger, _ Parts) (store, error) {
		pool, err := openPool(ctx, cfg, naiveConns)
		if err != nil {
			return nil, err
		}
		closeAfter(ctx, group, pool.Close)
		return func(ctx context.Context, c charge) error { return applyOnce(ctx, pool, c) }, nil
	},
}

// closeAfter has group wait for done, which is called when ctx has ended.
func closeAfter(ctx context.Context, group *errgroup.Group, done func()) {
	group.Go(func() error {
		<-ctx.Done()
		done()
		return nil
	})
}
