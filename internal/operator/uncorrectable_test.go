package operator_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/review"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// ownBooks is the source of docs/operations.md with which a person books what event
// correct refuses.
func ownBooks(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "### What event correct refuses")
	require.True(t, ok)
	_, section, ok = strings.Cut(section, "```yaml\n")
	require.True(t, ok)
	rules, _, ok := strings.Cut(section, "```")
	require.True(t, ok)
	return strings.NewReplacer("${BOOKS_WEBHOOK_SECRET}", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "operation_scope: stripe", "operation_scope: shop").Replace(rules)
}

// The comparison says of each event whether event correct mends it, and what it
// refuses a person books by events of their own.
func TestWhatCannotBeCorrected(t *testing.T) {
	s := newSystem(t)
	more := `      - when: event.type == "authorised"
        transfers:
          - {hold: true, expires: 8760h, debit: '"bank"', credit: '"shop"', amount: 50, asset: '"EUR"', operation: 'op("hold", body.id)'}
      - when: event.type == "captured"
        transfers:
          - {captures: 'op("hold", body.of)', debit: '"bank"', credit: '"shop"', amount: 30, asset: '"EUR"', operation: 'op("capture", body.id)'}
  stripe:
`
	with := strings.Replace(strings.Replace(configuration, "  stripe:\n", counter, 1), "  stripe:\n", more, 1) + ownBooks(t)
	with = strings.Replace(with, "    id: body:id\n", "    id: body:id\n    mode: live\n", 1)
	load := func(text string) {
		s.write(text)
		var err error
		s.cat, err = catalog.Load(s.env["ONCELEDGER_CONFIG"], s.lookup)
		require.NoError(t, err)
	}
	load(with)
	wrong := []*envelope.Event{payment("evt_paid", "p1", "500", "EUR"),
		event("evt_hold", "authorised", `{"id":"evt_hold","type":"authorised"}`), event("evt_capture", "captured", `{"id":"evt_capture","type":"captured","of":"evt_hold"}`),
		event("evt_sale", "sale", `{"id":"evt_sale","type":"sale"}`), event("evt_refund", "refund", `{"id":"evt_refund","type":"refund","of":"evt_sale","amount":10,"total":40}`)}
	for _, e := range wrong {
		e.Mode = "live" // the receiver says so
	}
	s.decide(wrong...)
	for _, e := range wrong {
		corrected, err := s.correct(e.ID, operator.EventRepair{DryRun: true})
		require.NoError(t, err, e.ID)
		require.Equal(t, "unchanged", corrected.Result, "nothing differs yet, so that nothing is refused")
	}

	// Every rule is another one.
	load(strings.NewReplacer("credit: body.to", `credit: '"other"'`, "amount: 50", "amount: 51", "amount: 30", "amount: 31", "amount: 100,", "amount: 90,",
		"running_total: true, ", "").Replace(with))
	differences, sum := s.against(review.Filter{})
	var refused []string
	for _, d := range differences {
		require.Equal(t, string(review.WouldPostDifferently), d.Kind)
		plan := operator.EventRepair{DryRun: true}
		_, err := s.correct(d.EventID, plan)
		require.Equal(t, d.Uncorrectable, err != nil, "%s: %v", d.EventID, err)
		if d.Uncorrectable {
			require.ErrorContains(t, err, "not corrected")
			require.ErrorContains(t, err, "correct event "+d.EventID+" of shop: ")
			require.ErrorContains(t, err, ": shop/live/")
			require.ErrorContains(t, err, `docs/operations.md says under "What event correct refuses"`)
			refused = append(refused, d.EventID)
		}
	}
	slices.Sort(refused)
	require.Equal(t, []string{"evt_capture", "evt_hold", "evt_refund", "evt_sale"}, refused)
	require.Equal(t, []operator.DifferenceGroup{
		{Kind: "would_post_differently", Source: "shop", Events: 1},
		{Kind: "would_post_differently", Source: "shop", Uncorrectable: true, Events: 4},
	}, sum.Groups)
	out, _ := s.run(false, func(ctx context.Context, o *operator.Session) error {
		return operator.CheckAgainstStream(ctx, o, s.env["ONCELEDGER_CONFIG"], review.Filter{})
	})
	require.Regexp(t, `(?m)^1 +would_post_differently +shop +- +event correct: takes back`, out)
	require.Regexp(t, `(?m)^4 +would_post_differently +shop +- +event correct refuses`, out)
	out, err := s.run(false, func(ctx context.Context, o *operator.Session) error {
		return operator.CorrectEvents(ctx, o, operator.EventRepair{All: true, DryRun: true})
	})
	require.Error(t, err)
	require.Contains(t, out, "refused: event evt_hold of shop: holds, captures and voids are not corrected", "the event is named once")
	require.NotContains(t, out, "correct event")
	require.Contains(t, out, `docs/operations.md says under "What event correct refuses"`)

	// By hand: what is left of the hold, the capture, the refund.
	own := func(id, typ, data string) {
		e := event(id, typ, `{"type":"`+typ+`","timestamp":"2026-01-01T00:00:00Z","data":{"id":"`+id+`",`+data+`}}`)
		e.Source, e.Mode = "books", "live"
		s.decide(e)
		require.Equal(t, "applied", s.bookedAs(id))
	}
	own("INC-7/1", "void", `"of":["hold","evt_hold"]`)
	own("INC-7/2", "give_back", `"of":["capture","evt_capture"],"debit":"shop","credit":"bank","amount":30,"currency":"EUR"`)
	own("INC-7/3", "give_back", `"of":["refund","evt_refund"],"debit":"purse:1","credit":"shop","amount":10,"currency":"EUR"`)
	own("INC-7/4", "post", `"debit":"purse:1","credit":"shop","amount":30,"currency":"EUR"`)
	require.Zero(t, s.count(`SELECT count(*) FROM accounts WHERE debits_pending > 0`))
	require.EqualValues(t, 100, s.balance("shop"), "the sale alone")
	s.auditClean()
}

// Rules that leave what was posted as it is, and only add a hold: event correct refuses
// where the event was applied. One that was ignored is reopened, holds and all.
func TestAHoldThatIsOnlyAdded(t *testing.T) {
	s := newSystem(t)
	s.decide(payment("evt_paid", "p1", "500", "EUR"), event("evt_note", "noted", `{"id":"evt_note","type":"noted"}`))
	s.write(strings.Replace(configuration, "  stripe:\n", `      - when: event.type in ["paid", "noted"]
        transfers:
          - {hold: true, expires: 8760h, debit: '"bank"', credit: '"shop"', amount: 50, asset: '"EUR"', operation: 'op("hold", body.id)'}
  stripe:
`, 1))
	var err error
	s.cat, err = catalog.Load(s.env["ONCELEDGER_CONFIG"], s.lookup)
	require.NoError(t, err)

	differences, sum := s.against(review.Filter{})
	require.Equal(t, []operator.DifferenceGroup{
		{Kind: "would_post_differently", Source: "shop", Uncorrectable: true, Events: 1},
		{Kind: "would_post", Source: "shop", Events: 1},
	}, sum.Groups)
	require.Equal(t, []string{"evt_paid", "evt_note"}, []string{differences[0].EventID, differences[1].EventID})
	_, err = s.correct("evt_paid", operator.EventRepair{DryRun: true})
	require.ErrorContains(t, err, "not corrected")
	_, err = s.correct("evt_note", operator.EventRepair{DryRun: true})
	require.ErrorContains(t, err, "event reopen for those that are ignored")
}

func (s *system) bookedAs(id string) (outcome string) {
	s.t.Helper()
	require.NoError(s.t, s.pool().QueryRow(s.t.Context(), `SELECT outcome FROM events WHERE source = 'books' AND event_id = $1`, id).Scan(&outcome))
	return outcome
}
