package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// refunds is base with Stripe's refunds, which are about a charge.
var refunds = strings.Replace(base, `op("charge", body.data.object.id)`, `op("charge", body.data.object.id)
      - when: event.type == "refund.created"
        transfers:
          - debit: '"merchant"'
            credit: '"wallet:" + body.data.object.metadata.customer'
            amount: minor(body.data.object.amount)
            asset: body.data.object.currency
            operation: op("refund", body.data.object.id)
            parent: op("charge", body.data.object.charge)`, 1)

// refund gives amount of a charge back to its customer.
func refund(id, charge, customer string, amount int64) delivery {
	return delivery{"stripe", id, fmt.Sprintf(`{"id":%q,"object":"event","livemode":true,"created":1700000000,"type":"refund.created",`+
		`"data":{"object":{"id":%q,"object":"refund","amount":%d,"currency":"eur","charge":%q,"metadata":{"customer":%q}}}}`,
		id, "re_"+id, amount, charge, customer)}
}

func TestRefundArrivesBeforeItsCharge(t *testing.T) { // case 25
	t.Parallel()

	t.Run("and is applied once that has come", func(t *testing.T) {
		t.Parallel()
		s := newSystem(t, strings.Replace(refunds, "attempts: 3", "attempts: 1000", 1))
		receivers := []*program{s.receiver(), s.receiver()}
		s.worker()
		s.worker()
		s.ack(receivers[0], refund("C1", "ch_C1", "cus_25", 400))
		s.eventually("it is tried, and tried again", func() bool {
			return s.count(`SELECT count(*) FROM events WHERE state = 'pending' AND reason = 'missing_parent' AND attempts >= 3`) == 1
		})
		require.Zero(t, s.transfers())
		require.Empty(t, s.letters())

		s.ack(receivers[1], charge("C1", "cus_25", 1000).as("evt_charge"))
		want := newBook()
		want.post("wallet:cus_25", "merchant", 1000)
		want.post("merchant", "wallet:cus_25", 400)
		s.verify(want)
		require.EqualValues(t, 600, want.balances["merchant"])
		require.Equal(t, "applied", s.row("stripe", "C1").Outcome)
		require.Empty(t, s.letters())
	})
	t.Run("and is parked if that never comes", func(t *testing.T) {
		t.Parallel()
		s := newSystem(t, refunds)
		receiver := s.receiver()
		s.worker()
		s.ack(receiver, refund("C1", "ch_C1", "cus_25", 400))
		s.verify(newBook())
		require.Equal(t, row{Source: "stripe", ID: "C1", State: "failed", Reason: "missing_parent", Attempts: 3, Letter: 1}, s.row("stripe", "C1"))
		require.Equal(t, map[string]int{"missing_parent": 1}, s.reasons())
	})
}

// as is d under another event id.
func (d delivery) as(id string) delivery {
	d.body = strings.Replace(d.body, fmt.Sprintf(`"id":%q`, d.id), fmt.Sprintf(`"id":%q`, id), 1)
	d.id = id
	return d
}

func TestRedriveWithinTheDuplicateWindow(t *testing.T) { // case 9
	t.Parallel()
	s := newSystem(t, refunds)
	receiver := s.receiver()
	s.worker()
	want := newBook()
	event := refund("evt_A9", "ch_A9", "cus_9", 400)
	s.ack(receiver, event)
	s.verify(want)
	require.Equal(t, "missing_parent", s.row("stripe", "evt_A9").Reason)
	require.Equal(t, event.body, string(s.letters()[0].Data), "the bytes are untouched")

	s.ack(receiver, charge("A9", "cus_9", 1000).as("evt_charge"))
	want.post("wallet:cus_9", "merchant", 1000)
	s.verify(want)
	require.Equal(t, "failed", s.row("stripe", "evt_A9").State, "nobody has sent it again")

	redrive := func() (code int, moved operator.MovedLetter) {
		code, out := s.run(s.Env(), "onceledger", "dlq", "redrive", "1", "--note", "the charge has come", "--json", "--config", s.cat.Config.File)
		if code == 0 {
			require.NoError(t, json.Unmarshal([]byte(out), &moved), out)
		}
		return code, moved
	}
	before := len(s.stored())
	code, moved := redrive()
	require.Zero(t, code)
	require.Equal(t, "redriven", moved.Result)
	require.Equal(t, 1, moved.Redrive)
	want.post("merchant", "wallet:cus_9", 400)
	s.verify(want)
	require.Equal(t, "applied", s.row("stripe", "evt_A9").Outcome)
	require.Len(t, s.stored(), before+1, "the broker did not take it for a repeat")
	require.Empty(t, s.letters())

	// Again there is nothing to send; and whatever is sent again adds nothing.
	code, _ = redrive()
	require.NotZero(t, code)
	sent, err := s.stored()[before].event.Msg()
	require.NoError(t, err)
	require.Equal(t, "1", sent.Header.Get(envelope.HeaderRedrive))
	_, err = s.js.PublishMsg(t.Context(), sent)
	require.NoError(t, err)
	s.ack(receiver, event.again(1))
	s.verify(want)
	require.Empty(t, s.letters())
}
