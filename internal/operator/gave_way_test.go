package operator_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/operator"
)

// Whoever wonders where the money of an event is finds the event that moved it.
func TestADuplicateNamesTheEventThatItGaveWayTo(t *testing.T) {
	s := newSystem(t)
	s.decide(payment("evt_1", "p1", "1999", "EUR"), payment("evt_2", "p1", "1999", "EUR"))
	s.decideTogether(payment("evt_3", "p3", "5", "EUR"), payment("evt_4", "p1", "1999", "EUR"))
	s.reopen("evt_2")
	require.Equal(t, 1, s.event("evt_2").Redrives)

	for _, id := range []string{"evt_2", "evt_4"} {
		e := s.event(id)
		require.Equal(t, "duplicate_operation", e.Outcome)
		require.Equal(t, &operator.GaveWay{Operation: s.event("evt_1").Transfers[0].Operation, Source: "shop", ID: "evt_1", Number: s.event("evt_1").Number}, e.GaveWay)
		require.Empty(t, e.Error)
		out, err := s.run(false, func(ctx context.Context, o *operator.Session) error { return operator.ShowEvent(ctx, o, "shop", id) })
		require.NoError(t, err)
		require.Regexp(t, `(?m)^gave way to +event evt_1 of shop, which had posted shop/payment/p1$`, out)
		require.NotRegexp(t, `(?m)^error`, out)
	}
	require.Nil(t, s.event("evt_3").GaveWay)
	out, err := s.run(false, func(ctx context.Context, o *operator.Session) error {
		return operator.ExportEvents(ctx, o, time.Time{})
	})
	require.NoError(t, err)
	require.Regexp(t, `"id":"evt_2".*"gave_way_to":\{"operation":"[^"]+","source":"shop","id":"evt_1"`, out)
}
