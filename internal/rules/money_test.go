package rules_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// generic is a provider whose events have no mode.
var generic = rules.Preset{Name: "hmac"}

// genericSource has one rule whose transfer is that of chargeRule, changed.
func genericSource(change func(*config.Transfer)) config.Source {
	r := config.Rule{When: text("true"), Transfers: []config.Transfer{{
		Debit: text(`"world"`), Credit: text(`"customer:" + body.customer`),
		Amount: text(`body.amount`), Asset: text(`body.currency`), Operation: text(`op("payment", body.id)`),
	}}}
	change(&r.Transfers[0])
	return config.Source{Name: text("shop"), Rules: []config.Rule{r}}
}

func genericEvent(body string) *envelope.Event {
	return &envelope.Event{Source: "shop", ID: "e1", Type: "payment", Data: []byte(body)}
}

// outcome is a decision in short: "1050 USD", a reason, or "nothing".
func outcome(t *testing.T, d rules.Decision) string {
	switch {
	case d.Parked != "":
		require.Error(t, d.Err)
		require.Empty(t, d.Transfers)
		return string(d.Parked)
	case len(d.Transfers) == 0:
		return "nothing"
	}
	require.Len(t, d.Transfers, 1)
	return fmt.Sprintf("%d %s", d.Transfers[0].Amount, d.Transfers[0].Asset)
}

func decideAmount(t *testing.T, expression, amount, asset, lower string) string {
	src := genericSource(func(t *config.Transfer) { t.Amount = text(expression) })
	preset := generic
	preset.LowerCurrency = lower != ""
	set := compile(t, src, preset)
	d := set.Decide(genericEvent(fmt.Sprintf(`{"id":"p1","customer":"c","amount":%s,"currency":%s}`, amount, asset)))
	return outcome(t, d)
}

// Case 64.
func TestMajorIsExactForEveryCent(t *testing.T) {
	t.Parallel()
	set := compile(t, genericSource(func(t *config.Transfer) { t.Amount = text(`major(body.amount, body.currency)`) }), generic)
	for cents := int64(1); cents <= 99_999; cents++ {
		written := fmt.Sprintf("%d.%02d", cents/100, cents%100)
		for _, quote := range []string{"", `"`} {
			d := set.Decide(genericEvent(`{"id":"p1","customer":"c","amount":` + quote + written + quote + `,"currency":"USD"}`))
			require.Len(t, d.Transfers, 1, "%s: %v", written, d.Err)
			require.Equal(t, cents, d.Transfers[0].Amount, written)
		}
	}
	for _, amount := range []string{`98.9009`, `19.999`, `"98.9009"`, `"19.999"`} {
		require.Equal(t, "amount_precision", decideAmount(t, "major(body.amount, body.currency)", amount, `"USD"`, ""))
	}
}

// Providers count some currencies with other decimals than ISO 4217 gives them.
func TestDecimalsOfTheProvider(t *testing.T) {
	t.Parallel()
	preset := rules.Preset{Name: "stripe", LowerCurrency: true, Decimals: map[string]int{"ISK": 2, "UGX": 2, "MGA": 0, "IDR": 0}}
	for _, c := range []struct{ expression, amount, asset, want string }{
		{"minor(body.amount)", "50000", "isk", "500 ISK"},
		{"minor(body.amount)", `"50000"`, "UGX", "500 UGX"},
		{"body.amount", "50000", "ISK", "500 ISK"},
		{"minor(body.amount) - minor(100)", "50000", "ISK", "499 ISK"},
		{"500", "1", "ISK", "5 ISK"},
		{"minor(body.amount)", "50050", "ISK", "amount_precision"},
		{"minor(body.amount)", "500", "MGA", "50000 MGA"},
		{"minor(body.amount)", "92233720368547759", "IDR", "amount_overflow"},
		{"minor(body.amount)", "0", "ISK", "nothing"},
		{"minor(body.amount)", "500", "JPY", "500 JPY"},
		{"minor(body.amount)", "500", "USD", "500 USD"},
		{"major(body.amount, body.currency)", "500", "ISK", "500 ISK"},
		{"major(body.amount, body.currency)", "5.25", "IDR", "525 IDR"},
	} {
		set := compile(t, genericSource(func(t *config.Transfer) { t.Amount = text(c.expression) }), preset)
		d := set.Decide(genericEvent(fmt.Sprintf(`{"id":"p1","customer":"c","amount":%s,"currency":%q}`, c.amount, c.asset)))
		require.Equal(t, c.want, outcome(t, d), "%s %s %s", c.expression, c.amount, c.asset)
	}

	both := genericSource(func(t *config.Transfer) {
		t.Amount = text(`body.currency == "USD" ? minor(body.amount) : major(body.amount, body.currency)`)
	})
	_, faults := rules.Compile(both, preset, nil)
	require.Len(t, faults, 1)
	require.Equal(t, "sources.shop.rules[0].transfers[0].amount", faults[0].Path)
	require.Contains(t, faults[0].Message, "has both minor() and major()")
	compile(t, both, generic) // as anybody else's

	// What is counted otherwise is decided otherwise.
	decimals := generic
	decimals.Decimals = map[string]int{"ISK": 2}
	counted := genericSource(func(t *config.Transfer) { t.Amount = text("minor(body.amount)") })
	require.NotEqual(t, compile(t, counted, generic).Version(), compile(t, counted, decimals).Version())
}

// Cases 64 to 68, 70, and what else an amount can be.
func TestAmounts(t *testing.T) {
	t.Parallel()
	const major, minor, plain = "major(body.amount, body.currency)", "minor(body.amount)", "body.amount"
	for _, row := range []struct{ expression, amount, asset, want string }{
		// 65: providers that send no decimals, and others that always do.
		{major, `"1000"`, `"JPY"`, "1000 JPY"},
		{major, `"1000.00"`, `"JPY"`, "1000 JPY"},
		{major, `"1000.50"`, `"JPY"`, "amount_precision"},
		{major, `"1000"`, `"TWD"`, "100000 TWD"},
		{major, `"10.5"`, `"USD"`, "1050 USD"},
		{major, `10.5`, `"USD"`, "1050 USD"},
		{major, `10`, `"USD"`, "1000 USD"},
		{major, `"12.345"`, `"KWD"`, "12345 KWD"},
		{major, `1e2`, `"USD"`, "10000 USD"},
		{major, `1.05e1`, `"USD"`, "1050 USD"},
		{major, `"1e2"`, `"USD"`, "amount_format"},
		{major, `1e999999999`, `"USD"`, "amount_format"},
		{major, `1e-999999999`, `"USD"`, "amount_format"},
		{major, `"250"`, `"POINTS"`, "250 POINTS"},
		// 66: major units where minor are expected.
		{major, `"12.50"`, `"EUR"`, "1250 EUR"},
		{minor, `1250`, `"EUR"`, "1250 EUR"},
		{minor, `"1250"`, `"EUR"`, "1250 EUR"},
		{minor, `"12.50"`, `"EUR"`, "amount_format"},
		{minor, `12.5`, `"EUR"`, "amount_format"},
		{minor, `12.0`, `"EUR"`, "amount_format"},
		{plain, `1250`, `"EUR"`, "1250 EUR"},
		{plain, `12.50`, `"EUR"`, "amount_format"},
		{plain, `100.0`, `"EUR"`, "amount_format"},
		{plain, `1e2`, `"EUR"`, "amount_format"},
		{plain, `"1250"`, `"EUR"`, "amount_format"},
		{plain, `true`, `"EUR"`, "amount_format"},
		{plain, `[1]`, `"EUR"`, "amount_format"},
		{plain, `{"value":1}`, `"EUR"`, "amount_format"},
		{minor, `{"value":1}`, `"EUR"`, "amount_format"},
		{major, `true`, `"EUR"`, "amount_format"},
		// 67: thousands marks and decimal commas.
		{major, `"1,234.56"`, `"USD"`, "amount_format"},
		{major, `"1.234,56"`, `"USD"`, "amount_format"},
		{major, `"800,00"`, `"USD"`, "amount_format"},
		{major, `"1 234.56"`, `"USD"`, "amount_format"},
		{major, `"１２"`, `"USD"`, "amount_format"},
		{major, `" 12.00"`, `"USD"`, "amount_format"},
		{major, `"+12.00"`, `"USD"`, "amount_format"},
		{major, `"12.00 EUR"`, `"USD"`, "amount_format"},
		{major, `""`, `"USD"`, "amount_format"},
		{major, `"NaN"`, `"USD"`, "amount_format"},
		{major, `"-12.00"`, `"USD"`, "amount_format"},
		{major, `-12.00`, `"USD"`, "amount_format"},
		{major, `-12`, `"USD"`, "amount_format"},
		{minor, `"1,234"`, `"USD"`, "amount_format"},
		{minor, `""`, `"USD"`, "amount_format"},
		// 68: missing amount or currency.
		{plain, `null`, `"USD"`, "amount_missing"},
		{minor, `null`, `"USD"`, "amount_missing"},
		{major, `null`, `"USD"`, "amount_missing"},
		{"body.other", `1`, `"USD"`, "amount_missing"},
		{"minor(body.other)", `1`, `"USD"`, "amount_missing"},
		{"body.amount.value", `1`, `"USD"`, "amount_missing"},
		{"body.amount + body.fee", `1`, `"USD"`, "amount_missing"},
		{plain, `1`, `null`, "currency_unknown"},
		{plain, `1`, `"XXX"`, "currency_unknown"},
		{plain, `1`, `"usd "`, "currency_unknown"},
		{plain, `1`, `"US$"`, "currency_unknown"},
		{plain, `1`, `"usd"`, "currency_unknown"},
		{plain, `1`, `"Usd"`, "currency_unknown"},
		{plain, `1`, `""`, "currency_unknown"},
		{plain, `1`, `840`, "currency_unknown"},
		{major, `"1.00"`, `null`, "currency_unknown"},
		{major, `"1.00"`, `"usd"`, "currency_unknown"},
		// 70: zero and negative amounts.
		{plain, `0`, `"USD"`, "nothing"},
		{plain, `-0`, `"USD"`, "nothing"},
		{major, `"0.00"`, `"USD"`, "nothing"},
		{minor, `"0"`, `"USD"`, "nothing"},
		{plain, `-500`, `"USD"`, "amount_format"},
		{minor, `-500`, `"USD"`, "amount_format"},
		{minor, `"-500"`, `"USD"`, "amount_format"},
		{"-minor(body.amount)", `-500`, `"USD"`, "500 USD"},
		// Bounds.
		{plain, `9223372036854775807`, `"USD"`, "9223372036854775807 USD"},
		{plain, `9223372036854775808`, `"USD"`, "amount_overflow"},
		{plain, `-9223372036854775809`, `"USD"`, "amount_format"},
		{minor, `"9223372036854775808"`, `"USD"`, "amount_overflow"},
		{major, `92233720368547758.07`, `"USD"`, "9223372036854775807 USD"},
		{major, `92233720368547758.08`, `"USD"`, "amount_overflow"},
		{"body.amount * 2", `9223372036854775807`, `"USD"`, "rule_error"},
		{"body.amount * 100", `19.99`, `"USD"`, "rule_error"},
		{"body.amount / 0", `1`, `"USD"`, "rule_error"},
		{plain, `"5\u0000"`, `"USD"`, "unstorable_text"},
		{major, `"5\ud800"`, `"USD"`, "unstorable_text"},
		{plain, `5`, `"US\u0000"`, "unstorable_text"},
	} {
		require.Equal(t, row.want, decideAmount(t, row.expression, row.amount, row.asset, ""), "%+v", row)
	}
}

// Case 65: ISO 4217 gives the forint two decimals; a provider that sends whole
// forints says so by major units.
func TestMajorFollowsISO(t *testing.T) {
	t.Parallel()
	require.Equal(t, "100000 HUF", decideAmount(t, "major(body.amount, body.currency)", `"1000"`, `"HUF"`, ""))
}

// Case 68, last part.
func TestLowerCaseIsTakenWhereTheProviderUsesIt(t *testing.T) {
	t.Parallel()
	for asset, want := range map[string]string{
		`"usd"`: "100 USD", `"USD"`: "100 USD", `"Usd"`: "currency_unknown", `"xxx"`: "currency_unknown", `"points"`: "currency_unknown", `"POINTS"`: "1 POINTS",
	} {
		require.Equal(t, want, decideAmount(t, "major(body.amount, body.currency)", `1`, asset, "lower"), asset)
	}
}

func TestAmountMissingAltogether(t *testing.T) {
	t.Parallel()
	set := compile(t, genericSource(func(*config.Transfer) {}), generic)
	require.Equal(t, "amount_missing", outcome(t, set.Decide(genericEvent(`{"id":"p","customer":"c","currency":"USD"}`))))
	require.Equal(t, "currency_unknown", outcome(t, set.Decide(genericEvent(`{"id":"p","customer":"c","amount":1}`))))
	// An event that moves nothing needs neither currency nor ids.
	require.Equal(t, "nothing", outcome(t, set.Decide(genericEvent(`{"amount":0}`))))
}

// Case 69: what really came is posted, in its own currency.
func TestWhatCameIsPosted(t *testing.T) {
	t.Parallel()
	const major = "major(body.amount, body.currency)"
	require.Equal(t, "9999 USD", decideAmount(t, major, `"99.99"`, `"USD"`, ""))
	require.Equal(t, "10001 USD", decideAmount(t, major, `"100.01"`, `"USD"`, ""))
	require.Equal(t, "10000 NGN", decideAmount(t, major, `"100.00"`, `"NGN"`, ""))
}

// Case 69, where a rule says what is expected: what came and is not that moves nothing,
// but where another rule takes it, as the surplus for the customer.
func TestWhatIsExpected(t *testing.T) {
	t.Parallel()
	movement := func(credit, amount, key string) config.Transfer {
		return config.Transfer{
			Debit: text(`"bank"`), Credit: text(credit), Amount: text(amount), Asset: text("body.currency"), Operation: text(`op("` + key + `", body.id)`),
		}
	}
	const paid = "major(body.amount, body.currency)"
	ordered := config.Rule{
		When: text("true"), Expect: text(paid + " >= body.ordered && body.currency == body.ordered_in"),
		Transfers: []config.Transfer{movement(`"shop"`, "body.ordered", "order")},
	}
	surplus := config.Rule{
		When:      text(paid + " > body.ordered"),
		Transfers: []config.Transfer{movement(`"customer:" + body.customer`, paid+" - body.ordered", "surplus")},
	}
	src := genericSource(func(*config.Transfer) {})
	src.Rules = []config.Rule{ordered, surplus}
	set := compile(t, src, generic)
	decide := func(amount, currency, more string) rules.Decision {
		return set.Decide(genericEvent(`{"id":"o1","customer":"c","amount":"` + amount + `","currency":"` + currency + `","ordered_in":"USD"` + more + `}`))
	}
	const order = `,"ordered":10000`
	for _, wrong := range [][2]string{{"99.99", "USD"}, {"100.00", "NGN"}, {"100.01", "NGN"}} {
		d := decide(wrong[0], wrong[1], order)
		require.Equal(t, dlq.AmountMismatch, d.Parked, wrong)
		require.Empty(t, d.Transfers)
		require.ErrorContains(t, d.Err, "rules[0].expect")
		require.ErrorContains(t, d.Err, `is false: the event is not what was expected; body.amount is "`+wrong[0]+`"; body.currency is "`+wrong[1]+
			`"; body.ordered is 10000; body.ordered_in is "USD"`)
	}
	require.Len(t, decide("100.00", "USD", order).Transfers, 1)
	over := decide("100.01", "USD", order)
	require.NoError(t, over.Err)
	require.Equal(t, []any{int64(10000), "shop", int64(1), "customer:c"},
		[]any{over.Transfers[0].Amount, over.Transfers[0].Credit, over.Transfers[1].Amount, over.Transfers[1].Credit})
	// What was parked for that and what is right then are not the same event, though
	// no amount that is posted tells them apart.
	src.Rules = []config.Rule{ordered}
	set = compile(t, src, generic)
	require.NotEqual(t, decide("99.99", "USD", order).Fingerprint, decide("100.00", "USD", order).Fingerprint)
	require.Equal(t, decide("100.00", "USD", order).Fingerprint, decide("100.01", "USD", order).Fingerprint)
	d := compile(t, src, generic).Decide(genericEvent(`{"id":"o1","amount":"1","currency":"USD","ordered_in":"USD"}`))
	require.Equal(t, dlq.AmountMissing, d.Parked)

	// What a rule does not match, it expects nothing of.
	src.Rules[0].When = text(`body.currency == "EUR"`)
	require.NoError(t, compile(t, src, generic).Decide(genericEvent(`{"id":"o1","amount":"1","currency":"USD","ordered":100}`)).Err)
	unexpecting := src
	unexpecting.Rules = []config.Rule{src.Rules[0]}
	unexpecting.Rules[0].Expect = config.Text{}
	require.NotEqual(t, compile(t, src, generic).Version(), compile(t, unexpecting, generic).Version())
}

// Case 54 and D6.
func TestOperations(t *testing.T) {
	t.Parallel()
	decide := func(expression, id string) rules.Decision {
		set := compile(t, genericSource(func(t *config.Transfer) { t.Operation = text(expression) }), generic)
		return set.Decide(genericEvent(`{"id":` + id + `,"amount":100,"customer":"c","currency":"EUR","n":{"a":"x","b":"y"}}`))
	}
	for _, row := range []struct{ expression, id, want string }{
		{`op("charge", body.id)`, `"ch_B5"`, "4:shop,0:,0:,6:charge,5:ch_B5,"},
		{`op("charge", body.id)`, `9007199254740993`, "4:shop,0:,0:,6:charge,16:9007199254740993,"},
		{`op("charge", body.id)`, `"9007199254740993"`, "4:shop,0:,0:,6:charge,16:9007199254740993,"},
		{`op("charge", body.id)`, `9007199254740992`, "4:shop,0:,0:,6:charge,16:9007199254740992,"},
		{`op("charge", body.id)`, `18446744073709551615`, "4:shop,0:,0:,6:charge,20:18446744073709551615,"},
		{`op("charge", body.id)`, `"日本 a:b,"`, "4:shop,0:,0:,6:charge,11:日本 a:b,,"},
		{`op(event.type, body.n.a, body.n.b)`, `1`, "4:shop,0:,0:,7:payment,1:x,1:y,"},
		{`op("k", body.n.a + body.n.b)`, `1`, "4:shop,0:,0:,1:k,2:xy,"},
		{`body.id == 1 ? op("a", body.id) : op("b", body.id)`, `1`, "4:shop,0:,0:,1:a,1:1,"},
	} {
		d := decide(row.expression, row.id)
		require.NoError(t, d.Err, "%+v", row)
		require.Equal(t, row.want, d.Transfers[0].Operation, "%+v", row)
	}
	for _, row := range []struct {
		expression, id string
		want           dlq.Reason
	}{
		{`op("charge", body.id)`, `""`, dlq.NoOperation},
		{`op("charge", body.id)`, `null`, dlq.NoOperation},
		{`op("charge", body.absent)`, `1`, dlq.NoOperation},
		{`op("charge", body.id, body.n.c)`, `1`, dlq.NoOperation},
		{`op("", body.id)`, `1`, dlq.NoOperation},
		{`op("charge", body.id)`, `1.5`, dlq.RuleError},
		{`op("charge", body.id)`, `true`, dlq.RuleError},
		{`op("charge", body.id)`, `{}`, dlq.RuleError},
		{`op("charge", body.id)`, `"a\u0000"`, dlq.UnstorableText},
		{`op("charge", body.id)`, strconv.Quote(string(make([]byte, 0))) + ``, dlq.NoOperation},
		{`op("charge", body.id + body.id)`, `"` + long(600) + `"`, dlq.RuleError},
	} {
		d := decide(row.expression, row.id)
		require.Equal(t, row.want, d.Parked, "%+v: %v", row, d.Err)
	}
}

func long(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'x'
	}
	return string(b)
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	set := compile(t, genericSource(func(*config.Transfer) {}), generic)
	debit := compile(t, genericSource(func(t *config.Transfer) { t.Debit = text("body.debit") }), generic)
	for customer, want := range map[string]string{
		`"c"`: "1 EUR", `"日本"`: "1 EUR", `"a:b"`: "1 EUR",
		`""`: "rule_error", `"a::b"`: "rule_error", `"b:"`: "rule_error", `null`: "rule_error", `7`: "rule_error",
		`"a\nb"`: "rule_error", `"\u0085"`: "rule_error", `"a\u0000"`: "unstorable_text", `"\ud800"`: "unstorable_text",
		`"` + long(247) + `"`: "1 EUR", `"` + long(248) + `"`: "rule_error",
	} {
		d := set.Decide(genericEvent(`{"id":"1","amount":1,"currency":"EUR","customer":` + customer + `}`))
		require.Equal(t, want, outcome(t, d), "%s: %v", customer, d.Err)
	}
	for account, want := range map[string]string{
		`"world"`: "1 EUR", `"customer:c"`: "rule_error", `""`: "rule_error", `5`: "rule_error", `"x\u0000"`: "unstorable_text",
	} {
		d := debit.Decide(genericEvent(`{"id":"1","amount":1,"currency":"EUR","customer":"c","debit":` + account + `}`))
		require.Equal(t, want, outcome(t, d), "%s: %v", account, d.Err)
	}
}

// Case 59: text that is not read may hold anything.
func TestUnreadTextMayBeUnstorable(t *testing.T) {
	t.Parallel()
	set := compile(t, genericSource(func(*config.Transfer) {}), generic)
	for _, note := range []string{`"a\u0000b"`, `"\ud800"`, "\"\xff\""} {
		d := set.Decide(genericEvent(`{"id":"evt_F7","amount":100,"currency":"EUR","customer":"c","note":` + note + `}`))
		require.Equal(t, "100 EUR", outcome(t, d))
	}
}

func TestAnAssetInSmallLettersIsToldFromAnUnknownOne(t *testing.T) {
	t.Parallel()
	set := compile(t, genericSource(func(*config.Transfer) {}), generic)
	decide := func(code string) rules.Decision {
		return set.Decide(genericEvent(`{"id":"i","amount":100,"customer":"c","currency":"` + code + `"}`))
	}
	for _, code := range []string{"eur", "Eur"} {
		d := decide(code)
		require.Equal(t, dlq.CurrencyUnknown, d.Parked)
		require.ErrorContains(t, d.Err, `"`+code+`"; is it "EUR"? upperAscii()`)
	}
	require.NotContains(t, decide("euro").Err.Error(), "upperAscii")
}
