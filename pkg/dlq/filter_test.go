package dlq_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/dlq"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	noon := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	l := &dlq.Letter{
		Seq: 17, Parked: noon, Source: "shop", EventID: "evt_1", Reason: dlq.RuleError,
		Header: nats.Header{
			"ce-id": {"evt_1"}, "ce-source": {"shop"}, "ce-type": {"charge.paid"}, "ce-specversion": {"1.0"}, "ce-time": {"2024-05-01T10:00:00Z"},
		},
	}
	require.Equal(t, "charge.paid", l.EventType())
	for _, f := range []dlq.Filter{
		{}, {Reason: dlq.RuleError}, {Source: "shop"}, {Type: "charge.paid"}, {Type: "charge.*"}, {EventID: "evt_1"}, {EventID: "evt*"}, {EventID: "*"},
		{From: 17}, {To: 17}, {From: 10, To: 20}, {Before: noon.Add(1)}, {Since: noon},
		{Reason: dlq.RuleError, Source: "shop", Type: "charge.*", EventID: "evt_*", From: 17, To: 17, Before: noon.Add(1), Since: noon},
	} {
		require.True(t, f.Selects(l), "%+v", f)
	}
	for _, f := range []dlq.Filter{
		{Reason: dlq.BadJSON}, {Source: "sho"}, {Type: "charge"}, {Type: "refund.*"}, {EventID: "evt"}, {EventID: "evt_2*"},
		{From: 18}, {To: 16}, {Before: noon}, {Since: noon.Add(1)},
	} {
		require.False(t, f.Selects(l), "%+v", f)
	}
}
