package operator

import (
	"cmp"
	"fmt"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// Told is a refund that an event told of, or a running total of some, and what it
// moved of it. Its JSON names are part of the public interface; amounts are minor
// units.
type Told struct {
	Movement
	// Moved is less than the amount where the rest was given back before.
	Moved int64 `json:"moved_minor"`
	// Refunds is the operation that is given back.
	Refunds string `json:"refunds,omitempty"`
}

// toldOf describes the refunds of one event that moved less than they say, and its
// totals.
func toldOf(told []ledger.Transfer, about map[string]ledger.About, assets *ledger.Assets) []Told {
	var list []Told
	for _, t := range told {
		asset, _ := assets.Lookup(t.Asset)
		list = append(list, Told{movement(t, asset.Exponent), t.Amount - t.Unmoved, about[t.Operation].Refunds})
	}
	return list
}

func printTold(s *Session, told []Told) error {
	if len(told) == 0 {
		return nil
	}
	fmt.Fprintln(s.Out)
	t := newTable(s.Out, "TOLD", "DEBIT", "CREDIT", "AMOUNT", "MOVED", "KIND", "REFUNDS")
	for _, each := range told {
		t.row(ledger.FormatKey(each.Operation), each.Debit, each.Credit, each.amount(), ledger.FormatMinor(each.Moved, each.Exponent), cmp.Or(each.Kind, "refund"), ledger.FormatKey(each.Refunds))
	}
	return t.flush()
}
