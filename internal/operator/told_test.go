package operator_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/review"
)

const counter = `      - when: event.type == "sale"
        transfers:
          - {debit: '"purse:1"', credit: '"shop"', amount: 100, asset: '"EUR"', operation: 'op("sale", body.id)'}
      - when: event.type == "refund"
        transfers:
          - {refunds: 'op("sale", body.of)', debit: '"shop"', credit: '"purse:1"', amount: body.amount, asset: '"EUR"', operation: 'op("refund", body.id)'}
          - {refunds: 'op("sale", body.of)', running_total: true, debit: '"shop"', credit: '"purse:1"', amount: body.total, asset: '"EUR"', operation: 'op("refunded", body.of)'}
  stripe:
`

func TestWhatAnEventToldIsShown(t *testing.T) {
	s := newSystem(t)
	file := s.env["ONCELEDGER_CONFIG"]
	with := strings.Replace(configuration, "  stripe:\n", counter, 1)
	require.NoError(t, os.WriteFile(file, []byte(with), 0o600))
	var err error
	s.cat, err = catalog.Load(file, s.lookup)
	require.NoError(t, err)
	s.decide(event("evt_sale", "sale", `{"id":"evt_sale","type":"sale"}`))
	s.decide(event("evt_one", "refund", `{"id":"evt_one","type":"refund","of":"evt_sale","amount":10,"total":70}`))
	s.decide(event("evt_two", "refund", `{"id":"evt_two","type":"refund","of":"evt_sale","amount":40,"total":50}`))
	s.decide(event("evt_three", "refund", `{"id":"evt_three","type":"refund","of":"evt_sale","amount":30,"total":0}`))
	s.renumber()
	s.golden("event_told", func(ctx context.Context, o *operator.Session) error {
		return operator.ShowEvent(ctx, o, "shop", "evt_one")
	})
	s.golden("event_told_before", func(ctx context.Context, o *operator.Session) error {
		return operator.ShowEvent(ctx, o, "shop", "evt_two")
	})
	check := func() (string, error) {
		return s.run(false, func(ctx context.Context, o *operator.Session) error {
			return operator.CheckAgainstStream(ctx, o, file, review.Filter{})
		})
	}
	out, err := check()
	require.NoError(t, err, out)
	require.NotContains(t, out, "post ", "today's rules are those that it was decided by")

	// Rules that take the total for a refund differ, though no amount does.
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(with, "running_total: true, ", "", 1)), 0o600))
	out, err = check()
	require.Error(t, err)
	require.Contains(t, out, "total of 0.70 EUR shop -> purse:1")
}
