package rules_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// whenOutcome is what a condition says: "true", "false" or a reason.
func whenOutcome(t *testing.T, condition string, ev *envelope.Event) string {
	src := genericSource(func(t *config.Transfer) {
		t.Credit, t.Amount, t.Asset, t.Operation = text(`"c"`), text("1"), text(`"EUR"`), text(`op("o", "1")`)
	})
	src.Rules[0].When = text(condition)
	d := compile(t, src, generic).Decide(ev)
	switch {
	case d.Parked != "":
		require.Error(t, d.Err)
		return string(d.Parked)
	case len(d.Transfers) > 0:
		return "true"
	}
	return "false"
}

func TestConditions(t *testing.T) {
	t.Parallel()
	ev := &envelope.Event{
		Source: "shop", ID: "e1", Type: "payment.paid", Account: "acct", Header: map[string]string{"X-Github-Event": "push"},
		Data: []byte(`{"i":100,"d":19.99,"h":100.0,"e":1e2,"big":9223372036854775808,"neg":-0.5,"s":"text","sci":1e99999999999,
			"nothing":null,"list":[1,2.5,"a"],"ints":[100,200],"nul":"a\u0000","obj":{"a-b":{"c":true}},"b":true,"lines":[{"p":"x","n":1},{"p":"y","n":2}]}`),
	}
	for condition, want := range map[string]string{
		`true`: "true", `false`: "false",
		`event.type == "payment.paid" && event.source == "shop" && event.id == "e1"`:                     "true",
		`event.account == "acct" && event.mode == ""`:                                                    "true",
		`event["type"].startsWith("payment.")`:                                                           "true",
		`event == {"id": "e1", "type": "payment.paid", "source": "shop", "account": "acct", "mode": ""}`: "true",
		`event[body.s == "text" ? "id" : "type"] == "e1"`:                                                "true",
		`event[body.s] == "e1"`:                                                                          "rule_error",
		`"type" in event && !("x" in event) && size(event) == 5 && has(event.id)`:                        "true",
		`event.exists(k, k == "mode")`:                                                                   "true",
		`header["X-Github-Event"] == "push"`:                                                             "true",
		`"X-Other" in header`:                                                                            "false",
		`header["X-Other"] == "push"`:                                                                    "rule_error",
		`body.s.upperAscii() == "TEXT"`:                                                                  "true",
		`body.obj["a-b"].c`:                                                                              "true",
		`has(body.obj.x)`:                                                                                "false",
		`has(body.i)`:                                                                                    "true",
		`has(body.nothing)`:                                                                              "true",
		`has(body.x.y)`:                                                                                  "rule_error",
		`body.nothing == null`:                                                                           "true",
		`body.x == 1`:                                                                                    "rule_error",
		`body.s`:                                                                                         "rule_error",
		`body.nothing`:                                                                                   "rule_error",
		`body.b`:                                                                                         "true",
		`body.list[2] == "a"`:                                                                            "true",
		`body.list[3] == "a"`:                                                                            "rule_error",
		`body.lines.exists(l, l.p == "y" && l.n == 2)`:                                                   "true",
		`body.lines.map(l, l.n)[1] == 2`:                                                                 "true",
		`size(body.lines) == 2`:                                                                          "true",
		`1 / 0 == 1`:                                                                                     "rule_error",

		// Numbers compare by exact value, on either side.
		`body.i == 100`:                                 "true",
		`body.h == 100`:                                 "true",
		`100 == body.h`:                                 "true",
		`100 != body.h`:                                 "false",
		`body.e == body.h && body.i == body.e`:          "true",
		`body.d == 19.99`:                               "true",
		`19.99 == body.d`:                               "true",
		`body.d == 19.990000000000001`:                  "false",
		`body.d > 19 && 20 > body.d && body.d <= 19.99`: "true",
		`body.neg < 0 && 0 > body.neg`:                  "true",
		`body.big > 9223372036854775807`:                "true",
		`9223372036854775807 >= body.big`:               "false",
		`body.i < body.d`:                               "false",
		`body.d == "19.99"`:                             "false",
		`body.d != "19.99"`:                             "true",
		`body.d < "20"`:                                 "rule_error",
		`body.sci > 1`:                                  "rule_error",
		`body.i in body.ints`:                           "true",
		`body.h in body.ints`:                           "rule_error",
		`body.s in ["text"]`:                            "true",
		`body.d + 1 > 0`:                                "rule_error",
		`double(body.d) > 0.0`:                          "rule_error",
		`int(body.d) == 19`:                             "rule_error",
		`string(body.d) == "19.99"`:                     "true",
		`string(body.i) == "100"`:                       "true",
		`minor(body.i) == 100`:                          "true",
		`major(body.d, "EUR") == 1999`:                  "true",
		`major(body.d, "JPY") == 20`:                    "amount_precision",
		`major(body.i, "eur") == 20`:                    "currency_unknown",
		`type(body.d) == type(body.h)`:                  "true",
		`body.list == [1, 2.5, "a"]`:                    "true",

		// Text that cannot be stored is not compared.
		`body.nul == "a"`:            "unstorable_text",
		`"a" == body.nul`:            "unstorable_text",
		`body.nul in ["a"]`:          "unstorable_text",
		`body.nul < "b"`:             "unstorable_text",
		`body.nul.startsWith("a")`:   "unstorable_text",
		`"x" + body.nul == "xa"`:     "unstorable_text",
		`string(body.nul) == "a"`:    "unstorable_text",
		`has(body.nul)`:              "true",
		`body.b || body.nul == "a"`:  "true",
		`body.x == 1 || body.b`:      "true",
		`body.b && body.x == 1`:      "rule_error",
		`body.list.all(x, x == "a")`: "false",
	} {
		require.Equal(t, want, whenOutcome(t, condition, ev), condition)
	}
}

// The values of the body are kept by path; nothing else may decide.
func TestSparseDecodeDecidesAsAFullOne(t *testing.T) {
	t.Parallel()
	conditions := []string{
		`body.a.b == 1`, `has(body.a.b)`, `has(body.a)`, `body.a == {"b": 1}`, `size(body.a) == 1`, `body["a"]["b"] == 1`,
		`body.a[event.type] == 1`, `body.l[0].x == 1`, `body.l[event.type == "x" ? 0 : 1].x == 1`, `body.l.exists(e, e.x == 2)`,
		`body.l.map(e, e.x).size() == 2`, `size(body) > 0`, `body.exists(k, k == "z")`, `"z" in body`, `"b" in body.a`, `body.a.b.c == 1`,
		`body.l == [{"x": 1}, {"x": 2}]`, `body.a[body.k] == 1`, `has(body.l)`, `body.l[0] == {"x": 1}`, `body.z`, `{"q": body.a.b}.q == 1`,
		`[body.a, body.l].size() == 2`, `(body.z == null ? body.a : body.l) != null`, `body.a.b == body.l[1].x`, `body[body.k].b == 1`,
		`string(body.a.b) == "1"`, `body.a.exists(k, k == "other")`, `body.l.filter(e, has(e.y)).size() == 0`, `body["0"] == 1`, `body[0] == 1`,
	}
	bodies := []string{
		`{"a":{"b":1},"l":[{"x":1},{"x":2}],"k":"b","z":true}`, `{"a":{"b":1,"other":{"c":1}},"l":[{"x":1,"y":1},{"x":2}],"k":"a","z":null}`,
		`{"a":[1,2],"l":{"0":{"x":1}},"k":"payment"}`, `{"a":"b","l":null}`, `{}`, `[]`, `null`, `7`, `"s"`, `{"a":{"b":{"c":1}},"l":[],"0":1}`,
		`{"a":{"payment":1,"b":1.0},"l":[{"x":2},{"x":1}],"k":"b"}`, `[{"a":{"b":1}}]`,
	}
	seen := map[string]int{}
	for _, condition := range conditions {
		for _, body := range bodies {
			sparse := whenOutcome(t, condition, genericEvent(body))
			// A condition that mentions the whole body keeps all of it.
			full := whenOutcome(t, `(`+condition+`) || (type(body) == type(1u) && false)`, genericEvent(body))
			require.Equal(t, full, sparse, "%s on %s", condition, body)
			seen[sparse]++
		}
	}
	require.Greater(t, seen["true"], 40)
	require.Greater(t, seen["false"], 40)
	require.Greater(t, seen["rule_error"], 40)
}

func TestOnlyReadPathsAreDecoded(t *testing.T) {
	// Not parallel: it counts allocations. With the race detector pools forget now
	// and then, so that equal work may differ by some; decoding would add thousands.
	set := compile(t, stripeSource(chargeRule()), rules.Preset{})
	ev := stripeEvent(stripeBody(`"amount":1,"currency":"EUR"`))
	more := strings.Repeat(`,{"deep":{"deeper":[1,"x"]}}`, 1000)
	with := stripeEvent(stripeBody(`"amount":1,"currency":"EUR","more":[1` + more + `],"text":"long enough to be seen"`))
	allocations := func(e *envelope.Event) float64 {
		return testing.AllocsPerRun(100, func() { set.Decide(e) })
	}
	require.Less(t, allocations(with), allocations(ev)+100)
}

// What is null where a rule needs a value is named; null elsewhere is not blamed.
func TestDecideNamesNull(t *testing.T) {
	t.Parallel()
	r := chargeRule()
	set := compile(t, stripeSource(r), stripe)
	for members, want := range map[string]string{
		`"customer":null,`: "credit (7:11): body.data.object.customer is null, where a value is needed: no such overload",
		`"customer":7,`:    "credit (7:11): no such overload",
		``:                 "credit (7:11): no such key: customer",
	} {
		d := set.Decide(stripeEvent(`{"id":"evt_1","livemode":true,"data":{"object":{"id":"ch_1",` + members + `"amount":10,"currency":"eur"}}}`))
		require.Equal(t, dlq.RuleError, d.Parked, members)
		require.ErrorContains(t, d.Err, want)
	}
}
