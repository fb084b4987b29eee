package ledger

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKnownIsBounded(t *testing.T) {
	t.Parallel()
	var k Known
	often := accountKey{"often", "EUR"}
	k.learn(often)
	for n := range 3 * maxKnown {
		k.learn(accountKey{strconv.Itoa(n), "EUR"})
		if n%1000 == 0 {
			require.True(t, k.has(often), "what is asked for stays")
		}
	}
	require.LessOrEqual(t, len(k.recent)+len(k.before), 2*maxKnown)
	require.False(t, k.has(accountKey{"0", "EUR"}))
	require.False(t, k.has(accountKey{"often", "USD"}))
	k.forget(often)
	require.False(t, k.has(often))
}
