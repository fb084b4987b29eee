package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

var stripe = rules.Preset{
	Name: "stripe", LowerCurrency: true, HasMode: true,
	FingerprintPaths: [][]string{{"type"}, {"account"}, {"created"}, {"data", "object", "id"}, {"data", "object", "amount"}, {"data", "object", "currency"}},
}

func text(s string) config.Text { return config.Text{Value: s, Pos: config.Pos{Line: 7, Column: 11}} }

// chargeRule posts a Stripe charge from the world to its customer.
func chargeRule() config.Rule {
	return config.Rule{
		When: text(`event.type == "charge.succeeded"`),
		Transfers: []config.Transfer{{
			Debit:     text(`"world"`),
			Credit:    text(`"customer:" + body.data.object.customer`),
			Amount:    text(`body.data.object.amount`),
			Asset:     text(`body.data.object.currency`),
			Operation: text(`op("charge", body.data.object.id)`),
		}},
	}
}

func stripeSource(r ...config.Rule) config.Source {
	return config.Source{Name: text("stripe"), Provider: text("stripe"), Rules: r}
}

func compile(t require.TestingT, src config.Source, p rules.Preset) *rules.Set {
	assets, err := ledger.NewAssets([]ledger.Asset{{Code: "POINTS", Exponent: 0}})
	require.NoError(t, err)
	set, faults := rules.Compile(src, p, assets)
	require.Empty(t, faults)
	return set
}

func stripeEvent(body string) *envelope.Event {
	return &envelope.Event{Source: "stripe", ID: "evt_1", Type: "charge.succeeded", Mode: "live", Data: []byte(body)}
}

// stripeBody is a charge whose object has the given members besides id and customer.
func stripeBody(members string) string {
	return `{"id":"evt_1","object":"event","livemode":true,"created":1719830400,"type":"charge.succeeded","data":{"object":{"id":"ch_1","customer":"cus_1",` + members + `}}}`
}

func TestDecidePostsTransfer(t *testing.T) {
	t.Parallel()
	set := compile(t, stripeSource(chargeRule()), stripe)
	d := set.Decide(stripeEvent(stripeBody(`"amount":4999,"currency":"eur"`)))
	require.NoError(t, d.Err)
	require.Equal(t, []ledger.Transfer{{
		Operation: "6:stripe,0:,4:live,6:charge,4:ch_1,", Debit: "world", Credit: "customer:cus_1", Asset: "EUR", Amount: 4999,
	}}, d.Transfers)
	require.Empty(t, d.Parked)
	require.Empty(t, d.Ignored)
	require.NotZero(t, d.Fingerprint)
}

func TestDecideScopesOperations(t *testing.T) {
	t.Parallel()
	src := stripeSource(chargeRule())
	src.OperationScope, src.Mode = "payments", "test"
	ev := stripeEvent(stripeBody(`"amount":1,"currency":"EUR"`))
	ev.Account, ev.Mode = "acct_9", "test"
	d := compile(t, src, stripe).Decide(ev)
	require.Equal(t, "8:payments,6:acct_9,4:test,6:charge,4:ch_1,", d.Transfers[0].Operation)
}

func TestDecideIgnoresOrParksUnmatched(t *testing.T) {
	t.Parallel()
	src := stripeSource(chargeRule())
	ev := stripeEvent(stripeBody(`"amount":1,"currency":"eur"`))
	ev.Type = "customer.created"
	d := compile(t, src, stripe).Decide(ev)
	require.Equal(t, rules.Decision{Ignored: dlq.Unmatched, Fingerprint: d.Fingerprint}, d)

	src.Unmatched = "park"
	d = compile(t, src, stripe).Decide(ev)
	require.Equal(t, dlq.Unmatched, d.Parked)
	require.ErrorContains(t, d.Err, `"customer.created"`)
	_, known := d.Parked.Info()
	require.True(t, known)
}

func TestDecideSaysWhyItIgnores(t *testing.T) {
	t.Parallel()
	silent := chargeRule()
	silent.Transfers = nil
	for want, src := range map[dlq.Reason]config.Source{
		dlq.AmountZero:  stripeSource(chargeRule(), silent),
		dlq.NoTransfers: stripeSource(silent),
		dlq.Unmatched:   stripeSource(),
	} {
		d := compile(t, src, stripe).Decide(stripeEvent(stripeBody(`"amount":0,"currency":"eur"`)))
		require.NoError(t, d.Err)
		require.Equal(t, want, d.Ignored)
		info, _ := want.Info()
		require.NotEmpty(t, info.Ignored)
	}
	d := compile(t, stripeSource(silent, chargeRule()), stripe).Decide(stripeEvent(stripeBody(`"amount":1,"currency":"eur"`)))
	require.Empty(t, d.Ignored)
}

func TestDecideParksWhatTheReceiverCouldNotRead(t *testing.T) {
	t.Parallel()
	set := compile(t, stripeSource(chargeRule()), stripe)
	for _, reason := range []dlq.Reason{dlq.NoEventID, dlq.IDInvalid, dlq.BadJSON} {
		ev := stripeEvent(`whatever`)
		ev.Fault, ev.Mode = string(reason), ""
		d := set.Decide(ev)
		require.Equal(t, reason, d.Parked)
		require.Error(t, d.Err)
		require.Empty(t, d.Transfers)
	}

	ev := stripeEvent(`{"id":"evt","amount":1,"amount":2}`)
	ev.Fault = string(dlq.AmbiguousJSON)
	require.ErrorContains(t, set.Decide(ev).Err, `"amount"`, "the letter says which member")
}

func TestDecideParksBadBodies(t *testing.T) {
	t.Parallel()
	set := compile(t, stripeSource(chargeRule()), stripe)
	for body, reason := range map[string]dlq.Reason{
		``:          dlq.BadJSON,
		`{"id":`:    dlq.BadJSON,
		`id=1&a=b`:  dlq.BadJSON,
		`{} trail`:  dlq.BadJSON,
		`{"a":NaN}`: dlq.BadJSON,
		strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000):   dlq.BadJSON,
		stripeBody(`"amount":1,"amount":900,"currency":"eur"`):      dlq.AmbiguousJSON,
		stripeBody(`"amount":1,"currency":"eur","x":{"a":1,"a":2}`): dlq.AmbiguousJSON,
		// Another shape than the rules expect is no reason to ignore it.
		`[]`:                      dlq.AmountMissing,
		`null`:                    dlq.AmountMissing,
		`"text"`:                  dlq.AmountMissing,
		`{"data":null}`:           dlq.AmountMissing,
		`{"data":{"object":[1]}}`: dlq.AmountMissing,
	} {
		d := set.Decide(stripeEvent(body))
		require.Equal(t, reason, d.Parked, "%.60s: %v", body, d.Err)
		require.Error(t, d.Err)
	}
}

// Case 12 and 60.
func TestDecideKeepsLiveAndTestApart(t *testing.T) {
	t.Parallel()
	set := compile(t, stripeSource(chargeRule()), stripe)
	test := func(body string) rules.Decision {
		ev := stripeEvent(body)
		ev.Mode = "test"
		return set.Decide(ev)
	}
	first := test(stripeBody(`"amount":100,"currency":"eur"`))
	require.Equal(t, dlq.ModeMismatch, first.Ignored)
	require.Empty(t, first.Parked)
	require.Empty(t, first.Transfers)
	require.Equal(t, first, test(stripeBody(`"amount":900,"currency":"usd"`)), "two test bodies under one id are no conflict")

	ev := stripeEvent(stripeBody(`"amount":100,"currency":"eur"`))
	ev.Mode = ""
	missing := set.Decide(ev)
	require.Equal(t, dlq.ModeMismatch, missing.Parked)
	require.Error(t, missing.Err)
	require.NotEqual(t, first.Fingerprint, missing.Fingerprint)

	src := stripeSource(chargeRule())
	src.Mode = "test"
	live := compile(t, src, stripe).Decide(stripeEvent(stripeBody(`"amount":100,"currency":"eur"`)))
	require.Equal(t, dlq.ModeMismatch, live.Ignored)

	without := stripe
	without.HasMode = false
	require.Len(t, compile(t, stripeSource(chargeRule()), without).Decide(ev).Transfers, 1)
}

func TestDecideAppliesEveryMatchingRule(t *testing.T) {
	t.Parallel()
	fee := config.Rule{When: text(`body.data.object.fee > 0`), Transfers: []config.Transfer{
		{Debit: text(`"customer:" + body.data.object.customer`), Credit: text(`"fees"`), Amount: text(`body.data.object.fee`),
			Asset: text(`"EUR"`), Operation: text(`op("fee", body.data.object.id)`)},
		{Debit: text(`"fees"`), Credit: text(`"tax"`), Amount: text(`body.data.object.fee / 5`),
			Asset: text(`"EUR"`), Operation: text(`op("tax", body.data.object.id)`)},
	}}
	set := compile(t, stripeSource(chargeRule(), fee), stripe)
	d := set.Decide(stripeEvent(stripeBody(`"amount":1000,"fee":50,"currency":"eur"`)))
	require.NoError(t, d.Err)
	require.Len(t, d.Transfers, 3)
	require.Equal(t, int64(1000), d.Transfers[0].Amount)
	require.Equal(t, int64(50), d.Transfers[1].Amount)
	require.Equal(t, int64(10), d.Transfers[2].Amount)

	// A failing condition parks the event, whatever the other rules say.
	d = set.Decide(stripeEvent(stripeBody(`"amount":1000,"currency":"eur"`)))
	require.Equal(t, dlq.RuleError, d.Parked)
	require.Empty(t, d.Transfers)
	require.ErrorContains(t, d.Err, "sources.stripe.rules[1].when (7:11)")
	require.ErrorContains(t, d.Err, "fee")
}

func TestDecideFoldsEqualOperationsAndParksConflicts(t *testing.T) {
	t.Parallel()
	again := chargeRule()
	again.When = text("true")
	ev := stripeEvent(stripeBody(`"amount":10,"currency":"eur"`))
	d := compile(t, stripeSource(chargeRule(), again), stripe).Decide(ev)
	require.Len(t, d.Transfers, 1)

	again.Transfers[0].Amount = text("body.data.object.amount + 1")
	d = compile(t, stripeSource(chargeRule(), again), stripe).Decide(ev)
	require.Equal(t, dlq.OperationConflict, d.Parked)
	require.Empty(t, d.Transfers)
}

func TestDecideNamesParents(t *testing.T) {
	t.Parallel()
	r := chargeRule()
	r.Transfers[0].Operation = text(`op("refund", body.data.object.id)`)
	r.Transfers[0].Parent = text(`op("charge", body.data.object.charge)`)
	set := compile(t, stripeSource(r), stripe)
	decide := func(members string) rules.Decision {
		return set.Decide(stripeEvent(stripeBody(`"amount":10,"currency":"eur"` + members)))
	}
	d := decide(`,"charge":"ch_9"`)
	require.NoError(t, d.Err)
	require.Equal(t, "6:stripe,0:,4:live,6:charge,4:ch_9,", d.Transfers[0].Parent)
	require.NotEqual(t, d.Fingerprint, decide(`,"charge":"ch_8"`).Fingerprint, "it is part of the meaning")
	for _, members := range []string{``, `,"charge":null`, `,"charge":""`} {
		d := decide(members)
		require.Equal(t, dlq.NoOperation, d.Parked, members)
		require.ErrorContains(t, d.Err, "sources.stripe.rules[0].transfers[0].parent (7:11)")
	}

	require.False(t, d.Transfers[0].Refund)
	back := r
	back.Transfers = []config.Transfer{r.Transfers[0]}
	back.Transfers[0].Parent, back.Transfers[0].Refunds = config.Text{}, r.Transfers[0].Parent
	for _, both := range [][]config.Rule{{back}, {r, back}, {back, r}} {
		d := compile(t, stripeSource(both...), stripe).Decide(stripeEvent(stripeBody(`"amount":10,"currency":"eur","charge":"ch_9"`)))
		require.NoError(t, d.Err)
		require.Len(t, d.Transfers, 1)
		require.Equal(t, "6:stripe,0:,4:live,6:charge,4:ch_9,", d.Transfers[0].Parent)
		require.True(t, d.Transfers[0].Refund)
	}
	require.NotEqual(t, set.Version(), compile(t, stripeSource(back), stripe).Version())

	// Two rules of one event may name one operation, of which one knows no parent.
	without := r
	without.Transfers = []config.Transfer{r.Transfers[0]}
	without.Transfers[0].Parent = config.Text{}
	for _, both := range [][]config.Rule{{r, without}, {without, r}} {
		d := compile(t, stripeSource(both...), stripe).Decide(stripeEvent(stripeBody(`"amount":10,"currency":"eur","charge":"ch_9"`)))
		require.NoError(t, d.Err)
		require.Len(t, d.Transfers, 1)
		require.NotEmpty(t, d.Transfers[0].Parent)
	}
}

func TestDecideIsBoundedAndNeverPanics(t *testing.T) {
	t.Parallel()
	numbers := fmt.Sprintf(`{"list":[%s0]}`, strings.Repeat("1,", 2000))
	for condition, body := range map[string]string{
		`body.list.all(a, body.list.all(b, body.list.all(c, a + b + c >= 0)))`:        numbers,
		`body.text.matches("` + strings.Repeat("(a|b)*", 40) + `c")`:                  `{"text":"` + strings.Repeat("ab", 500_000) + `"}`,
		`body.text.split("").join("` + strings.Repeat("long", 100) + `").size() == 7`: `{"text":"` + strings.Repeat("ab", 500_000) + `"}`,
	} {
		r := chargeRule()
		r.When = text(condition)
		d := compile(t, stripeSource(r), stripe).Decide(stripeEvent(body))
		require.Equal(t, dlq.RuleError, d.Parked, condition)
		require.ErrorContains(t, d.Err, "cost limit", condition)
	}
}

func TestDecideIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	set := compile(t, stripeSource(chargeRule()), stripe)
	var group errgroup.Group
	for worker := range 8 {
		group.Go(func() error {
			for i := range 200 {
				want := int64(worker*1000 + i + 1)
				d := set.Decide(stripeEvent(stripeBody(fmt.Sprintf(`"amount":%d,"currency":"eur"`, want))))
				if len(d.Transfers) != 1 || d.Transfers[0].Amount != want {
					return fmt.Errorf("amount %d: %+v", want, d)
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}

func TestVersionFollowsWhatDecides(t *testing.T) {
	t.Parallel()
	base := compile(t, stripeSource(chargeRule()), stripe).Version()
	require.Positive(t, base)
	require.Equal(t, base, compile(t, stripeSource(chargeRule()), stripe).Version())

	moved := stripeSource(chargeRule())
	moved.Rules[0].When.Pos.Line, moved.Pos.Line = 99, 98
	require.Equal(t, base, compile(t, moved, stripe).Version())

	seen := map[int64]string{base: "base"}
	differs := func(name string, change func(*config.Source, *rules.Preset)) {
		src, preset := stripeSource(chargeRule()), stripe
		change(&src, &preset)
		version := compile(t, src, preset).Version()
		require.NotContains(t, seen, version, "%s and %s", name, seen[version])
		seen[version] = name
	}
	differs("amount", func(s *config.Source, _ *rules.Preset) { s.Rules[0].Transfers[0].Amount.Value += " + 1" })
	differs("parent", func(s *config.Source, _ *rules.Preset) { s.Rules[0].Transfers[0].Parent = text(`op("order", "1")`) })
	differs("when", func(s *config.Source, _ *rules.Preset) { s.Rules[0].When.Value = "true" })
	differs("no rules", func(s *config.Source, _ *rules.Preset) { s.Rules = nil })
	differs("name", func(s *config.Source, _ *rules.Preset) { s.Name.Value = "other" })
	differs("scope", func(s *config.Source, _ *rules.Preset) { s.OperationScope = "other" })
	differs("mode", func(s *config.Source, _ *rules.Preset) { s.Mode = "test" })
	differs("unmatched", func(s *config.Source, _ *rules.Preset) { s.Unmatched = "park" })
	differs("fingerprint", func(s *config.Source, _ *rules.Preset) { s.Fingerprint = []config.Text{text("data.object.id")} })
	differs("preset", func(_ *config.Source, p *rules.Preset) { p.LowerCurrency = false })
	differs("preset paths", func(_ *config.Source, p *rules.Preset) { p.FingerprintPaths = nil })
	differs("preset mode", func(_ *config.Source, p *rules.Preset) { p.HasMode = false })
}

// What was looked up is JSON, whatever its notice was.
func TestDecideReadsWhatWasLookedUp(t *testing.T) {
	t.Parallel()
	mollie := rules.Preset{Name: "mollie-classic", View: func(contentType string, data []byte, keep *jsondoc.Paths) (any, error) {
		return body.View(&body.Kind{Format: body.FormatForm}, contentType, data, keep)
	}}
	set := compile(t, config.Source{Name: text("mollie"), Provider: text("mollie-classic"), Rules: []config.Rule{{
		When: text(`event.type == "payment.paid"`),
		Transfers: []config.Transfer{{
			Debit: text(`"mollie"`), Credit: text(`"sales"`), Amount: text(`minor(body.amount)`), Asset: text(`body.currency`), Operation: text(`op("payment", body.id)`),
		}},
	}}}, mollie)

	fetched := &envelope.Event{Source: "mollie", ID: "tr_1:paid", Type: "payment.paid", Hint: "generated/1", Mode: "live", Data: []byte(`{"id":"tr_1","amount":1000,"currency":"EUR"}`)}
	d := set.Decide(fetched)
	require.NoError(t, d.Err)
	require.Len(t, d.Transfers, 1)
	require.EqualValues(t, 1000, d.Transfers[0].Amount)

	form := &envelope.Event{Source: "mollie", ID: "e", Type: "payment.paid", Data: []byte("id=tr_1&amount=1000&currency=EUR")}
	d = set.Decide(form)
	require.NoError(t, d.Err)
	require.Len(t, d.Transfers, 1)

	fetched.Data = form.Data
	require.Equal(t, dlq.BadJSON, set.Decide(fetched).Parked)
}

// A provider whose notices say no mode may say it of what they lead to.
func TestDecideKeepsLookedUpModesApart(t *testing.T) {
	t.Parallel()
	without := stripe
	without.HasMode = false
	set := compile(t, stripeSource(chargeRule()), without)
	ev := stripeEvent(stripeBody(`"amount":100,"currency":"eur"`))
	for _, row := range []struct {
		hint, mode string
		posts      int
	}{{"", "", 1}, {"", "test", 1}, {"generated/1", "live", 1}, {"generated/1", "", 1}, {"generated/1", "test", 0}} {
		ev.Hint, ev.Mode = row.hint, row.mode
		d := set.Decide(ev)
		require.NoError(t, d.Err)
		require.Len(t, d.Transfers, row.posts, row)
		if row.posts == 0 {
			require.Equal(t, dlq.ModeMismatch, d.Ignored)
		}
	}

	// Where every event has a mode, so has what one leads to.
	ev.Hint, ev.Mode = "generated/1", ""
	require.Equal(t, dlq.ModeMismatch, compile(t, stripeSource(chargeRule()), stripe).Decide(ev).Parked)
}
