package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/envelope"
)

// TestIdentity sends what real senders do to event ids, to one system.
func TestIdentity(t *testing.T) {
	t.Parallel()
	s := newSystem(t, base)
	receivers := []*program{s.receiver(), s.receiver()}
	s.worker()
	want, parked := newBook(), map[string]int{}
	settle := func(t *testing.T) {
		t.Helper()
		s.verify(want)
		require.Equal(t, parked, s.reasons())
	}

	s.step("ids beyond 2^53 are told apart", func(t *testing.T) { // case 54
		number := func(id, payment string) string {
			return fmt.Sprintf(`{"id":%s,"type":"paid","payment":%q,"from":"bank","to":"numbers","amount":10000}`, id, payment)
		}
		s.ack(receivers[0],
			delivery{"shop", "9007199254740993", number("9007199254740993", "p3")},
			delivery{"shop", "9007199254740992", number("9007199254740992", "p2")},
			delivery{"shop", "9007199254740993", number(`"9007199254740993"`, "p3")})
		want.post("bank", "numbers", 10000)
		want.post("bank", "numbers", 10000)
		settle(t)
	})

	s.step("what has no id is parked, each time", func(t *testing.T) { // case 55
		for _, member := range []string{``, `"id":null,`, `"id":"",`, `"id":{},`} {
			for _, source := range []string{"shop", "stripe"} {
				d := delivery{source, "", `{` + member + `"livemode":true,"type":"paid","payment":"p","from":"bank","to":"nobody","amount":1}`}
				s.ack(receivers[0], d, d)
				parked["no_event_id"] += 2
			}
		}
		only := delivery{"shop", "", `{"type":"payment captured"}`}
		s.ack(receivers[0], only, only)
		parked["no_event_id"] += 2
		settle(t)
	})

	s.step("odd ids are ids", func(t *testing.T) { // case 56
		ids := []string{"a/b", "a b", "a.b.*.>", "a\r\nNats-Msg-Id: x", "日本", "\u00e9", "e\u0301", strings.Repeat("x", envelope.MaxID-1)}
		before := len(s.stored())
		for i, id := range ids {
			shop := delivery{"shop", id, fmt.Sprintf(`{"id":%q,"type":"payment captured","payment":"odd-%d","from":"bank","to":"odd","amount":1}`, id, i)}
			stripe := delivery{"stripe", id, stripeBody(id, "payment captured", `"livemode":true,`, "odd", 1)}
			if strings.Contains(id, "/") {
				stripe.id = "/" + id // or its first part would read as an account
			}
			for _, receiver := range receivers {
				s.ack(receiver, shop, stripe)
			}
			want.post("bank", "odd", 1)
			want.post("wallet:odd", "merchant", 1)
		}
		settle(t)
		for _, m := range s.stored()[before:] {
			require.Equal(t, "events."+m.event.Source+".payment_captured", m.subject)
			for name := range m.header {
				require.NotContains(t, strings.ToLower(name), "msg-id")
			}
		}
	})
	s.step("ids that are too long are parked", func(t *testing.T) { // case 56
		long := strings.Repeat("x", 4096)
		s.ack(receivers[0], payment(long, "bank", "nobody", 1).unkeyed(), charge(long, "nobody", 1).unkeyed())
		parked["id_invalid"] += 2
		settle(t)
	})

	s.step("another amount under an id is a conflict, other bytes are not", func(t *testing.T) { // case 57
		for _, source := range []string{"shop", "stripe"} {
			event := func(amount int64) delivery {
				if source == "shop" {
					return payment("evt_F5", "bank", "five", amount)
				}
				return charge("evt_F5", "five", amount)
			}
			s.ack(receivers[0], event(10000))
			s.settled()
			reordered := event(10000)
			reordered.body = `{"retry":3,"type":` + strings.SplitN(reordered.body, `"type":`, 2)[1]
			reordered.body = strings.TrimSuffix(reordered.body, "}") + `,"id":"evt_F5"`
			if source == "stripe" {
				reordered.body += `,"object":"event","created":1700000000,"livemode":true`
			}
			reordered.body += "}"
			s.ack(receivers[0], event(90000), reordered)
			parked["id_conflict"]++
		}
		want.post("bank", "five", 10000)
		want.post("wallet:five", "merchant", 10000)
		settle(t)
		require.Equal(t, "applied", s.row("shop", "evt_F5").Outcome)
	})

	s.step("text that Postgres cannot store harms nobody", func(t *testing.T) { // case 59
		nul := payment("evt_F7", "bank", "seven", 10000)
		nul.body = strings.Replace(nul.body, "{", `{"note":"a\u0000b",`, 1)
		lone := payment("evt_F8", "bank", "seven", 10000)
		lone.body = strings.Replace(lone.body, "{", `{"note":"\ud800",`, 1)
		read := payment("evt_F9", "bank", `seven`, 10000)
		read.body = strings.Replace(read.body, `"seven"`, `"seven\u0000"`, 1)
		s.ack(receivers[0], nul, lone, read, payment("evt_next", "bank", "seven", 1))
		want.post("bank", "seven", 10000)
		want.post("bank", "seven", 10000)
		want.post("bank", "seven", 1)
		parked["unstorable_text"]++
		settle(t)
	})

	s.step("the test button's one id is no conflict", func(t *testing.T) { // case 12
		const id = "evt_00000000000000"
		for _, amount := range []int64{100, 2000} {
			s.ack(receivers[0], delivery{"stripe", "test/" + id, stripeBody(id, "charge.succeeded", `"livemode":false,`, "tester", amount)})
			s.settled()
		}
		settle(t)
		require.Equal(t, row{Source: "stripe", ID: "test/" + id, State: "completed", Outcome: "ignored", Reason: "mode_mismatch"}, s.row("stripe", "test/"+id))
	})

	s.step("live and test money never meet", func(t *testing.T) { // case 60
		body := func(mode string) string { return stripeBody("evt_60", "charge.succeeded", mode, "sixty", 60) }
		s.ack(receivers[0],
			delivery{"stripe", "test/evt_60", body(`"livemode":false,`)},
			delivery{"stripe-test", "live/evt_60", body(`"livemode":true,`)})
		settle(t)
		for source, id := range map[string]string{"stripe": "test/evt_60", "stripe-test": "live/evt_60"} {
			require.Equal(t, row{Source: source, ID: id, State: "completed", Outcome: "ignored", Reason: "mode_mismatch"}, s.row(source, id))
		}

		s.ack(receivers[0], delivery{"stripe", "evt_60", body(``)})
		parked["mode_mismatch"]++
		settle(t)
		s.ack(receivers[0],
			delivery{"stripe", "evt_60", body(`"livemode":true,`)},
			delivery{"stripe-test", "evt_60", body(`"livemode":false,`)})
		want.post("wallet:sixty", "merchant", 60)
		want.post("wallet:sixty", "merchant", 60)
		settle(t)
	})
}

// unkeyed is d where its id cannot be the event's key.
func (d delivery) unkeyed() delivery {
	d.id = ""
	return d
}
