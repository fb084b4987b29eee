package letters

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// Discard gives the events of at most Page letters up: (1) one transaction makes
// the rows discarded and records who and why; (2) the letters are deleted. It
// may be repeated. The results are in the order of the list; an event that was
// sent again and is not decided yet is refused with ErrBusy.
func (s Store) Discard(ctx context.Context, list []*dlq.Letter, a dedupe.Action) ([]Result, error) {
	a.Verb = dedupe.VerbDiscard
	results, err := s.move(ctx, list, func(tx pgx.Tx, chosen []*Result) error {
		var rows []*dedupe.Row
		var details []any
		notes := make([]dedupe.Superseded, 0, len(chosen))
		for _, r := range chosen {
			notes = append(notes, r.note)
			if r.Row == nil {
				a := a
				a.Detail = detailOf(r.Letter, nil)
				if err := dedupe.Record(ctx, tx, a, nil); err != nil {
					return err
				}
				continue
			}
			rows, details = append(rows, r.Row), append(details, detailOf(r.Letter, r.Row))
		}
		// A good body that comes under the same id takes the row over; the notes
		// then explain what was discarded.
		if err := supersede(ctx, tx, notes); err != nil || len(rows) == 0 {
			return err
		}
		return dedupe.DiscardAll(ctx, tx, rows, a, details)
	}, func(r *Result) error {
		if r.Was == Redriven || r.Was == Deciding {
			return ErrBusy
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var done []uint64
	for _, r := range results {
		if r.Done {
			done = append(done, r.Letter.Seq)
		}
	}
	return results, dlq.Remove(ctx, s.JS, done...)
}
