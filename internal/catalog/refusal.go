package catalog

import (
	"context"
	"errors"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// Name turns the ledger's refusals among errors into ones for people: events by
// source and id, which it looks up where one is named, amounts in major units. Other
// errors stay as they are.
func (c *Catalog) Name(ctx context.Context, q dedupe.Querier, refused ...*error) error {
	var events []int64
	for _, err := range refused {
		var refusal *ledger.Refusal
		if errors.As(*err, &refusal) {
			events = append(events, refusal.Events()...)
		}
	}
	names := make(map[int64]string, len(events))
	if len(events) > 0 {
		rows, err := dedupe.Numbered(ctx, q, events)
		if err != nil {
			return err
		}
		for no, row := range rows {
			names[no] = "event " + row.ID + " of " + row.Source
		}
	}
	for _, err := range refused {
		var refusal *ledger.Refusal
		if errors.As(*err, &refusal) {
			*err = refusal.Named(c.Assets, names)
		}
	}
	return nil
}
