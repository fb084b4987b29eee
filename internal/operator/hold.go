package operator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/onceledger/onceledger/pkg/ledger"
)

// Hold is a hold of an event as it stands, or its void of one. Its JSON names are
// part of the public interface; amounts are minor units.
type Hold struct {
	Movement
	Captured int64      `json:"captured_minor"`
	Left     int64      `json:"left_minor"`
	Expires  *time.Time `json:"expires_at,omitempty"`
	// Ended is captured, final, voided or expired; empty while something is held.
	Ended string `json:"ended,omitempty"`
}

// holdsOf describes the holds and voids of one event.
func holdsOf(held []*ledger.Held, assets *ledger.Assets) []Hold {
	var list []Hold
	for _, h := range held {
		asset, _ := assets.Lookup(h.Asset)
		out := Hold{Movement: movement(h.Transfer, asset.Exponent), Captured: h.Captured, Left: h.Left, Ended: h.Ended}
		if !h.ExpiresAt.IsZero() {
			expires := h.ExpiresAt.UTC()
			out.Expires = &expires
		}
		list = append(list, out)
	}
	return list
}

func printHolds(s *Session, holds []Hold) error {
	if len(holds) == 0 {
		return nil
	}
	fmt.Fprintln(s.Out)
	voids := slices.DeleteFunc(slices.Clone(holds), func(h Hold) bool { return h.Kind != string(ledger.KindVoid) })
	if len(voids) > 0 {
		t := newTable(s.Out, "VOID", "OF HOLD")
		for _, h := range voids {
			t.row(ledger.FormatKey(h.Operation), ledger.FormatKey(h.Of))
		}
		if err := t.flush(); err != nil || len(voids) == len(holds) {
			return err
		}
		fmt.Fprintln(s.Out)
	}
	t := newTable(s.Out, "HOLD", "DEBIT", "CREDIT", "AMOUNT", "CAPTURED", "LEFT", "UNTIL")
	for _, h := range holds {
		if h.Kind == string(ledger.KindVoid) {
			continue
		}
		t.row(ledger.FormatKey(h.Operation), h.Debit, h.Credit, h.amount(), ledger.FormatMinor(h.Captured, h.Exponent),
			ledger.FormatMinor(h.Left, h.Exponent), cmp.Or(h.Ended, when(*h.Expires)))
	}
	return t.flush()
}
