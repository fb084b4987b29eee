package worker

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// family is the shop with refunds, which are about a payment or another refund.
const family = shop + `
      - when: event.type == "refunded"
        transfers:
          - debit: body.from
            credit: body.to
            amount: body.amount
            asset: '"EUR"'
            operation: 'op("payment", body.payment)'
            parent: 'op("payment", body.of)'
      - when: event.type == "refunded" && has(body.fee)
        transfers:
          - {debit: body.to, credit: '"fees"', amount: body.fee, asset: '"EUR"', operation: 'op("fee", body.payment)'}
`

// patient is family with a budget that no test spends.
var patient = strings.Replace(family, "attempts: 3", "attempts: 1000", 1)

// refund moves amount from wallet:1 back to the bank, and a fee from there.
func refund(id, payment, of string, amount int64) *envelope.Event {
	e := event(id, fmt.Sprintf(`{"id":%q,"type":"refunded","payment":%q,"of":%q,"from":"wallet:1","to":"bank","amount":%d,"fee":1}`, id, payment, of, amount))
	e.Type = "refunded"
	return e
}

func TestRefundWaitsForItsPayment(t *testing.T) {
	s := newSystem(t, patient)
	s.start()
	s.publish(refund("evt_refund", "r1", "p1", 400))
	row := s.decided("evt_refund", dedupe.Pending)
	require.Equal(t, string(dlq.MissingParent), row.Reason)
	require.Contains(t, row.Error, "the parent operation is not there")
	require.NotZero(t, row.Attempts)
	require.Zero(t, s.transfers(), "its fee is not posted either")

	s.publish(payment("evt_payment", "p1", "bank", "wallet:1", 1000))
	require.Equal(t, dedupe.Applied, s.decided("evt_refund", dedupe.Completed).Outcome)
	s.settled()
	require.EqualValues(t, 600, s.balance("wallet:1"))
	require.Equal(t, 3, s.transfers())
	require.Empty(t, s.letters())
}

// Cases 21 and 37.
func TestRefundsBeyondTheirPaymentAreParked(t *testing.T) {
	s := newSystem(t, strings.Replace(family, "parent:", "refunds:", 1))
	s.start()
	s.publish(payment("evt_1", "p1", "bank", "wallet:1", 3000), payment("evt_2", "p2", "bank", "wallet:1", 1000))
	s.settled()
	s.publish(refund("evt_a", "r1", "p1", 500), refund("evt_b", "r2", "p1", 500), refund("evt_a2", "r1", "p1", 500)) // equal ones, and a repeat
	s.publish(refund("evt_c", "r3", "p2", 700))
	s.settled() // which of two is first is for the workers to say
	s.publish(refund("evt_d", "r4", "p2", 700))
	s.settled()
	require.EqualValues(t, 4000-500-500-700, s.balance("wallet:1"))
	letters := s.letters()
	require.Len(t, letters, 1)
	require.Equal(t, dlq.OverRefund, letters[0].Reason)
	require.EqualValues(t, 3, s.balance("fees"), "that of what is parked is not posted")

	s.publish(refund("evt_e", "r5", "p2", 300))
	require.Equal(t, dedupe.Applied, s.decided("evt_e", dedupe.Completed).Outcome, "what is parked takes nothing")
	s.settled()
	s.redriveAll()
	s.settled()
	require.Len(t, s.letters(), 1, "it does not fit yet")

	// Case 35: a refund that failed is undone, in a posting of its own, and what was
	// parked fits then.
	failed := event("evt_f", `{"id":"evt_f","type":"refunded","payment":"r3 failed","of":"r3","from":"bank","to":"wallet:1","amount":700}`)
	failed.Type = "refunded"
	s.publish(failed)
	require.Equal(t, dedupe.Applied, s.decided("evt_f", dedupe.Completed).Outcome)
	s.redriveAll()
	s.settled()
	require.Empty(t, s.letters())
	require.EqualValues(t, 4000-500-500-300-700, s.balance("wallet:1"))
}

func TestRefundOfNothingIsParked(t *testing.T) {
	s := newSystem(t, family)
	s.start()
	s.publish(refund("evt_refund", "r1", "p1", 400))
	row := s.decided("evt_refund", dedupe.Failed)
	s.settled()
	require.Equal(t, string(dlq.MissingParent), row.Reason)
	require.Equal(t, 3, row.Attempts, "its budget is spent")
	require.Zero(t, s.transfers())
	letters := s.letters()
	require.Len(t, letters, 1)
	require.Equal(t, dlq.MissingParent, letters[0].Reason)
	require.NotEmpty(t, letters[0].Hint())

	// What arrives later does not wake it: that is for a redrive.
	s.publish(payment("evt_payment", "p1", "bank", "wallet:1", 1000))
	s.decided("evt_payment", dedupe.Completed)
	s.settled()
	require.Equal(t, dedupe.Failed, s.row("evt_refund").State)
}

func TestFamilyInOneBatch(t *testing.T) {
	s := newSystem(t, family)
	s.publish(
		refund("evt_undo", "r2", "r1", 100), refund("evt_refund", "r1", "p1", 400),
		payment("evt_payment", "p1", "bank", "wallet:1", 1000), refund("evt_other", "r3", "p2", 1))
	s.oneBatch(4)
	require.EqualValues(t, 500, s.balance("wallet:1"))
	require.Equal(t, 1, s.count(`SELECT count(*) FROM events WHERE attempts > 0`), "parents first, whatever their place in the stream")
	other := s.row("evt_other")
	require.Equal(t, []any{dedupe.Pending, string(dlq.MissingParent)}, []any{other.State, other.Reason})
}

// Three generations in random order, repeated, at two workers with small batches.
func TestFamiliesInAnyOrder(t *testing.T) {
	s := newSystem(t, patient)
	const families = 150
	var events []*envelope.Event
	for n := range families {
		p, r, u := fmt.Sprint("p", n), fmt.Sprint("r", n), fmt.Sprint("u", n)
		events = append(events, payment("evt_"+p, p, "bank", "wallet:1", 100), refund("evt_"+r, r, p, 10), refund("evt_"+u, u, r, 5))
	}
	events = append(events, events[:families]...)
	rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for range 2 {
		s.start(func(w *worker) { w.tuning.Batch = 20 })
	}
	s.publish(events...)
	s.settled()
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE state <> 'completed'`))
	require.EqualValues(t, 85*families, s.balance("wallet:1"))
	require.EqualValues(t, 2*families, s.balance("fees"))
	require.Equal(t, 5*families, s.transfers())
	require.Empty(t, s.letters())
}
