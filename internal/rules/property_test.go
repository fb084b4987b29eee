package rules_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// spell writes v as JSON with drawn order, blanks, escapes and spellings of numbers.
func spell(t *rapid.T, b *strings.Builder, v any) {
	blank := func() { b.WriteString(rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "blank")) }
	blank()
	switch v := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		b.WriteByte('{')
		for i, name := range rapid.Permutation(names).Draw(t, "order") {
			if i > 0 {
				b.WriteByte(',')
			}
			spell(t, b, name)
			b.WriteByte(':')
			spell(t, b, v[name])
		}
		b.WriteByte('}')
	case string:
		text, _ := json.Marshal(v)
		if rapid.Bool().Draw(t, "escaped") && v != "" && v[0] < 0x80 && v[0] != '"' && v[0] != '\\' {
			text = append([]byte(fmt.Sprintf(`"\u%04x`, v[0])), text[2:]...)
		}
		b.Write(text)
	default:
		text, _ := json.Marshal(v)
		b.Write(text)
	}
	blank()
}

// charge draws the body of a charge and returns its object for changing.
func charge(t *rapid.T) (body, object map[string]any) {
	word := rapid.StringMatching(`[a-zA-Z0-9_]{1,12}`)
	object = map[string]any{
		"id": "ch_" + word.Draw(t, "id"), "customer": word.Draw(t, "customer"),
		"amount": rapid.Int64Range(1, 1<<53).Draw(t, "amount"), "currency": rapid.SampledFrom([]string{"eur", "usd", "jpy"}).Draw(t, "currency"),
		"metadata": map[string]any{"a": word.Draw(t, "meta"), "b": nil}, "paid": true,
	}
	body = map[string]any{
		"id": "evt_" + word.Draw(t, "event"), "type": "charge.succeeded", "created": rapid.Int64Range(1, 1<<31).Draw(t, "created"),
		"livemode": true, "pending_webhooks": 1, "data": map[string]any{"object": object},
	}
	return body, object
}

func spelled(t *rapid.T, body map[string]any) *envelope.Event {
	var b strings.Builder
	spell(t, &b, body)
	return stripeEvent(b.String())
}

// Case 57: equal meaning, whatever the order, the blanks and the unread members.
func TestFingerprintFollowsMeaningAlone(t *testing.T) {
	t.Parallel()
	set := compile(t, stripeSource(chargeRule()), stripe)
	rapid.Check(t, func(t *rapid.T) {
		body, object := charge(t)
		first := set.Decide(spelled(t, body))
		require.NoError(t, first.Err)

		body["pending_webhooks"] = rapid.IntRange(0, 9).Draw(t, "counter")
		body["unread"] = rapid.String().Draw(t, "unread")
		object["metadata"] = map[string]any{"other": rapid.Bool().Draw(t, "other")}
		require.Equal(t, first, set.Decide(spelled(t, body)))

		// Any change of what carries money or identity is another meaning.
		change := map[string]func(){
			"amount":   func() { object["amount"] = object["amount"].(int64) + 1 },
			"currency": func() { object["currency"] = "gbp" },
			"customer": func() { object["customer"] = "other-" + object["customer"].(string) },
			"id":       func() { object["id"] = "other-" + object["id"].(string) },
			"created":  func() { body["created"] = body["created"].(int64) + 1 },
			"missing":  func() { delete(body, "created") },
			"null":     func() { body["created"] = nil },
			"type":     func() { body["type"] = "charge.updated" },
		}
		name := rapid.SampledFrom([]string{"amount", "currency", "customer", "id", "created", "missing", "null", "type"}).Draw(t, "change")
		change[name]()
		require.NotEqual(t, first.Fingerprint, set.Decide(spelled(t, body)).Fingerprint, name)
	})
}

func TestFingerprintTakesNumbersByValue(t *testing.T) {
	t.Parallel()
	set := compile(t, genericSource(func(t *config.Transfer) { t.Amount = text("major(body.amount, body.currency)") }), generic)
	decide := func(amount string) [32]byte {
		d := set.Decide(genericEvent(`{"id":"1","customer":"c","currency":"EUR","amount":` + amount + `}`))
		require.NoError(t, d.Err)
		return d.Fingerprint
	}
	require.Equal(t, decide(`100`), decide(`100.00`))
	require.Equal(t, decide(`100`), decide(`1e2`))
	require.NotEqual(t, decide(`100`), decide(`100.01`))
	require.NotEqual(t, decide(`100`), decide(`"100"`))
}

func TestFingerprintOfGenericSources(t *testing.T) {
	t.Parallel()
	sum := func(src config.Source, p rules.Preset, ev *envelope.Event) [32]byte {
		return compile(t, src, p).Decide(ev).Fingerprint
	}
	src := genericSource(func(*config.Transfer) {})
	ev := func(extra string) *envelope.Event {
		return genericEvent(`{"id":"1","customer":"c","currency":"EUR","amount":1` + extra + `}`)
	}
	base := sum(src, generic, ev(""))
	require.Equal(t, base, sum(src, generic, ev(`,"time":1`)), "not read")

	// Which rules match is part of the meaning.
	src.Rules[0].When = text(`has(body.time)`)
	require.NotEqual(t, sum(src, generic, ev("")), sum(src, generic, ev(`,"time":1`)))
	src.Rules[0].When = text(`true`)

	// So are the type and the account, and the header that names the amount.
	typed := ev("")
	typed.Type = "other"
	require.NotEqual(t, base, sum(src, generic, typed))
	typed = ev("")
	typed.Account = "acct"
	require.NotEqual(t, base, sum(src, generic, typed))
	src.Rules[0].Transfers[0].Amount = text(`minor(header["X-Amount"])`)
	one, two := ev(""), ev("")
	one.Header, two.Header = map[string]string{"X-Amount": "1", "X-B": "1"}, map[string]string{"X-Amount": "2", "X-B": "1"}
	require.NotEqual(t, sum(src, generic, one), sum(src, generic, two))
	two.Header["X-Amount"], two.Header["X-B"] = "1", "2"
	require.Equal(t, sum(src, generic, one), sum(src, generic, two))

	// An explicit list replaces what the rules read.
	src = genericSource(func(*config.Transfer) {})
	src.Fingerprint = []config.Text{text("id"), text("body:time.at"), text("header:x-b")}
	preset := rules.Preset{FingerprintPaths: [][]string{{"note"}}}
	base = sum(src, preset, ev(""))
	require.Equal(t, base, sum(src, preset, ev(`,"note":1`)))
	require.NotEqual(t, base, sum(src, preset, ev(`,"time":{"at":1}`)))
	other := ev("")
	other.Header = map[string]string{"X-B": "1"}
	require.NotEqual(t, base, sum(src, preset, other))
}

func TestFingerprintOfUnreadableBodies(t *testing.T) {
	t.Parallel()
	set := compile(t, stripeSource(chargeRule()), stripe)
	require.Equal(t, set.Decide(stripeEvent(`{`)).Fingerprint, set.Decide(stripeEvent(`{`)).Fingerprint)
	require.NotEqual(t, set.Decide(stripeEvent(`{`)).Fingerprint, set.Decide(stripeEvent(`{"`)).Fingerprint)
}

func TestFingerprintTellsMissingFromNull(t *testing.T) {
	t.Parallel()
	src := genericSource(func(*config.Transfer) {})
	src.Fingerprint = []config.Text{text("a"), text("b")}
	set := compile(t, src, generic)
	seen := map[[32]byte]string{}
	for _, members := range []string{``, `,"a":null`, `,"b":null`, `,"a":null,"b":null`, `,"a":""`, `,"a":{}`, `,"a":"b"`, `,"b":"b"`} {
		d := set.Decide(genericEvent(`{"id":"1","customer":"c","currency":"EUR","amount":1` + members + `}`))
		require.NoError(t, d.Err)
		require.NotContains(t, seen, d.Fingerprint, members)
		seen[d.Fingerprint] = members
	}
}

// The paths of a list index, and of what a loop reads.
func TestFingerprintOfLists(t *testing.T) {
	t.Parallel()
	sum := func(amount, body string) [32]byte {
		set := compile(t, genericSource(func(t *config.Transfer) { t.Amount = text(amount) }), generic)
		d := set.Decide(genericEvent(body))
		require.NoError(t, d.Err)
		return d.Fingerprint
	}
	const head = `{"id":"1","customer":"c","currency":"EUR","items":`
	index, loop := `body.items[0].amount`, `size(body.items.filter(i, i.amount > 0))`
	require.Equal(t, sum(index, head+`[{"amount":1},{"amount":2}]}`), sum(index, head+`[{"amount":1},{"amount":3}]}`))
	require.NotEqual(t, sum(index, head+`[{"amount":1}]}`), sum(index, head+`[{"amount":2}]}`))
	require.NotEqual(t, sum(loop, head+`[{"amount":1},{"amount":2}]}`), sum(loop, head+`[{"amount":1},{"amount":3}]}`))
}

func FuzzDecide(f *testing.F) {
	for _, seed := range []string{
		stripeBody(`"amount":100,"currency":"eur"`), stripeBody(`"amount":"1.5","currency":null`), `{"data":{"object":[]}}`, `{`, `null`, `{"list":[1,{"a":1e9}]}`,
		stripeBody(`"amount":1e99,"currency":"\u0000"`),
	} {
		f.Add([]byte(seed), "charge.succeeded", "live")
	}
	second := chargeRule()
	second.When = text(`has(body.list) && body.list.exists(x, x == 1.5 || x > 2 || string(x) in ["a", "b"])`)
	second.Transfers[0].Amount = text(`major(body.data.object.amount, body.data.object.currency)`)
	second.Transfers[0].Operation = text(`op(event.type, body.data.object.id, size(body.list))`)
	set := compile(f, stripeSource(chargeRule(), second), stripe)
	f.Fuzz(func(t *testing.T, data []byte, typ, mode string) {
		ev := &envelope.Event{Source: "stripe", ID: "e", Type: typ, Mode: mode, Data: bytes.Clone(data)}
		d := set.Decide(ev)
		require.Equal(t, d.Parked != "", d.Err != nil)
		require.Equal(t, data, ev.Data, "the body is only read")
		if d.Err != nil {
			require.NotContains(t, d.Err.Error(), "panic")
			require.NotContains(t, d.Err.Error(), "internal error")
			require.Empty(t, d.Transfers)
			_, known := d.Parked.Info()
			require.True(t, known, "%s", d.Parked)
		}
		for _, transfer := range d.Transfers {
			require.Positive(t, transfer.Amount)
			require.NotEqual(t, transfer.Debit, transfer.Credit)
			require.NotEmpty(t, transfer.Operation)
		}
		again := set.Decide(ev)
		require.Equal(t, d.Fingerprint, again.Fingerprint)
		require.Equal(t, d.Transfers, again.Transfers)
	})
}
