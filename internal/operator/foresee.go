package operator

import (
	"context"

	"github.com/onceledger/onceledger/internal/repair"
	"github.com/onceledger/onceledger/internal/review"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// foresee says why no money would come of an event that is opened again, as the books
// stand; nil where nothing is known to be in the way, or its rules ask for none.
func foresee(ctx context.Context, r repair.Repairer, done *repair.Done) (*Refused, error) {
	if done.Decision.Parked != "" || len(done.Decision.Transfers) == 0 {
		return nil, nil
	}
	d, err := review.At(ctx, review.Options{JS: r.JS, Pool: r.Pool, Catalog: r.Catalog}, done.Row.Seq)
	switch {
	case err != nil:
		return nil, err
	case d != nil:
		return refusedOf(d), nil
	}
	// All that it asks for is there.
	refused := &Refused{Reason: string(dedupe.DuplicateOperation), Operation: done.Decision.Transfers[0].Operation}
	by, err := posters(ctx, r.Pool, refused.Operation)
	if err != nil {
		return nil, err
	}
	if row := by[refused.Operation]; row != nil {
		refused.Source, refused.EventID = row.Source, row.ID
	}
	return refused, nil
}

// refusedOf is why the ledger would refuse what d asks for; nil if it would not.
func refusedOf(d *review.Difference) *Refused {
	if d.Refused.Reason == "" {
		return nil
	}
	refused := &Refused{Reason: string(d.Refused.Reason), Operation: d.Refused.Operation, Account: d.Refused.Account, Asset: d.Refused.Asset}
	if by := d.Refused.Holder; by != nil {
		refused.Source, refused.EventID = by.Source, by.ID
	}
	return refused
}
