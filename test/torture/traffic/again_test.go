package traffic

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a run has sent is written again from its history.
func TestFindWritesTheRunAgain(t *testing.T) {
	first := New(9, 100)
	var sent []Delivery
	for len(sent) < 3000 {
		if len(sent)%500 == 100 {
			first.Deadly()
		}
		d, ok := first.Next()
		require.True(t, ok)
		sent = append(sent, d)
	}
	again := New(9, 100)
	slices.Reverse(sent[:50]) // a history is not quite in order
	for _, d := range sent {
		e, err := again.Find(d.Event.Source, d.Event.ID)
		require.NoError(t, err)
		require.Equal(t, string(d.Body()), string(Delivery{Event: e, Content: d.Content, Form: d.Form}.Body()))
		require.Equal(t, d.Event.Fate, e.Fate)
	}
	again.Keep()
	for _, p := range again.Purses {
		require.NotEmpty(t, p.Spends)
	}
	_, err := again.Find(Stripe, "evt_unknown")
	require.ErrorContains(t, err, "is not of seed and rate")
}
