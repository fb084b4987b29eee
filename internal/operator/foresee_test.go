package operator_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/operator"
)

// A dry run of event reopen says what the books, too, make of the event.
func TestADryReopenSaysWhatIsInTheWay(t *testing.T) {
	s := newSystem(t)
	refund := func(id, of string) {
		s.decide(event(id, "settled", `{"id":"`+id+`","type":"settled","payment":"`+of+`","from":"shop:due","to":"purse:a","amount":1999,"asset":"EUR"}`))
	}
	s.decide(payment("evt_1", "p1", "1999", "EUR"), payment("evt_2", "p1", "1999", "EUR"))
	require.Equal(t, "duplicate_operation", s.event("evt_2").Outcome)
	s.decide(payment("evt_3", "p3", "500", "EUR"))
	refund("same", "p1")
	refund("other", "p3")
	refund("free", "p9")
	s.rules(`event.type == "paid"`, `event.type in ["paid", "settled"]`)

	for id, want := range map[string]struct{ reason, by, text, becomes string }{
		"evt_2": {"duplicate_operation", "evt_1", "; duplicate_operation: event evt_1 of shop has ", "duplicate_operation"},
		"same":  {"duplicate_operation", "evt_1", "; duplicate_operation: event evt_1 of shop has ", "duplicate_operation"},
		"other": {"operation_conflict", "evt_3", "; operation_conflict: event evt_3 of shop has ", ""},
		"free":  {"", "", "apply it", "applied"},
	} {
		planned := named(id)
		planned.DryRun = true
		reopen := func(ctx context.Context, o *operator.Session) error { return operator.ReopenEvents(ctx, o, planned) }
		out, err := s.run(true, reopen)
		require.NoError(t, err)
		e := repaired(t, out)
		require.Equal(t, "reopened", e.Result)
		if want.reason == "" {
			require.Nil(t, e.Refused, id)
		} else {
			require.NotNil(t, e.Refused, id)
			require.Equal(t, []string{want.reason, "shop", want.by}, []string{e.Refused.Reason, e.Refused.Source, e.Refused.EventID}, id)
		}
		out, err = s.run(false, reopen)
		require.NoError(t, err)
		require.Contains(t, out, want.text, id)

		s.reopen(id)
		require.Equal(t, want.becomes, s.event(id).Outcome, "what was foreseen comes")
	}
	require.Equal(t, "operation_conflict", s.event("other").Reason)
}
