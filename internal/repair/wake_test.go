package repair_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/repair"
	"github.com/onceledger/onceledger/internal/systemtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// sleepy are the right rules with refunds, and long delays; misnamed take a payment's
// operation from its event.
var (
	sleepy = strings.Replace(right, "base: 50ms, cap: 100ms", "base: 1h, cap: 24h", 1) + `      - when: event.type == "refunded"
        transfers:
          - {refunds: 'op("payment", body.of)', debit: body.from, credit: body.to, amount: body.amount, asset: '"EUR"', operation: 'op("refund", body.id)'}
`
	misnamed = strings.Replace(sleepy, `op("payment", body.payment)`, `op("payment", body.id)`, 1)
)

func giveBack(id, of string) *envelope.Event {
	return &envelope.Event{
		Source: "shop", ID: id, Type: "refunded", Time: time.Unix(1_700_000_000, 0), ContentType: "application/json",
		Data: []byte(`{"id":"` + id + `","type":"refunded","of":"` + of + `","from":"wallet:1","to":"bank","amount":100}`),
	}
}

// waits publishes events and waits until they are pending for want of their parent.
func waits(t *testing.T, s *systemtest.System, events ...*envelope.Event) {
	t.Helper()
	// A delay is uniform from nothing on, so that the longest one that a file may ask
	// for would be a short one now and then.
	retry := &s.Catalog.Sources["shop"].Retry
	retry.Base, retry.Cap = 10_000*time.Hour, 10_000*time.Hour
	stop := s.Work()
	defer stop()
	for _, e := range events {
		msg, err := e.Msg()
		require.NoError(t, err)
		_, err = s.JS.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		return s.Count(`SELECT count(*) FROM events WHERE state = 'pending' AND reason = 'missing_parent'`) == len(events)
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, len(events), s.Count(`SELECT count(*) FROM waiting`))
}

// A correction posts what refunds wait for: they are tried at once, as they are when
// a worker posts it.
func TestWhatWaitedForACorrectionIsTriedAtOnce(t *testing.T) {
	s := systemtest.New(t, stack, misnamed)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "500"))
	waits(t, s, giveBack("evt_r1", "p1"), giveBack("evt_r2", "p1"), giveBack("evt_other", "p2"))

	s.Rules(sleepy)
	_, err := repairer(s).Correct(t.Context(), key("evt_1"), why, dry)
	require.NoError(t, err)
	require.Equal(t, 3, s.Count(`SELECT count(*) FROM waiting`), "a dry run wakes nobody")
	correct(t, s, "evt_1")
	require.Equal(t, 1, s.Count(`SELECT count(*) FROM waiting`))
	stop := s.Work()
	defer stop()
	require.Eventually(t, func() bool {
		return s.Count(`SELECT count(*) FROM events WHERE state = 'completed' AND event_id IN ('evt_r1', 'evt_r2')`) == 2
	}, time.Minute, 10*time.Millisecond)
	require.EqualValues(t, 300, s.Balance(wallet))
	row := s.Row("evt_r1")
	require.Equal(t, 1, row.Attempts, "that which failed")
	actions, err := dedupe.Actions(t.Context(), s.Pool, row.No)
	require.NoError(t, err)
	require.Len(t, actions, 1)
	require.Equal(t, []string{"ada", "redrive"}, []string{actions[0].Actor, string(actions[0].Verb)})
	require.Contains(t, actions[0].Note, "evt_1")
	require.Equal(t, dedupe.Pending, s.Row("evt_other").State)
}

// So does a conflict that is let stand.
func TestWhatWaitedForALetterIsTriedAtOnce(t *testing.T) {
	s := systemtest.New(t, stack, sleepy)
	s.Decide(pay("evt_1", "p0", "bank", wallet, "500"))
	s.Decide(pay("evt_1", "p1", "bank", wallet, "400")) // after the one that stands
	waits(t, s, giveBack("evt_r1", "p1"))
	letters := s.Stored()
	require.Len(t, letters, 1)
	require.Equal(t, dlq.IDConflict, letters[0].Reason)
	_, err := repairer(s).CorrectLetter(t.Context(), letters[0], why, repair.Options{})
	require.NoError(t, err)
	stop := s.Work()
	defer stop()
	require.Eventually(t, func() bool { return s.Row("evt_r1").State == dedupe.Completed }, time.Minute, 10*time.Millisecond)
	require.EqualValues(t, 300, s.Balance(wallet))
}
