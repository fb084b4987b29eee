package audit_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/pkg/envelope"
)

const counter = shop + `
      - when: event.type == "refunded"
        transfers:
          - {refunds: 'op("payment", body.of)', debit: body.from, credit: body.to, amount: body.amount, asset: '"EUR"', operation: 'op("refund", body.id)'}
      - when: event.type == "told"
        transfers:
          - {refunds: 'op("payment", body.of)', running_total: true, debit: body.from, credit: body.to, amount: body.amount, asset: '"EUR"', operation: 'op("total", body.of)'}
      - when: event.type == "failed"
        transfers:
          - {refunds: 'op("refund", body.of)', debit: body.from, credit: body.to, amount: body.amount, asset: '"EUR"', operation: 'op("failed", body.of)'}
`

// TestDamageOfTotalsIsFound damages a system with refunds and their totals in one way
// after another, and takes each damage back.
func TestDamageOfTotalsIsFound(t *testing.T) {
	s := newSystem(t, counter)
	paid := `{"id":%q,"type":"paid","payment":%q,"from":"psp","to":"shop","amount":1000,"asset":"EUR"}`
	for _, e := range []*envelope.Event{ // each in a batch of its own: what each moves depends on what came before
		event("evt_p1", "paid", fmt.Sprintf(paid, "evt_p1", "p1")), event("evt_p2", "paid", fmt.Sprintf(paid, "evt_p2", "p2")),
		deal("refunded", "evt_a", "p1", 300, ""), deal("told", "evt_t1", "p1", 700, ""), deal("told", "evt_t2", "p1", 500, ""),
		deal("refunded", "evt_b", "p1", 400, ""), deal("failed", "evt_f", "evt_a", 300, ""),
		deal("refunded", "evt_c", "p2", 200, ""),
	} {
		s.decide(e)
	}
	s.clean()
	p1, total, a, b := key("payment", "p1"), `key LIKE '%:total,2:p1,3:700,'`, key("refund", "evt_a"), key("refund", "evt_b")
	for _, c := range []struct {
		name, damage, undo string
		want               []audit.Kind
	}{
		{"the total is higher", `UPDATE totals SET seen = 701 WHERE ` + p1, `UPDATE totals SET seen = 700 WHERE ` + p1, []audit.Kind{audit.RefundsDiffer}},
		{"the total is lower", `UPDATE totals SET seen = 699 WHERE ` + p1, `UPDATE totals SET seen = 700 WHERE ` + p1, []audit.Kind{audit.RefundsDiffer}},
		{"the total is gone", `DELETE FROM totals WHERE ` + p1, `INSERT INTO totals SELECT key, 700 FROM operations WHERE ` + p1, []audit.Kind{audit.RefundsDiffer}},
		{"a total that nobody told", `INSERT INTO totals SELECT key, 200 FROM operations WHERE ` + key("payment", "p2"), `DELETE FROM totals WHERE ` + key("payment", "p2"), []audit.Kind{audit.RefundsDiffer}},
		{"a total of nothing", `INSERT INTO totals VALUES ('none', 1)`, `DELETE FROM totals WHERE key = 'none'`, []audit.Kind{audit.RefundsDiffer}},
		{"a total moved another part", `UPDATE operations SET unmoved = 299 WHERE ` + total, `UPDATE operations SET unmoved = 300 WHERE ` + total, []audit.Kind{audit.NoOperation, audit.RefundsDiffer}},
		{"a refund moved something", `UPDATE operations SET unmoved = 399 WHERE ` + b, `UPDATE operations SET unmoved = 400 WHERE ` + b, []audit.Kind{audit.NothingPosted, audit.NoTransfer, audit.RefundsDiffer}},
		{"a refund moved all of it", `UPDATE operations SET unmoved = NULL WHERE ` + b, `UPDATE operations SET unmoved = 400 WHERE ` + b, []audit.Kind{audit.NothingPosted, audit.NoTransfer, audit.RefundsDiffer}},
		{"a refund moved nothing", `UPDATE operations SET unmoved = amount WHERE ` + a, `UPDATE operations SET unmoved = NULL WHERE ` + a, []audit.Kind{audit.NoOperation, audit.NoTransfer, audit.RefundsDiffer}},
		{"a total is an item", `UPDATE operations SET kind = NULL WHERE ` + total, `UPDATE operations SET kind = 'total' WHERE ` + total, []audit.Kind{audit.OverRefunded, audit.RefundsDiffer}},
		{"a total is above its payment", `UPDATE operations SET amount = 1001, unmoved = 601 WHERE ` + total, `UPDATE operations SET amount = 700, unmoved = 300 WHERE ` + total, []audit.Kind{audit.OverRefunded, audit.RefundsDiffer}},
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
	// The incremental audit knows what an event without a transfer has told, and what a
	// transfer lacks.
	progress, err := audit.Advance(t.Context(), audit.Options{JS: s.js, Pool: s.pool, Meaning: audit.Meaning(s.cat)})
	require.NoError(t, err)
	require.Empty(t, progress.Findings)
	require.Equal(t, 6, s.clean().Books.Transfers)
}
