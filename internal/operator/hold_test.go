package operator_test

import (
	"cmp"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/review"
	"github.com/onceledger/onceledger/pkg/envelope"
)

const desk = `      - when: event.type == "deal"
        transfers:
          - {hold: true, expires: 8760h, debit: '"purse:1"', credit: '"shop"', amount: 50, asset: '"EUR"', operation: 'op("hold", body.id)'}
          - {hold: true, expires: 8760h, debit: '"purse:1"', credit: '"shop"', amount: 20, asset: '"EUR"', operation: 'op("other", body.id)'}
          - {captures: 'op("hold", body.id)', debit: '"purse:1"', credit: '"shop"', amount: 30, asset: '"EUR"', operation: 'op("capture", body.id)'}
          - {voids: 'op("other", body.id)', operation: 'op("void", body.id)'}
          - {captures: 'op("none", body.id)', fact: true, debit: '"purse:1"', credit: '"shop"', amount: 7, asset: '"EUR"', operation: 'op("fact", body.id)'}
  stripe:
`

func TestHoldsAreShown(t *testing.T) {
	s := newSystem(t)
	file := s.env["ONCELEDGER_CONFIG"]
	with := strings.Replace(configuration, "  stripe:\n", desk, 1)
	require.NoError(t, os.WriteFile(file, []byte(with), 0o600))
	var err error
	s.cat, err = catalog.Load(file, s.lookup)
	require.NoError(t, err)
	s.decide(event("evt_deal", "deal", `{"id":"evt_deal","type":"deal"}`))
	s.renumber()
	s.golden("event_holds", func(ctx context.Context, o *operator.Session) error {
		return operator.ShowEvent(ctx, o, "shop", "evt_deal")
	})
	out, err := s.run(false, func(ctx context.Context, o *operator.Session) error {
		return operator.ExportEvents(ctx, o, time.Time{})
	})
	require.NoError(t, err)
	exported := lines[operator.Exported](t, out)[0]
	require.Len(t, exported.Holds, 3, "two holds and a void")
	require.EqualValues(t, 20, exported.Holds[0].Left)
	require.Equal(t, "4:shop,0:,0:,4:hold,8:evt_deal,", exported.Transfers[0].Captures)
	s.golden("accounts_holds", func(ctx context.Context, o *operator.Session) error { return operator.ListAccounts(ctx, o, "", "", "") })
	out, err = s.run(false, func(ctx context.Context, o *operator.Session) error {
		return operator.CheckAgainstStream(ctx, o, file, review.Filter{})
	})
	require.NoError(t, err, out)
	require.NotContains(t, out, "post ", "today's rules are those that it was decided by")

	// Rules that hold another amount, and void nothing, differ.
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(strings.Replace(with, "amount: 50", "amount: 51", 1), `          - {voids: 'op("other", body.id)', operation: 'op("void", body.id)'}`+"\n", "", 1)), 0o600))
	out, _ = s.run(false, func(ctx context.Context, o *operator.Session) error {
		return operator.CheckAgainstStream(ctx, o, file, review.Filter{})
	})
	require.Contains(t, out, "hold of 0.51 EUR purse:1 -> shop")
	require.Contains(t, out, "void of shop/other/evt_deal")
}

// A last capture of nothing releases its hold, and is fine where that was captured in
// full.
func TestALastCaptureOfNothing(t *testing.T) {
	s := newSystem(t)
	s.rules("  stripe:\n", `      - when: event.type == "hold"
        transfers:
          - {hold: true, expires: 8760h, debit: '"bank"', credit: '"shop"', amount: 50, asset: '"EUR"', operation: 'op("hold", body.of)'}
      - when: event.type == "capture"
        transfers:
          - {captures: 'op("hold", body.of)', final: body.amount == 0, debit: '"bank"', credit: '"shop"', amount: body.amount, asset: '"EUR"', operation: 'op("capture", body.id)'}
  stripe:
`)
	hold := func(of string) *envelope.Event {
		return event("hold_"+of, "hold", `{"id":"hold_`+of+`","of":"`+of+`"}`)
	}
	capture := func(id, of, amount string) *envelope.Event {
		return event(id, "capture", `{"id":"`+id+`","of":"`+of+`","amount":`+amount+`}`)
	}
	s.decide(hold("a"), capture("last_a", "a", "0"), capture("late_a", "a", "1"), hold("b"), capture("all_b", "b", "50"), capture("last_b", "b", "0"))
	for id, outcome := range map[string]string{"last_a": "applied", "late_a": "hold_closed", "last_b": "applied"} {
		shown := s.event(id)
		require.Equal(t, outcome, cmp.Or(shown.Reason, shown.Outcome), id)
	}
	require.EqualValues(t, 50, s.balance("shop"))
	require.Zero(t, s.count(`SELECT count(*) FROM accounts WHERE debits_pending > 0`))
	s.auditClean()
}
