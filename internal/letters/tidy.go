package letters

import (
	"context"
	"crypto/sha256"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// Tidy reads all letters and deletes the stale ones; it returns how many. Before
// a letter goes whose content its event's row does not have, the content is
// noted, so that the audit can still explain the message that brought it.
// Letters of redrives that died on the way stay: the sweep sends their events
// again, and once these are decided their letters are stale.
func (s Store) Tidy(ctx context.Context) (int, error) {
	deleted := 0
	err := s.Each(ctx, dlq.Filter{}, func(page []Lying) error {
		n, err := s.tidy(ctx, page)
		deleted += n
		return err
	})
	return deleted, err
}

func (s Store) tidy(ctx context.Context, page []Lying) (int, error) {
	var stale []uint64
	var other []*dlq.Letter
	for _, l := range page {
		if l.Standing != Stale {
			continue
		}
		stale = append(stale, l.Seq)
		if l.Row.BodyHash != sha256.Sum256(l.Data) {
			other = append(other, l.Letter)
		}
	}
	if len(other) > 0 {
		notes, err := s.notes(ctx, other)
		if err != nil {
			return 0, err
		}
		if err := postgres.Transact(ctx, s.Pool, func(tx pgx.Tx) error { return supersede(ctx, tx, notes) }); err != nil {
			return 0, err
		}
	}
	return len(stale), dlq.Remove(ctx, s.JS, stale...)
}
