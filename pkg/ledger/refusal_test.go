package ledger

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefusalIsNamed(t *testing.T) {
	gems, err := NewAssets([]Asset{{Code: "GEMS", Exponent: 3}})
	require.NoError(t, err)
	key := func(parts ...string) string { return OperationKey("shop", "", "live", parts...) }
	move := func(amount int64, asset string) Transfer {
		return Transfer{Operation: key("charge", "ch_1"), Debit: "psp", Credit: "wallet", Asset: asset, Amount: amount}
	}
	total := Transfer{Operation: TotalKey(key("refunded", "ch_1"), 1250), Kind: KindTotal, Debit: "wallet", Credit: "psp", Asset: "USD", Amount: 1250, Parent: key("charge", "ch_1")}
	for _, test := range []struct {
		err         error
		raw, people string
	}{
		{
			conflict(move(500, "USD"), move(700, "USD"), 4711),
			"the operation stands with another content: 4:shop,0:,4:live,6:charge,4:ch_1,: event 4711 posted 500 USD from psp to wallet, this one asks for 700 USD from psp to wallet",
			"the operation stands with another content: shop/live/charge/ch_1: event evt_1 of shop posted 5.00 USD from psp to wallet, this one asks for 7.00 USD from psp to wallet",
		},
		{
			conflict(move(500, "GEMS"), move(500, "OLD"), 4712),
			"the operation stands with another content: 4:shop,0:,4:live,6:charge,4:ch_1,: event 4712 posted 500 GEMS from psp to wallet, this one asks for 500 OLD from psp to wallet",
			"the operation stands with another content: shop/live/charge/ch_1: event 4712 posted 0.500 GEMS from psp to wallet, this one asks for 500 OLD (minor units) from psp to wallet",
		},
		{
			refunded{asset: "USD", amount: 1000}.check(total, 1250),
			"what it names cannot be refunded so: 4:shop,0:,4:live,8:refunded,4:ch_1,4:1250, says that 1250 USD of 4:shop,0:,4:live,6:charge,4:ch_1, are given back so far, which is 1000 USD",
			"what it names cannot be refunded so: shop/live/refunded/ch_1/1250 says that 12.50 USD of shop/live/charge/ch_1 are given back so far, which is 10.00 USD",
		},
	} {
		require.EqualError(t, test.err, test.raw)
		var refusal *Refusal
		require.ErrorAs(t, test.err, &refusal)
		said := refusal.Named(gems, map[int64]string{4711: "event evt_1 of shop"})
		require.EqualError(t, said, test.people)
		require.ErrorIs(t, said, errors.Unwrap(test.err))
		require.EqualError(t, test.err, test.raw, "the other is as it was")
	}
}
