package worker

import (
	"context"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/keeper"
)

// upkeep does, while this worker leads, what one worker at a time does beside
// its share. What it meets never ends the worker.
func (w *worker) upkeep(ctx context.Context) error {
	return keeper.Run(ctx, keeper.Options{
		Pool: w.pool, JS: w.js, Config: w.cat.Config.Keeper, Meaning: audit.Meaning(w.cat), Limits: w.limit, Log: w.log, Registry: w.reg,
	})
}
