package contender

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/bench/traffic"
)

func TestAChargeIsReadFromItsWebhook(t *testing.T) {
	t.Parallel()
	body := traffic.NewCharges("tag1", 1024).Append(nil, 10_007)
	c, err := readCharge(body)
	require.NoError(t, err)
	require.Equal(t, charge{ID: "evt_0000tag10000010007", Customer: "cus_00007", Amount: traffic.Amount(10_007), Currency: "eur", body: body}, c)

	for name, body := range map[string]string{
		"no JSON":        `{`,
		"another type":   `{"id":"evt_1","type":"charge.failed","data":{"object":{"customer":"cus_1","amount":1}}}`,
		"no id":          `{"type":"charge.succeeded","data":{"object":{"customer":"cus_1","amount":1}}}`,
		"no customer":    `{"id":"evt_1","type":"charge.succeeded","data":{"object":{"amount":1}}}`,
		"nothing to pay": `{"id":"evt_1","type":"charge.succeeded","data":{"object":{"customer":"cus_1","amount":0}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := readCharge([]byte(body))
			require.Error(t, err)
		})
	}
}
