package operator

import (
	"context"
	"maps"
	"slices"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// GaveWay is what had moved the money of a duplicate_operation already: an operation,
// and the event that posted it.
type GaveWay struct {
	Operation string `json:"operation"`
	Source    string `json:"source,omitempty"`
	ID        string `json:"id,omitempty"`
	Number    int64  `json:"event_no"`
}

// addPosters reads which events had posted what events gave way to.
func addPosters(ctx context.Context, q dedupe.Querier, events []Event) error {
	var operations []string
	for _, e := range events {
		if e.GaveWay != nil {
			operations = append(operations, e.GaveWay.Operation)
		}
	}
	by, err := posters(ctx, q, operations...)
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.GaveWay == nil {
			continue
		}
		if row := by[e.GaveWay.Operation]; row != nil {
			e.GaveWay.Source, e.GaveWay.ID, e.GaveWay.Number = row.Source, row.ID, row.No
		}
	}
	return nil
}

// posters returns the events that posted operations, by operation.
func posters(ctx context.Context, q dedupe.Querier, operations ...string) (map[string]*dedupe.Row, error) {
	if len(operations) == 0 {
		return nil, nil
	}
	owners, err := ledger.Owners(ctx, q, operations)
	if err != nil {
		return nil, err
	}
	rows, err := dedupe.Numbered(ctx, q, slices.Collect(maps.Values(owners)))
	if err != nil {
		return nil, err
	}
	by := make(map[string]*dedupe.Row, len(owners))
	for operation, no := range owners {
		by[operation] = rows[no]
	}
	return by, nil
}
