package worker

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// desk is the shop with authorisations, as a card's issuer tells of them.
const desk = shop + `
      - when: event.type == "authorised"
        transfers:
          - {hold: true, expires: 1h, debit: body.from, credit: body.to, amount: body.amount, asset: body.asset, operation: 'op("hold", body.payment)'}
      - when: event.type == "captured"
        transfers:
          - {captures: 'op("hold", body.of)', final: has(body.last), debit: body.from, credit: body.to, amount: body.amount, asset: body.asset, operation: 'op("capture", body.payment)'}
      - when: event.type == "settled"
        transfers:
          - {captures: 'op("hold", body.of)', fact: true, debit: body.from, credit: body.to, amount: body.amount, asset: body.asset, operation: 'op("capture", body.payment)'}
      - when: event.type == "voided"
        transfers:
          - {voids: 'op("hold", body.of)', operation: 'op("void", body.payment)'}
`

// patientDesk is desk with a budget that no test spends.
var patientDesk = strings.Replace(desk, "attempts: 3", "attempts: 1000", 1)

// deal is an event of the desk about purse:1 and the bank; payment is its own
// operation, of the hold that it is about, and more further members.
func deal(typ, id, payment, of string, amount int64, more string) *envelope.Event {
	e := event(id, fmt.Sprintf(`{"id":%q,"type":%q,"payment":%q,"of":%q,"from":"purse:1","to":"bank","amount":%d,"asset":"EUR"%s}`, id, typ, payment, of, amount, more))
	e.Type = typ
	return e
}

func (s *system) fund(amount int64) {
	s.t.Helper()
	s.publish(payment("evt_fund", "fund", "bank", "purse:1", amount))
	s.decided("evt_fund", dedupe.Completed)
}

func (s *system) held(account string) int {
	s.t.Helper()
	return s.count(`SELECT COALESCE(sum(held), 0) FROM holds WHERE debit = $1 AND expires_at > now()`, account)
}

func TestHoldsAndCapturesAcrossBatches(t *testing.T) {
	s := newSystem(t, desk)
	var w *worker
	s.start(func(started *worker) { w = started })
	s.fund(100)
	s.publish(deal("authorised", "evt_hold", "h1", "", 60, ""))
	require.Equal(t, dedupe.Applied, s.decided("evt_hold", dedupe.Completed).Outcome)
	require.EqualValues(t, 100, s.balance("purse:1"), "nothing has moved")
	require.Equal(t, 60, s.held("purse:1"))

	// Told of again, under another id and with another amount.
	s.publish(deal("authorised", "evt_again", "h1", "", 60, ""), deal("authorised", "evt_other", "h1", "", 61, ""))
	require.Equal(t, dedupe.DuplicateOperation, s.decided("evt_again", dedupe.Completed).Outcome)
	s.parkedAs("evt_other", dlq.OperationConflict, "a hold of 0.60 EUR from purse:1 to bank")

	// What is held is not spent, and captured in parts.
	s.publish(payment("evt_spend", "p1", "purse:1", "bank", 41))
	require.Equal(t, string(dlq.InsufficientFunds), s.decided("evt_spend", dedupe.Failed).Reason)
	s.publish(deal("captured", "evt_part", "c1", "h1", 10, ""))
	require.Equal(t, dedupe.Applied, s.decided("evt_part", dedupe.Completed).Outcome)
	s.publish(deal("captured", "evt_much", "c2", "h1", 51, ""))
	s.parkedAs("evt_much", dlq.OverCapture, "which has 0.50 EUR left of 0.60 EUR")
	s.publish(deal("captured", "evt_last", "c3", "h1", 20, `,"last":1`))
	require.Equal(t, dedupe.Applied, s.decided("evt_last", dedupe.Completed).Outcome)
	s.publish(deal("captured", "evt_late", "c4", "h1", 1, ""), deal("voided", "evt_void", "v1", "h1", 1, ""))
	s.parkedAs("evt_late", dlq.HoldClosed, "is captured")
	s.parkedAs("evt_void", dlq.HoldClosed, "is captured")
	require.EqualValues(t, 70, s.balance("purse:1"))
	require.Zero(t, s.held("purse:1"))

	// A void gives back.
	s.publish(deal("authorised", "evt_hold2", "h2", "", 70, ""))
	s.decided("evt_hold2", dedupe.Completed)
	s.publish(deal("voided", "evt_void2", "v2", "h2", 0, ""))
	require.Equal(t, dedupe.Applied, s.decided("evt_void2", dedupe.Completed).Outcome)
	s.publish(deal("voided", "evt_void3", "v2", "h2", 0, ""), deal("captured", "evt_voided", "c5", "h2", 1, ""))
	require.Equal(t, dedupe.DuplicateOperation, s.decided("evt_void3", dedupe.Completed).Outcome)
	s.parkedAs("evt_voided", dlq.HoldClosed, "is voided")
	require.Zero(t, s.held("purse:1"))
	require.Zero(t, testutil.ToFloat64(w.metrics.uncovered))

	// The provider's word is a fact.
	s.publish(deal("settled", "evt_fact", "c6", "h2", 30, ""))
	require.Equal(t, dedupe.Applied, s.decided("evt_fact", dedupe.Completed).Outcome)
	s.settled()
	require.EqualValues(t, 40, s.balance("purse:1"))
	require.Equal(t, 1, s.logged("capture is not covered by a hold"))
	require.InDelta(t, 1, testutil.ToFloat64(w.metrics.uncovered), 0)
	require.Equal(t, 1, s.count(`SELECT count(*) FROM transfers WHERE uncovered = 30`))
}

func TestACaptureWaitsForItsHold(t *testing.T) {
	s := newSystem(t, patientDesk)
	s.start()
	s.fund(100)
	s.publish(deal("captured", "evt_capture", "c1", "h1", 60, ""), deal("voided", "evt_void", "v2", "h2", 0, ""))
	require.Equal(t, string(dlq.MissingParent), s.decided("evt_capture", dedupe.Pending).Reason)
	require.Equal(t, string(dlq.MissingParent), s.decided("evt_void", dedupe.Pending).Reason)
	s.publish(deal("settled", "evt_fact", "c3", "h3", 10, ""))
	require.Equal(t, dedupe.Applied, s.decided("evt_fact", dedupe.Completed).Outcome, "a fact does not wait")

	s.publish(deal("authorised", "evt_hold", "h1", "", 60, ""), deal("authorised", "evt_hold2", "h2", "", 30, ""), deal("authorised", "evt_hold3", "h3", "", 10, ""))
	s.settled()
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE state <> 'completed'`))
	require.EqualValues(t, 30, s.balance("purse:1"))
	require.Zero(t, s.held("purse:1"), "the fact's hold came late, and was captured already")
	require.Empty(t, s.letters())
}

// One batch, in any order: the hold comes first.
func TestAHoldAndItsCapturesInOneBatch(t *testing.T) {
	for name, order := range map[string][]int{"forwards": {0, 1, 2, 3}, "backwards": {3, 2, 1, 0}} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, desk)
			stop := s.start()
			s.fund(100)
			s.settled()
			stop()
			events := []*envelope.Event{
				deal("authorised", "evt_hold", "h1", "", 60, ""), deal("settled", "evt_fact", "c1", "h1", 20, ""),
				deal("captured", "evt_capture", "c2", "h1", 30, ""), deal("captured", "evt_none", "c3", "none", 1, ""),
			}
			for _, i := range order {
				s.publish(events[i])
			}
			s.oneBatch(4)
			require.Equal(t, 1, s.count(`SELECT count(*) FROM events WHERE state <> 'completed'`))
			require.EqualValues(t, 50, s.balance("purse:1"))
			require.Equal(t, 10, s.held("purse:1"))
			require.Zero(t, s.count(`SELECT count(*) FROM transfers WHERE uncovered IS NOT NULL`), "the hold covers the fact")
		})
	}
}

// An authorisation that its provider forgets ends by the database's clock: no event
// says so, and no worker has to be there.
func TestHoldsExpire(t *testing.T) {
	s := newSystem(t, strings.Replace(desk, "expires: 1h", "expires: 1s", 1))
	s.start()
	s.fund(100)
	s.publish(deal("authorised", "evt_hold", "h1", "", 60, ""))
	s.decided("evt_hold", dedupe.Completed)
	s.eventually(func() bool { return s.held("purse:1") == 0 }, "the hold expires")
	s.publish(deal("captured", "evt_late", "c1", "h1", 60, ""), payment("evt_spend", "p1", "purse:1", "bank", 90))
	s.parkedAs("evt_late", dlq.HoldClosed, "is expired")
	require.Equal(t, dedupe.Applied, s.decided("evt_spend", dedupe.Completed).Outcome)
	s.publish(deal("settled", "evt_fact", "c2", "h1", 10, ""))
	require.Equal(t, dedupe.Applied, s.decided("evt_fact", dedupe.Completed).Outcome)
	require.Zero(t, s.balance("purse:1"))
	s.settled()
}

// Holds, their captures and voids in random order, repeated, at two workers with
// small batches: all of it is posted once, and nothing stays held.
func TestDealsInAnyOrder(t *testing.T) {
	s := newSystem(t, patientDesk)
	stop := s.start()
	const deals = 80
	s.fund(100 * deals)
	s.settled()
	stop()
	var events []*envelope.Event
	for n := range deals {
		h := fmt.Sprint("h", n)
		events = append(events, deal("authorised", "evt_"+h, h, "", 30, ""),
			deal("captured", "evt_a"+h, "a"+h, h, 10, ""), deal("captured", "evt_b"+h, "b"+h, h, 10, ""), deal("captured", "evt_c"+h, "c"+h, h, 10, ""))
	}
	events = append(events, events[:deals]...)
	rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for range 2 {
		s.start(func(w *worker) { w.tuning.Batch = 20 })
	}
	s.publish(events...)
	s.settled()
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE state <> 'completed'`))
	require.EqualValues(t, 70*deals, s.balance("purse:1"))
	require.Zero(t, s.held("purse:1"))
	require.Equal(t, 1+3*deals, s.transfers())
	require.Empty(t, s.letters())
}
