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

// What the reference shows of holds works as it stands, with Stripe's own events.
func TestTheHoldsOfTheReference(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "#### Holds")
	require.True(t, found)
	rules := blocksOf(section)[0].text
	file := filepath.Join(t.TempDir(), "onceledger.yaml")
	yaml := "sources:\n  stripe:\n    provider: stripe\n    secret: whsec_of_the_reference\n    rules:\n      " + strings.ReplaceAll(rules, "\n", "\n      ") + "\n"
	require.NoError(t, os.WriteFile(file, []byte(yaml), 0o600))
	cat, err := catalog.Load(file, func(string) (string, bool) { return "", false })
	require.NoError(t, err)

	decide := func(typ, members string) []ledger.Transfer {
		body := `{"id":"evt_1","object":"event","livemode":true,"created":1719830400,"type":"` + typ + `","data":{"object":{"id":"pi_1",` +
			`"object":"payment_intent","capture_method":"manual","currency":"usd","metadata":{"user":"ann"},` + members + `}}}`
		d := cat.Sources["stripe"].Rules.Decide(&envelope.Event{Source: "stripe", ID: "evt_1", Type: typ, Mode: "live", Data: []byte(body)})
		require.NoError(t, d.Err)
		return d.Transfers
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
