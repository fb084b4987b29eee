package traffic_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/bench/traffic"
)

func TestChargesHaveTheSizeAndAreWhatTheirNumberSays(t *testing.T) {
	t.Parallel()
	charges := traffic.NewCharges("r1", 1024)
	seen := map[string]bool{}
	for _, n := range []int{0, 7, 9_999, 10_000, 123_456_789} {
		body := charges.Append(nil, n)
		require.Len(t, body, 1024)
		var event struct {
			ID   string `json:"id"`
			Data struct {
				Object struct {
					ID, Customer string
					Amount       int64
				}
			}
		}
		require.NoError(t, json.Unmarshal(body, &event))
		require.Equal(t, traffic.Amount(n), event.Data.Object.Amount)
		require.Positive(t, event.Data.Object.Amount)
		require.Len(t, event.Data.Object.Customer, len("cus_")+5)
		require.Equal(t, event.ID[len("evt_"):], event.Data.Object.ID[len("ch_"):])
		require.False(t, seen[event.ID], event.ID)
		seen[event.ID] = true
		require.Equal(t, body, charges.Append(nil, n))
	}
	require.NotContains(t, string(charges.Append(nil, 1)), "#")
}

func TestChargesOfOtherTagsHaveOtherIDs(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, traffic.NewCharges("a", 0).Append(nil, 1), traffic.NewCharges("b", 0).Append(nil, 1))
	require.Len(t, traffic.NewCharges("a", 64<<10).Append(nil, 1), 64<<10)
}

func TestStormBringsEachEventTwiceWithinTheWindow(t *testing.T) {
	t.Parallel()
	const n, window = 1000, 50
	at := map[int][]int{}
	for i, event := range traffic.Storm(n, window) {
		at[event] = append(at[event], i)
	}
	require.Len(t, at, n)
	for event, places := range at {
		require.Len(t, places, 2, event)
		require.LessOrEqual(t, places[1]-places[0], 2*window)
	}
	require.Equal(t, traffic.Storm(n, window), traffic.Storm(n, window))
}

func TestEachEventIsDeliveredTwice(t *testing.T) {
	t.Parallel()
	times := map[int]int{}
	for i := range 1000 {
		require.Equal(t, i, traffic.Delivery(i, 0))
		event := traffic.Delivery(i, 100)
		times[event]++
		if i%2 == 0 {
			require.Equal(t, i/2, event, "half of the deliveries bring a new event")
		} else if i > 100 {
			require.Equal(t, i-100, 2*event+1, "the other half one from so many before")
		}
	}
	require.Len(t, times, 500)
}

func TestAnIdTellsTheNumber(t *testing.T) {
	t.Parallel()
	n, ok := traffic.Number("evt_0000tag10000010007")
	require.True(t, ok)
	require.Equal(t, 10_007, n)
	for _, id := range []string{"", "evt_1", "evt_0000tag1000001000x"} {
		_, ok := traffic.Number(id)
		require.False(t, ok, id)
	}
}
