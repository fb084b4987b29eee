package catalog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// reference decides by the rules that the reference shows under a heading, with events
// of Stripe whose object has these members.
func reference(t *testing.T, heading string) (decide func(typ, members string) []ledger.Transfer) {
	t.Helper()
	page, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "#### "+heading+"\n")
	require.True(t, found)
	rules := blocksOf(section)[0].text
	file := filepath.Join(t.TempDir(), "onceledger.yaml")
	yaml := "sources:\n  stripe:\n    provider: stripe\n    secret: whsec_of_the_reference\n    rules:\n      " + strings.ReplaceAll(rules, "\n", "\n      ") + "\n"
	require.NoError(t, os.WriteFile(file, []byte(yaml), 0o600))
	cat, err := catalog.Load(file, func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	return func(typ, members string) []ledger.Transfer {
		body := `{"id":"evt_1","object":"event","livemode":true,"created":1719830400,"type":"` + typ + `","data":{"object":{"currency":"usd",` + members + `}}}`
		d := cat.Sources["stripe"].Rules.Decide(&envelope.Event{Source: "stripe", ID: "evt_1", Type: typ, Mode: "live", Data: []byte(body)})
		require.NoError(t, d.Err)
		return d.Transfers
	}
}

// What the reference shows of holds works as it stands, with Stripe's own events.
func TestTheHoldsOfTheReference(t *testing.T) {
	t.Parallel()
	stripe := reference(t, "Holds")
	decide := func(typ, members string) []ledger.Transfer {
		return stripe(typ, `"id":"pi_1","object":"payment_intent","capture_method":"manual","metadata":{"user":"ann"},`+members)
	}
	held := decide("payment_intent.amount_capturable_updated", `"amount_capturable":2000`)
	require.Len(t, held, 1)
	require.Equal(t, []any{ledger.KindHold, int64(2000), "wallet:ann"}, []any{held[0].Kind, held[0].Amount, held[0].Debit})
	captured := decide("payment_intent.succeeded", `"amount_received":1500`)
	require.Len(t, captured, 1)
	require.Equal(t, []any{ledger.KindCapture, held[0].Operation, true, true}, []any{captured[0].Kind, captured[0].Parent, captured[0].Final, captured[0].Fact})
	voided := decide("payment_intent.canceled", `"latest_charge":"ch_1"`)
	require.Len(t, voided, 1)
	require.Equal(t, []any{ledger.KindVoid, held[0].Operation}, []any{voided[0].Kind, voided[0].Parent})
	require.Empty(t, decide("payment_intent.canceled", `"latest_charge":null`), "it was never held")
}

// And what it shows of what is expected.
func TestWhatTheReferenceExpects(t *testing.T) {
	t.Parallel()
	decide := reference(t, "What is expected")
	const order = `"id":"pi_1","object":"payment_intent","metadata":{"user":"ann","amount":"2000","currency":"usd"},`
	exact := decide("payment_intent.succeeded", order+`"amount_received":2000`)
	require.Len(t, exact, 1)
	more := decide("payment_intent.succeeded", order+`"amount_received":2001`)
	require.Len(t, more, 2)
	require.Equal(t, exact[0], more[0])
	require.Equal(t, []any{int64(1), "wallet:ann"}, []any{more[1].Amount, more[1].Credit})
}

// And what it shows of refunds and their total.
func TestTheRefundsOfTheReference(t *testing.T) {
	t.Parallel()
	decide := reference(t, "Refunds and their total")
	one := decide("refund.created", `"id":"re_1","object":"refund","payment_intent":"pi_1","status":"succeeded","amount":500`)
	require.Len(t, one, 1)
	require.Equal(t, []any{ledger.Kind(""), true, int64(500)}, []any{one[0].Kind, one[0].Refund, one[0].Amount})
	total := decide("charge.refunded", `"id":"ch_1","object":"charge","payment_intent":"pi_1","amount":2000,"amount_refunded":700`)
	require.Len(t, total, 1)
	require.Equal(t, []any{ledger.KindTotal, true, int64(700), one[0].Parent}, []any{total[0].Kind, total[0].Refund, total[0].Amount, total[0].Parent})
	require.True(t, strings.HasSuffix(total[0].Operation, "8:refunded,4:pi_1,3:700,"))
	require.Equal(t, []string{one[0].Debit, one[0].Credit}, []string{total[0].Debit, total[0].Credit})
	for _, typ := range []string{"refund.updated", "refund.failed"} {
		failed := decide(typ, `"id":"re_1","object":"refund","payment_intent":"pi_1","status":"failed","amount":500`)
		require.Len(t, failed, 2)
		require.Equal(t, one[0], failed[0], "it is told, and undone")
		undone := failed[1]
		require.Equal(t, []any{one[0].Operation, true, int64(500), one[0].Credit, one[0].Debit}, []any{undone.Parent, undone.Refund, undone.Amount, undone.Debit, undone.Credit})
	}
	require.Equal(t, one, decide("refund.updated", `"id":"re_1","object":"refund","payment_intent":"pi_1","status":"succeeded","amount":500`))
}
