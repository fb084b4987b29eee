package audit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/pkg/envelope"
)

const desk = shop + `
      - when: event.type == "authorised"
        transfers:
          - {hold: true, expires: 1h, debit: body.from, credit: body.to, amount: body.amount, asset: '"EUR"', operation: 'op("hold", body.of)'}
      - when: event.type == "captured"
        transfers:
          - {captures: 'op("hold", body.of)', fact: true, final: has(body.last), debit: body.from, credit: body.to, amount: body.amount, asset: '"EUR"', operation: 'op("capture", body.id)'}
      - when: event.type == "voided"
        transfers:
          - {voids: 'op("hold", body.of)', operation: 'op("void", body.id)'}
`

func deal(typ, id, of string, amount int, more string) *envelope.Event {
	return event(id, typ, fmt.Sprintf(`{"id":%q,"type":%q,"of":%q,"from":"psp","to":"shop","amount":%d%s}`, id, typ, of, amount, more))
}

// The operations end as their keys do, whatever the scope before.
func key(kind, name string) string { return fmt.Sprintf(`key LIKE '%%:%s,%%:%s,'`, kind, name) }

// TestDamageOfHoldsIsFound damages a system with holds in one way after another, and
// takes each damage back.
func TestDamageOfHoldsIsFound(t *testing.T) {
	s := newSystem(t, desk)
	s.decide(
		deal("authorised", "evt_h1", "h1", 50, ""), deal("captured", "evt_c1", "h1", 20, ""),
		deal("authorised", "evt_h2", "h2", 50, ""), deal("voided", "evt_v2", "h2", 0, ""), deal("captured", "evt_c2", "h2", 5, ""),
		deal("authorised", "evt_h3", "h3", 50, ""), deal("captured", "evt_c3", "h3", 20, `,"last":1`),
		deal("captured", "evt_c4", "h4", 7, ""),
	)
	books := s.clean().Books
	require.Equal(t, 4, books.Holds)
	require.Equal(t, 2, books.Uncovered)
	require.Len(t, books.Facts, 2)
	require.Equal(t, []int64{5, 5, 7, 7}, []int64{books.Facts[0].Amount, books.Facts[0].Uncovered, books.Facts[1].Amount, books.Facts[1].Uncovered})
	var table strings.Builder
	require.NoError(t, s.audit().WriteTable(&table))
	require.Contains(t, table.String(), "Holds: 4; captures that no hold covered: 2\n")
	require.Contains(t, table.String(), "  event evt_c2 of shop: 0.05 EUR of 0.05 (shop/capture/evt_c2)\n")
	require.Contains(t, table.String(), "  event evt_c4 of shop: 0.07 EUR of 0.07 (shop/capture/evt_c4)\n")

	h1, h2, h3, h4 := key("hold", "h1"), key("hold", "h2"), key("hold", "h3"), key("hold", "h4")
	for _, c := range []struct {
		name, damage, undo string
		want               []audit.Kind
	}{
		{"a hold says that more was captured", `UPDATE holds SET captured = captured + 1 WHERE ` + h1, `UPDATE holds SET captured = captured - 1 WHERE ` + h1,
			[]audit.Kind{audit.HoldDiffers, audit.PendingDiffers, audit.PendingDiffers}},
		{"a hold is larger than its operation", `UPDATE holds SET amount = amount + 1 WHERE ` + h3, `UPDATE holds SET amount = amount - 1 WHERE ` + h3, []audit.Kind{audit.HoldDiffers}},
		{"a hold is of another account", `UPDATE holds SET debit = 'other' WHERE ` + h3, `UPDATE holds SET debit = 'psp' WHERE ` + h3, []audit.Kind{audit.HoldDiffers}},
		{"a hold ended by nothing", `UPDATE holds SET closed = 'voided' WHERE ` + h1, `UPDATE holds SET closed = NULL WHERE ` + h1,
			[]audit.Kind{audit.HoldDiffers, audit.PendingDiffers, audit.PendingDiffers}},
		{"a hold ended before its time", `UPDATE holds SET closed = 'expired' WHERE ` + h1, `UPDATE holds SET closed = NULL WHERE ` + h1,
			[]audit.Kind{audit.HoldDiffers, audit.PendingDiffers, audit.PendingDiffers}},
		{"a void did not end its hold", `UPDATE holds SET closed = NULL WHERE ` + h2, `UPDATE holds SET closed = 'voided' WHERE ` + h2,
			[]audit.Kind{audit.HoldDiffers, audit.PendingDiffers, audit.PendingDiffers}},
		{"the last capture did not end its hold", `UPDATE holds SET closed = NULL WHERE ` + h3, `UPDATE holds SET closed = 'final' WHERE ` + h3,
			[]audit.Kind{audit.HoldDiffers, audit.PendingDiffers, audit.PendingDiffers}},
		{"a capture is of another hold", `UPDATE operations SET hold = (SELECT key FROM holds WHERE ` + h3 + `) WHERE ` + key("capture", "evt_c1"),
			`UPDATE operations SET hold = (SELECT key FROM holds WHERE ` + h1 + `) WHERE ` + key("capture", "evt_c1"), []audit.Kind{audit.HoldDiffers, audit.HoldDiffers}},
		{"a capture took more than the hold was", `UPDATE transfers SET uncovered = NULL WHERE operation LIKE '%:evt_c4,'`, `UPDATE transfers SET uncovered = 7 WHERE operation LIKE '%:evt_c4,'`,
			[]audit.Kind{audit.HoldDiffers}},
		{"a hold has a transfer", `UPDATE operations SET kind = NULL WHERE ` + h1, `UPDATE operations SET kind = 'hold' WHERE ` + h1,
			[]audit.Kind{audit.NothingPosted, audit.NoTransfer, audit.HoldDiffers}},
		{"a hold's operation is about none", `DELETE FROM holds WHERE ` + h4, `INSERT INTO holds (key, asset, captured) SELECT hold, 'EUR', 7 FROM operations WHERE ` + key("capture", "evt_c4"),
			[]audit.Kind{audit.HoldDiffers}},
		{"an account holds more than its holds", `UPDATE accounts SET debits_pending = 31 WHERE name = 'psp'`, `UPDATE accounts SET debits_pending = 30 WHERE name = 'psp'`,
			[]audit.Kind{audit.PendingDiffers}},
		{"an account holds nothing of its holds", `UPDATE accounts SET credits_pending = 0 WHERE name = 'shop'`, `UPDATE accounts SET credits_pending = 30 WHERE name = 'shop'`,
			[]audit.Kind{audit.PendingDiffers}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := *s
			s.t = t
			s.exec(c.damage)
			require.Equal(t, c.want, kinds(s.audit()), "%+v", s.audit().Findings)
			s.exec(c.undo)
			s.clean()
		})
	}
	// The incremental audit compares what accounts say.
	s.exec(`UPDATE accounts SET debits_pending = 31 WHERE name = 'psp'`)
	progress, err := audit.Advance(t.Context(), audit.Options{JS: s.js, Pool: s.pool, Meaning: audit.Meaning(s.cat)})
	require.NoError(t, err)
	require.Equal(t, []audit.Kind{audit.PendingDiffers}, kinds(&progress.Report))
	require.Equal(t, 1, progress.MoneyDifferences)
}
