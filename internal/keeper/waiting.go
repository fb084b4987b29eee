package keeper

import (
	"context"
	"fmt"
	"time"
)

// forgetEvery is how often notes of waiting events are looked through.
const forgetEvery = time.Hour

// forget removes notes of events that wait for an operation and are decided by now:
// their parent's worker died before it woke them, or they ended in another way.
func (k *keeper) forget(ctx context.Context) error {
	if time.Since(k.forgot) < k.ForgetEvery {
		return nil
	}
	_, err := k.Pool.Exec(ctx, `
		DELETE FROM waiting w
		WHERE COALESCE((SELECT e.state FROM events e WHERE e.no = w.event_no), '') NOT IN ('pending', 'processing')`)
	if err != nil {
		return fmt.Errorf("forget events that waited: %w", err)
	}
	k.forgot = time.Now()
	return nil
}
