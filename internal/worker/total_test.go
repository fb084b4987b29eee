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

// counter is the shop with refunds of payments, as Stripe tells of them: one by one, by
// the total of each payment, and when they fail.
const counter = shop + `
      - when: event.type == "refund"
        transfers:
          - {refunds: 'op("payment", body.of)', debit: '"wallet:1"', credit: '"bank"', amount: body.amount, asset: '"EUR"', operation: 'op("refund", body.name)'}
      - when: event.type == "refunded" || has(body.total)
        transfers:
          - {refunds: 'op("payment", body.of)', running_total: true, debit: '"wallet:1"', credit: '"bank"', amount: body.total, asset: '"EUR"', operation: 'op("refunded", body.of)'}
      - when: event.type == "refund.failed"
        transfers:
          - {refunds: 'op("refund", body.name)', debit: '"bank"', credit: '"wallet:1"', amount: body.amount, asset: '"EUR"', operation: 'op("refund failed", body.name)'}
`

// patientCounter is counter with a budget that no test spends.
var patientCounter = strings.Replace(counter, "attempts: 3", "attempts: 1000", 1)

func telling(typ, id, body string) *envelope.Event {
	e := event(id, fmt.Sprintf(`{"id":%q,"type":%q,%s}`, id, typ, body))
	e.Type = typ
	return e
}

func giveBack(id, name, of string, amount int64) *envelope.Event {
	return telling("refund", id, fmt.Sprintf(`"name":%q,"of":%q,"amount":%d`, name, of, amount))
}

func totalOf(id, of string, total int64) *envelope.Event {
	return telling("refunded", id, fmt.Sprintf(`"of":%q,"total":%d`, of, total))
}

func failure(id, name string, amount int64) *envelope.Event {
	return telling("refund.failed", id, fmt.Sprintf(`"name":%q,"amount":%d`, name, amount))
}

// apply publishes events one after the other and wants each to be applied.
func (s *system) apply(events ...*envelope.Event) {
	s.t.Helper()
	for _, e := range events {
		s.publish(e)
		require.Equal(s.t, dedupe.Applied, s.decided(e.ID, dedupe.Completed).Outcome, e.ID)
	}
}

func TestItemsAndTotalsAreOneRefund(t *testing.T) {
	s := newSystem(t, counter)
	s.start()
	s.apply(payment("evt_1", "p1", "bank", "wallet:1", 1000), giveBack("evt_r1", "r1", "p1", 300))
	require.EqualValues(t, 700, s.balance("wallet:1"))
	s.apply(totalOf("evt_t1", "p1", 300))
	require.EqualValues(t, 700, s.balance("wallet:1"), "it tells of the same")
	require.Equal(t, 2, s.transfers())
	s.apply(totalOf("evt_t2", "p1", 700))
	require.EqualValues(t, 300, s.balance("wallet:1"))
	s.apply(giveBack("evt_r2", "r2", "p1", 400))
	require.EqualValues(t, 300, s.balance("wallet:1"), "its total came first")

	// Other events tell the same.
	s.publish(totalOf("evt_t2b", "p1", 700), totalOf("evt_t1b", "p1", 300), giveBack("evt_r2b", "r2", "p1", 400))
	for _, id := range []string{"evt_t2b", "evt_t1b", "evt_r2b"} {
		require.Equal(t, dedupe.DuplicateOperation, s.decided(id, dedupe.Completed).Outcome)
	}
	s.publish(totalOf("evt_over", "p1", 1001))
	row := s.decided("evt_over", dedupe.Failed)
	require.Equal(t, string(dlq.RefundInvalid), row.Reason)
	require.Contains(t, row.Error, "says that 10.01 EUR of shop/payment/p1 are")
	require.Contains(t, row.Error, "are given back so far, which is 10.00 EUR")
	require.LessOrEqual(t, row.Attempts, 1, "nothing that may yet come makes room for it")

	// A failure, and what follows.
	s.apply(failure("evt_f1", "r1", 300))
	require.EqualValues(t, 600, s.balance("wallet:1"))
	s.publish(failure("evt_f1b", "r1", 300), totalOf("evt_late", "p1", 100))
	require.Equal(t, dedupe.DuplicateOperation, s.decided("evt_f1b", dedupe.Completed).Outcome)
	require.Equal(t, dedupe.Applied, s.decided("evt_late", dedupe.Completed).Outcome)
	require.EqualValues(t, 600, s.balance("wallet:1"))
	s.apply(telling("refund", "evt_both", `"name":"r3","of":"p1","amount":500,"total":900`))
	require.EqualValues(t, 100, s.balance("wallet:1"))
	s.settled()
	require.Equal(t, 5, s.transfers()) // the payment, r1, its total of 700, the failure, r3
	require.Len(t, s.letters(), 1)
}

// A refund that is made anew comes before the failure of the first.
func TestARefundWaitsForTheFailureOfAnother(t *testing.T) {
	s := newSystem(t, patientCounter)
	s.start()
	s.apply(payment("evt_1", "p1", "bank", "wallet:1", 1000), giveBack("evt_r1", "r1", "p1", 800))
	s.publish(giveBack("evt_r2", "r2", "p1", 900))
	require.Equal(t, string(dlq.OverRefund), s.decided("evt_r2", dedupe.Pending).Reason)
	s.apply(failure("evt_f1", "r1", 800))
	require.Equal(t, dedupe.Applied, s.decided("evt_r2", dedupe.Completed).Outcome)
	require.EqualValues(t, 100, s.balance("wallet:1"))
	s.settled()
	require.Empty(t, s.letters())
}

// The same in one batch: the failure of the first refund makes room for the second,
// which came before it and is tried again.
func TestARefundPassesOnceTheFailureOfItsBatchIsPosted(t *testing.T) {
	s := newSystem(t, patientCounter)
	s.publish(payment("evt_1", "p1", "bank", "wallet:1", 1000),
		giveBack("evt_r1", "r1", "p1", 800), giveBack("evt_r2", "r2", "p1", 900), failure("evt_f1", "r1", 800))
	s.oneBatch(4)
	require.Equal(t, string(dlq.OverRefund), s.row("evt_r2").Reason)
	require.EqualValues(t, 1000, s.balance("wallet:1"))
	s.start()
	require.Equal(t, dedupe.Applied, s.decided("evt_r2", dedupe.Completed).Outcome)
	s.settled()
	require.EqualValues(t, 100, s.balance("wallet:1"))
	require.Empty(t, s.letters())
}

// Of a refund no more is undone than it was, whatever comes later: its failure waits for
// nothing.
func TestAFailureOfMoreThanItsRefundIsParkedAtOnce(t *testing.T) {
	s := newSystem(t, patientCounter)
	s.start()
	s.apply(payment("evt_1", "p1", "bank", "wallet:1", 1000), giveBack("evt_r1", "r1", "p1", 800))
	s.publish(failure("evt_f1", "r1", 801))
	require.Equal(t, string(dlq.RefundInvalid), s.decided("evt_f1", dedupe.Failed).Reason)
	s.settled()
	require.Len(t, s.letters(), 1)
	require.EqualValues(t, 200, s.balance("wallet:1"))
}

func TestATotalWaitsForItsPayment(t *testing.T) {
	s := newSystem(t, patientCounter)
	s.start()
	s.publish(totalOf("evt_t", "p1", 500), failure("evt_f", "r1", 200))
	for _, id := range []string{"evt_t", "evt_f"} {
		require.Equal(t, string(dlq.MissingParent), s.decided(id, dedupe.Pending).Reason)
	}
	s.publish(payment("evt_1", "p1", "bank", "wallet:1", 1000))
	require.Equal(t, dedupe.Applied, s.decided("evt_t", dedupe.Completed).Outcome)
	require.EqualValues(t, 500, s.balance("wallet:1"))
	s.publish(giveBack("evt_r", "r1", "p1", 200))
	require.Equal(t, dedupe.Applied, s.decided("evt_f", dedupe.Completed).Outcome)
	require.EqualValues(t, 700, s.balance("wallet:1"))
	s.settled()
	require.Empty(t, s.letters())
}

// Refunds, their totals and payments in random order, repeated, at two workers with
// small batches: what was refunded has left the wallet once.
func TestTotalsInAnyOrder(t *testing.T) {
	s := newSystem(t, patientCounter)
	const payments = 60
	var events []*envelope.Event
	for n := range payments {
		p := fmt.Sprint("p", n)
		events = append(events, payment("evt_"+p, p, "bank", "wallet:1", 100),
			giveBack("evt_a"+p, "a"+p, p, 20), giveBack("evt_b"+p, "b"+p, p, 30),
			totalOf("evt_t"+p, p, 20), totalOf("evt_u"+p, p, 50), totalOf("evt_v"+p, p, 70))
	}
	for _, e := range events[:2*payments] { // the same in other events
		other := *e
		other.ID += "-again"
		other.Data = []byte(strings.Replace(string(e.Data), `"id":"`, `"id":"again-`, 1))
		events = append(events, &other)
	}
	rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for range 2 {
		s.start(func(w *worker) { w.tuning.Batch = 20 })
	}
	s.publish(events...)
	s.settled()
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE state <> 'completed'`))
	require.EqualValues(t, 30*payments, s.balance("wallet:1"))
	require.EqualValues(t, 2*payments, s.count(`SELECT count(*) FROM events WHERE outcome = 'duplicate_operation'`))
	require.Equal(t, payments, s.count(`SELECT count(*) FROM totals WHERE seen = 70`))
	require.Empty(t, s.letters())
}
