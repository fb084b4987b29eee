package operator_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/review"
)

// advised returns what the comparison says for a person.
func (s *system) advised() string {
	s.t.Helper()
	out, _ := s.run(false, func(ctx context.Context, o *operator.Session) error {
		return operator.CheckAgainstStream(ctx, o, s.env["ONCELEDGER_CONFIG"], review.Filter{})
	})
	return out
}

// all makes a kind of repair wherever it is needed.
func (s *system) all(command func(context.Context, *operator.Session, operator.EventRepair) error) {
	s.t.Helper()
	m := mending
	m.All, m.Yes = true, true
	_, err := s.run(true, func(ctx context.Context, o *operator.Session) error { return command(ctx, o, m) })
	require.NoError(s.t, err)
}

func (s *system) reopen(id string) {
	s.t.Helper()
	_, err := s.run(true, func(ctx context.Context, o *operator.Session) error { return operator.ReopenEvents(ctx, o, named(id)) })
	require.NoError(s.t, err)
	s.work(s.settle)
}

// Two events report one payment, and the rules now read another account from both:
// the first can be corrected, and the other has nothing of its own to mend.
func TestAdviceForADuplicateOfWhatDiffers(t *testing.T) {
	s := newSystem(t)
	s.decide(payment("evt_paid", "p1", "500", "EUR"), payment("evt_again", "p1", "500", "EUR"))
	s.rules("credit: body.to", `credit: '"purse:all"'`)

	differences, sum := s.against(review.Filter{})
	require.Equal(t, &operator.Refused{Reason: "operation_conflict", Operation: "4:shop,0:,0:,7:payment,2:p1,", Source: "shop", EventID: "evt_paid"}, differences[1].Refused)
	require.Equal(t, []operator.DifferenceGroup{
		{Kind: "would_post_differently", Source: "shop", Events: 1},
		{Kind: "would_post", Source: "shop", Refused: "operation_conflict", Events: 1},
	}, sum.Groups)
	out := s.advised()
	require.Regexp(t, `(?m)evt_again .*; operation_conflict: event evt_paid of shop has shop/payment/p1$`, out)
	require.Regexp(t, `(?m)^1 +would_post +shop +operation_conflict +nothing with this event: .* event correct that one if it is listed`, out)
	require.NotContains(t, out, "event reopen")

	s.all(operator.ReopenEvents)
	require.Equal(t, "duplicate_operation", s.event("evt_again").Outcome, "it is left alone")
	s.all(operator.CorrectEvents)
	require.Empty(t, s.kinds(review.Filter{}), "nothing is left to do")
	s.auditClean()
}

// What waits for an account to be opened is not mended by sending it again.
func TestAdviceForAnAccountThatIsNotOpen(t *testing.T) {
	s := newSystem(t)
	s.rules(`event.type == "paid"`, `event.type == "bought"`)
	s.decide(payment("evt_paid", "p1", "500", "EUR"))
	s.rules("accounts:", "accounts_policy: explicit\naccounts:")
	require.Regexp(t, `(?m)^1 +would_post +shop +account_unknown +first onceledger account open, then event reopen`, s.advised())
	require.Contains(t, s.advised(), "; account_unknown: shop:due in EUR\n")

	s.reopen("evt_paid")
	require.Equal(t, "account_unknown", s.event("evt_paid").Reason)
	require.Empty(t, s.kinds(review.Filter{}), "today's rules would park it as it is")
	for _, name := range []string{"shop:due", "purse:a"} {
		_, err := s.change(operator.OpenAccount, operator.AccountChange{Account: name, Asset: "EUR", Note: "new"})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"evt_paid would_apply"}, s.kinds(review.Filter{}))
}

// A refund whose charge was never posted can only wait for it.
func TestAdviceForAMissingParent(t *testing.T) {
	s := newSystem(t)
	s.decide(refund("evt_refund", "100"))
	s.rules(`      - when: event.type == "paid"
        transfers:
`, `      - when: event.type in ["paid", "refunded"]
        transfers:
          - {refunds: 'op("charge", body.payment)', debit: body.from, credit: body.to, amount: body.amount, asset: body.asset, operation: 'op("refund", body.id)'}
`)
	out := s.advised()
	require.Regexp(t, `(?m)^1 +would_post +shop +missing_parent +first let what it is about be posted, then event reopen`, out)
	require.Contains(t, out, "; missing_parent: shop/charge/evt_refund\n")
}
