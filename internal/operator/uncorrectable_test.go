package operator_test

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/internal/review"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// ownBooks are the sources of docs/operations.md with which a person books what event
// correct refuses, and the body that stands there for it.
func ownBooks(t *testing.T) (sources, body string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "### What event correct refuses")
	require.True(t, ok)
	block := func(kind string) string {
		_, rest, ok := strings.Cut(section, "```"+kind+"\n")
		require.True(t, ok)
		found, _, ok := strings.Cut(rest, "```")
		require.True(t, ok)
		return found
	}
	return strings.ReplaceAll(block("yaml"), "${BOOKS_WEBHOOK_SECRET}", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), block("json")
}

// received is the event that the receiver makes of a signed request with this body.
func (s *system) received(source, id, body string) *envelope.Event {
	s.t.Helper()
	src := s.cat.Sources[source]
	require.NotNil(s.t, src, source)
	request, err := src.Sign([]byte(body), id, time.Now())
	require.NoError(s.t, err)
	require.NoError(s.t, src.Verify(s.t.Context(), request, time.Now()))
	events := src.Events(request, time.Now())
	require.Len(s.t, events, 1)
	require.Empty(s.t, events[0].Fault)
	return events[0]
}

// sent lets a worker decide what a source receives, and returns the outcome, or why
// it is parked.
func (s *system) sent(source, id, body string) string {
	s.t.Helper()
	e := s.received(source, id, body)
	s.decide(e)
	out, err := s.run(true, func(ctx context.Context, o *operator.Session) error { return operator.ShowEvent(ctx, o, source, e.ID) })
	require.NoError(s.t, err)
	shown := lines[operator.Event](s.t, out)[0]
	return cmp.Or(shown.Reason, shown.Outcome)
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
	with := strings.Replace(strings.Replace(configuration, "  stripe:\n", counter, 1), "  stripe:\n", more, 1)
	books, _ := ownBooks(t)
	with += strings.Replace(books, "operation_scope: stripe", "operation_scope: shop", 1)
	with = strings.Replace(with, "    id: body:id\n", "    id: body:id\n    live_mode: body:live\n", 1)
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
	for i, e := range wrong {
		wrong[i] = s.received("shop", e.ID, strings.Replace(string(e.Data), "{", `{"live":true,`, 1))
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
		require.Equal(t, "applied", s.sent("books", id, `{"type":"`+typ+`","timestamp":"2026-01-01T00:00:00Z","data":{"id":"`+id+`","live":true,`+data+`}}`))
	}
	own("INC-7-1", "void", `"void":["hold","evt_hold"]`)
	own("INC-7-2", "give_back", `"give_back":{"of":["capture","evt_capture"],"debit":"shop","credit":"bank","amount":30,"currency":"EUR"}`)
	own("INC-7-3", "give_back", `"give_back":{"of":["refund","evt_refund"],"debit":"purse:1","credit":"shop","amount":10,"currency":"EUR"}`)
	own("INC-7-4", "post", `"post":{"debit":"purse:1","credit":"shop","amount":30,"currency":"EUR"}`)
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

// What stands in the docs books a live payment of Stripe and one of Adyen anew: as a
// whole, or not at all.
func TestOwnBooksAsPrinted(t *testing.T) {
	s := newSystem(t)
	books, body := ownBooks(t)
	s.write(strings.Replace(configuration, "    secret: whsec_of_the_test\n", `    secret: whsec_of_the_test
    rules:
      - when: "true"
        transfers:
          - {debit: '"stripe:receivable"', credit: '"wallet:ann"', amount: body.data.object.amount, asset: body.data.object.currency, operation: 'op("payment", body.data.object.id)'}
  adyen:
    provider: adyen
    secret: 44782def547aaa06c910c43932b1eb0c71fc68d9d0c057550c48ec2acf6ba056
    rules:
      - when: "true"
        transfers:
          - {debit: '"adyen:Shop"', credit: '"wallet:ann"', amount: body.NotificationRequestItem.amount.value, asset: body.NotificationRequestItem.amount.currency, operation: 'op("payment", body.NotificationRequestItem.pspReference)'}
`, 1) + books)
	stripe := `{"id":"evt_22","object":"event","type":"payment_intent.succeeded","created":1700000000,"livemode":true,"data":{"object":{"id":"pi_22","amount":250,"currency":"eur"}}}`
	require.Equal(t, "applied", s.sent("stripe", "evt_22", stripe))
	notice, _, err := s.cat.Sources["adyen"].Compose(provider.Sample{ID: "8815", Amount: "250"})
	require.NoError(t, err)
	require.Equal(t, "applied", s.sent("adyen", "8815", string(notice)))
	require.EqualValues(t, 500, s.balance("wallet:ann"))

	require.Equal(t, "missing_parent", s.sent("books", "INC-7-0", strings.NewReplacer("INC-7-1", "INC-7-0", `"pi_22"`, `"pi_23"`).Replace(body)))
	require.Zero(t, s.count(`SELECT count(*) FROM accounts WHERE name = 'wallet:bob' AND credits_posted > 0`), "no half of it is booked")
	require.Equal(t, "mode_mismatch", s.sent("books", "INC-7-2", strings.NewReplacer("INC-7-1", "INC-7-2", `"live": true,`, "").Replace(body)))

	got := make(chan string, 1)
	server := standIn(t, s.cat, func(e *envelope.Event) { got <- e.ID })
	_, err = s.run(false, func(ctx context.Context, o *operator.Session) error { // as the page sends it
		return operator.Send(ctx, o, strings.NewReader(body), operator.Sending{Source: "books", Body: "-", Sample: provider.Sample{ID: "INC-7-1"}, URL: server.URL})
	})
	require.NoError(t, err)
	require.Equal(t, "INC-7-1", <-got)
	require.Equal(t, "applied", s.sent("books", "INC-7-1", body))
	require.EqualValues(t, []int64{250, 250}, []int64{s.balance("wallet:ann"), s.balance("wallet:bob")})
	require.Equal(t, "applied", s.sent("books-adyen", "INC-8-1", strings.NewReplacer("INC-7-1", "INC-8-1", `"pi_22"`, `"8815"`,
		"stripe:receivable", "adyen:Shop", `"live": true`, `"live": true, "account": "Shop"`).Replace(body)))
	require.EqualValues(t, []int64{0, 500}, []int64{s.balance("wallet:ann"), s.balance("wallet:bob")})
	s.auditClean()
}
