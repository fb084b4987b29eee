package worker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// stages is a source that tells of each state of its objects.
const stages = `
nats: {events_max_bytes: 256MiB, dlq_max_bytes: 64MiB}
retry: {attempts: 1000, age: 1h, base: 50ms, cap: 100ms}
sources:
  shop:
    provider: hmac
    secret: secret-of-the-shop
    hmac: {header: X-Signature, encoding: hex, algorithm: sha256}
    id: body:id
    type: body:type
    time: body:at
    rules:
      - when: event.type == "payment" && body.status == "captured"
        transfers:
          - {debit: '"psp"', credit: '"shop"', amount: body.amount, asset: '"EUR"', operation: 'op("charge", body.payment)'}
      - when: event.type == "refund"
        transfers:
          - {debit: '"shop"', credit: '"psp"', amount: body.amount, asset: '"EUR"', operation: 'op("refund", body.refund)', refunds: 'op("charge", body.payment)'}
      - when: event.type == "subscription" && body.status == "active"
        transfers:
          - {debit: '"grants"', credit: '"wallet:" + body.subscription', amount: body.amount, asset: '"EUR"', operation: 'op("period", body.subscription, body.period)'}
`

// told is an event that occurred a number of seconds after noon.
func told(id, kind string, seconds int, fields string, args ...any) *envelope.Event {
	at := time.Date(2026, 1, 2, 12, 0, seconds, 0, time.UTC)
	e := event(id, fmt.Sprintf(`{"id":%q,"type":%q,"at":%q,"amount":1000,%s}`, id, kind, at.Format(time.RFC3339), fmt.Sprintf(fields, args...)))
	e.Type, e.Time = kind, at
	return e
}

// permutations are all orders of n things.
func permutations(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, shorter := range permutations(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(shorter), at, n-1))
		}
	}
	return all
}

// A state that comes late takes nothing back, whatever it says and whenever it
// occurred: cases 26 to 29, their events in every order, the last one twice.
func TestALateStateLowersNothing(t *testing.T) {
	for _, c := range []struct {
		name    string
		events  func(key string) []*envelope.Event
		account string
		balance int64
		posted  int
	}{
		{"case 26: created after updated", func(key string) []*envelope.Event {
			return []*envelope.Event{
				told(key+"updated", "subscription", 5, `"subscription":%q,"period":"2026-01","status":"active"`, key),
				told(key+"created", "subscription", 0, `"subscription":%q,"period":"2026-01","status":"incomplete"`, key),
				told(key+"renamed", "subscription", 3, `"subscription":%q,"period":"2026-01","status":"active"`, key),
			}
		}, "wallet:%s", 1000, 1},
		{"case 27: authorized and failed after captured", func(key string) []*envelope.Event {
			return []*envelope.Event{
				told(key+"captured", "payment", 5, `"payment":%q,"status":"captured"`, key),
				told(key+"authorized", "payment", 2, `"payment":%q,"status":"authorized"`, key),
				told(key+"failed", "payment", 1, `"payment":%q,"status":"failed"`, key),
			}
		}, "shop", 1000, 1},
		{"case 28: one try failed, another paid", func(key string) []*envelope.Event {
			return []*envelope.Event{
				told(key+"failed", "payment", 1, `"payment":"%s-P1","order":%q,"status":"failed"`, key, key),
				told(key+"paid", "payment", 2, `"payment":"%s-P2","order":%q,"status":"captured"`, key, key),
			}
		}, "shop", 1000, 1},
		{"case 29: paid again after a later state", func(key string) []*envelope.Event {
			return []*envelope.Event{
				told(key+"paid", "payment", 1, `"payment":%q,"status":"captured"`, key),
				told(key+"refunded", "refund", 9, `"payment":%q,"refund":%q`, key, key),
				told(key+"paid again", "payment", 1, `"payment":%q,"status":"captured"`, key),
			}
		}, "shop", 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSystem(t, stages)
			s.start()
			orders := permutations(len(c.events("")))
			for n, order := range orders {
				key := fmt.Sprintf("%d-", n)
				events := c.events(key)
				for _, i := range order { // one after another is decided
					s.publish(events[i])
					s.eventually(func() bool { return s.row(events[i].ID) != nil }, "it is decided, or waits")
				}
				s.publish(events[order[len(order)-1]])
			}
			s.settled()
			require.Zero(t, s.count(`SELECT count(*) FROM events WHERE state <> 'completed'`))
			require.Equal(t, c.posted*len(orders), s.transfers())
			require.Zero(t, s.count(`SELECT count(*) FROM transfers WHERE reverses IS NOT NULL`))
			require.Empty(t, s.letters())
			if c.account == "shop" {
				require.Equal(t, c.balance*int64(len(orders)), s.balance("shop"))
				return
			}
			for n := range orders {
				require.Equal(t, c.balance, s.balance(fmt.Sprintf(c.account, fmt.Sprintf("%d-", n))))
			}
		})
	}
}

// The time that the provider gives an event stays with it, apart from the time at
// which its transfers were recorded.
func TestAnEventKeepsItsOwnTime(t *testing.T) {
	s := newSystem(t, stages)
	s.start()
	late := told("evt_late", "payment", 7, `"payment":"p1","status":"captured"`)
	s.publish(late)
	require.Equal(t, late.Time, s.decided("evt_late", dedupe.Completed).Occurred.UTC())
	entries, err := ledger.Posted(t.Context(), s.pool, []int64{s.row("evt_late").No})
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), entries[s.row("evt_late").No][0].Posted, time.Minute)
}

// Case 23 within the worker's own database: another program has posted a payment
// and a refund by the ledger's package, under the keys of the rules, and then their
// events come; and the reverse.
func TestPostedOnTheSpotAndThenTold(t *testing.T) {
	s := newSystem(t, stages)
	s.start()
	var numbers dedupe.Numbers
	post := func(transfers ...ledger.Transfer) (posted int) {
		require.NoError(t, numbers.Reserve(t.Context(), s.pool, 1))
		p := &ledger.Posting{EventNo: numbers.Take(), Transfers: transfers}
		none := func(string) (ledger.Limit, bool) { return ledger.Limit{}, false }
		require.NoError(t, pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error { return ledger.Post(t.Context(), tx, none, p) }))
		require.NoError(t, p.Err)
		return len(p.Posted)
	}
	charge := func(id string) ledger.Transfer {
		return ledger.Transfer{Operation: ledger.OperationKey("shop", "", "", "charge", id), Debit: "psp", Credit: "shop", Asset: "EUR", Amount: 1000}
	}
	refund := func(id, of string) ledger.Transfer {
		return ledger.Transfer{Operation: ledger.OperationKey("shop", "", "", "refund", id), Debit: "shop", Credit: "psp", Asset: "EUR", Amount: 1000,
			Parent: charge(of).Operation, Refund: true}
	}
	events := func(id, re string) []*envelope.Event {
		return []*envelope.Event{
			told("evt_"+id, "payment", 1, `"payment":%q,"status":"captured"`, id),
			told("evt_"+re, "refund", 2, `"payment":%q,"refund":%q`, id, re),
		}
	}
	require.Equal(t, 2, post(charge("P13"))+post(refund("re_13", "P13")))
	s.publish(events("P13", "re_13")...)
	for _, e := range events("P13", "re_13") {
		require.Equal(t, dedupe.DuplicateOperation, s.decided(e.ID, dedupe.Completed).Outcome)
	}

	s.publish(events("P14", "re_14")...)
	for _, e := range events("P14", "re_14") {
		require.Equal(t, dedupe.Applied, s.decided(e.ID, dedupe.Completed).Outcome)
	}
	require.Zero(t, post(refund("re_14", "P14"))+post(charge("P14")))
	s.settled()
	require.Equal(t, 4, s.transfers())
	require.Zero(t, s.balance("shop"))
}
