package rules_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// totalRule tells what was refunded of a charge so far.
func totalRule() config.Rule {
	r := chargeRule()
	r.When = text("true")
	r.Transfers[0].Operation, r.Transfers[0].Refunds = text(`op("refunded", body.data.object.id)`), text(`op("charge", body.data.object.id)`)
	r.Transfers[0].RunningTotal = true
	return r
}

func TestDecideTellsOfTotals(t *testing.T) {
	t.Parallel()
	set := compile(t, stripeSource(totalRule()), stripe)
	d := set.Decide(stripeEvent(stripeBody(`"amount":700,"currency":"eur"`)))
	require.NoError(t, d.Err)
	require.Equal(t, []ledger.Transfer{{
		Operation: "6:stripe,0:,4:live,8:refunded,4:ch_1,3:700,", Kind: ledger.KindTotal,
		Debit: "world", Credit: "customer:cus_1", Asset: "EUR", Amount: 700, Parent: "6:stripe,0:,4:live,6:charge,4:ch_1,", Refund: true,
	}}, d.Transfers)
	d = set.Decide(stripeEvent(stripeBody(`"amount":0,"currency":"eur"`)))
	require.Empty(t, d.Transfers, "nothing was refunded")
	require.Empty(t, d.Parked)
}

// The amount counts in the length of the key, which an index bounds.
func TestTheKeyOfATotalIsBounded(t *testing.T) {
	t.Parallel()
	decide := func(length int, amount string) dlq.Reason {
		r := totalRule()
		r.Transfers[0].Operation = text(`op("t", "` + strings.Repeat("x", length) + `")`)
		return compile(t, stripeSource(r), stripe).Decide(stripeEvent(stripeBody(`"amount":` + amount + `,"currency":"eur"`))).Parked
	}
	length := 1024 - len("6:stripe,0:,4:live,1:t,") - len("999:,") - len("1:7,")
	require.Empty(t, decide(length, "7"))
	require.Equal(t, dlq.RuleError, decide(length, "70"))
}

// That an amount is a total is part of the version; rules without keep theirs.
func TestVersionsKnowTotals(t *testing.T) {
	t.Parallel()
	r, item := totalRule(), totalRule()
	item.Transfers[0].RunningTotal = false
	require.NotEqual(t, compile(t, stripeSource(r), stripe).Version(), compile(t, stripeSource(item), stripe).Version())
}
