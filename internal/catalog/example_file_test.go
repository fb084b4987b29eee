package catalog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// What the example says of each source is what happens.
func TestTheExampleDecides(t *testing.T) {
	t.Parallel()
	cat, err := catalog.Load(example, exampleEnv())
	require.NoError(t, err)
	now := time.Unix(1_700_000_000, 0)

	for _, tc := range []struct {
		source, event, body string
		want                []ledger.Transfer
	}{
		{source: "stripe", body: `{"id":"evt_2","livemode":true,"created":1700000000,"type":"refund.created",
			"data":{"object":{"id":"re_1","charge":"ch_1","amount":500,"currency":"eur","metadata":{"customer":"cus_1"}}}}`,
			want: []ledger.Transfer{{Debit: "wallet:cus_1", Credit: "stripe:receivable", Asset: "EUR", Amount: 500,
				Parent: "6:stripe,0:,4:live,6:charge,4:ch_1,"}}},
		{source: "stripe", body: `{"id":"evt_3","livemode":true,"created":1700000000,"type":"customer.created","data":{"object":{}}}`},
		{source: "github", event: "sponsorship", body: `{"action":"created","sponsorship":{"node_id":"S_1",
			"sponsor":{"login":"octocat"},"tier":{"monthly_price_in_cents":700}}}`,
			want: []ledger.Transfer{{Debit: "github:receivable", Credit: "sponsors:octocat", Asset: "USD", Amount: 700}}},
		{source: "orders", body: `{"type":"order.paid","timestamp":"2023-11-14T22:13:20Z",
			"data":{"id":"o_1","customer_id":"c_1","total":"12.50","currency":"KWD","points":40}}`,
			want: []ledger.Transfer{
				{Debit: "orders:receivable", Credit: "wallet:c_1", Asset: "KWD", Amount: 12500},
				{Debit: "loyalty:issued", Credit: "points:c_1", Asset: "POINTS", Amount: 40},
			}},
		{source: "orders", body: `{"type":"order.created","timestamp":"2023-11-14T22:13:20Z","data":{}}`},
		{source: "shop", body: `{"event_id":"e_1","kind":"topup","occurred_at":1700000000,
			"user":"u_1","amount":19.99,"currency":"USD","payment_id":"p_1"}`,
			want: []ledger.Transfer{{Debit: "shop:receivable", Credit: "wallet:u_1", Asset: "USD", Amount: 1999}}},
	} {
		source, body := cat.Sources[tc.source], []byte(tc.body)
		request, err := source.Sign(body, "delivery-1", now)
		require.NoError(t, err)
		if tc.event != "" {
			request.Header.Set("X-GitHub-Event", tc.event)
		}
		require.NoError(t, source.Verify(t.Context(), request, now))
		decision := source.Rules.Decide(source.Events(request, now)[0])
		require.NoError(t, decision.Err, tc.body)
		require.Len(t, decision.Transfers, len(tc.want), tc.body)
		for i, got := range decision.Transfers {
			require.NotEmpty(t, got.Operation)
			got.Operation = ""
			require.Equal(t, tc.want[i], got)
		}
	}
}
