package operator_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/operator"
)

// event show says why an event was ignored.
func TestShowEventSaysWhyItWasIgnored(t *testing.T) {
	s := newSystem(t)
	test := event("evt_test", "paid", `{}`)
	test.Source, test.Mode = "stripe", "test"
	s.decide(payment("evt_zero", "p1", "0", "EUR"), event("evt_note", "noted", `{}`), test)
	for id, want := range map[string]string{
		"evt_zero": `(?m)^state +completed \(ignored\)\nreason +amount_zero\nbecause +every amount that the rules read of it is 0$`,
		"evt_note": `(?m)^reason +unmatched\nbecause +no rule of its source matches it$`,
		"evt_test": `(?m)^reason +mode_mismatch\nbecause +it is test traffic at a live source`,
	} {
		source := "shop"
		if id == "evt_test" {
			source = "stripe"
		}
		out, err := s.run(false, func(ctx context.Context, o *operator.Session) error { return operator.ShowEvent(ctx, o, source, id) })
		require.NoError(t, err)
		require.Regexp(t, want, out)
	}
}
