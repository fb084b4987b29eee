package rules_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

const holdKey = "6:stripe,0:,4:live,4:hold,4:ch_1,"

// holdRules hold a charge, capture it and void it, each under a condition.
func holdRules() (hold, capture, void config.Rule) {
	hold, capture = chargeRule(), chargeRule()
	h, c := &hold.Transfers[0], &capture.Transfers[0]
	hold.When = text(`body.data.object.status == "held"`)
	h.Hold, h.Expires, h.Operation = true, time.Hour, text(`op("hold", body.data.object.id)`)
	capture.When = text(`body.data.object.status == "captured"`)
	c.Captures, c.Final, c.Fact = h.Operation, text(`body.data.object.last`), true
	void.When = text(`body.data.object.status == "voided"`)
	void.Transfers = []config.Transfer{{Voids: h.Operation, Operation: text(`op("void", body.data.object.id)`)}}
	return hold, capture, void
}

func TestDecideHoldsCapturesAndVoids(t *testing.T) {
	t.Parallel()
	hold, capture, void := holdRules()
	set := compile(t, stripeSource(hold, capture, void), stripe)
	decide := func(members string) []ledger.Transfer {
		d := set.Decide(stripeEvent(stripeBody(`"amount":10,"currency":"eur",` + members)))
		require.NoError(t, d.Err)
		return d.Transfers
	}
	money := ledger.Transfer{Debit: "world", Credit: "customer:cus_1", Asset: "EUR", Amount: 10}
	held, captured := money, money
	held.Operation, held.Kind, held.Expires = holdKey, ledger.KindHold, time.Hour
	require.Equal(t, []ledger.Transfer{held}, decide(`"status":"held"`))
	captured.Operation, captured.Kind, captured.Parent, captured.Fact = "6:stripe,0:,4:live,6:charge,4:ch_1,", ledger.KindCapture, holdKey, true
	require.Equal(t, []ledger.Transfer{captured}, decide(`"status":"captured","last":false`))
	captured.Final = true
	require.Equal(t, []ledger.Transfer{captured}, decide(`"status":"captured","last":true`))
	require.Equal(t, []ledger.Transfer{{Operation: "6:stripe,0:,4:live,4:void,4:ch_1,", Kind: ledger.KindVoid, Parent: holdKey}}, decide(`"status":"voided"`))

	d := set.Decide(stripeEvent(stripeBody(`"amount":10,"currency":"eur","status":"captured"`)))
	require.Equal(t, dlq.RuleError, d.Parked, "nobody says whether it is the last")
	d = set.Decide(stripeEvent(stripeBody(`"amount":0,"currency":"eur","status":"captured"`)))
	require.Equal(t, dlq.RuleError, d.Parked, "nor of what captures nothing")
}

// A last capture of nothing releases what is left of its hold; any other of nothing
// does nothing, and needs no ids.
func TestACaptureOfNothing(t *testing.T) {
	t.Parallel()
	_, capture, _ := holdRules()
	set := compile(t, stripeSource(capture), stripe)
	const nothing = `"amount":0,"currency":"eur","status":"captured",`
	d := set.Decide(stripeEvent(stripeBody(nothing + `"last":true`)))
	require.NoError(t, d.Err)
	require.Equal(t, []ledger.Transfer{{Operation: "6:stripe,0:,4:live,6:charge,4:ch_1,", Kind: ledger.KindVoid, Parent: holdKey, Final: true}}, d.Transfers)
	require.Empty(t, d.Ignored)

	d = set.Decide(stripeEvent(stripeBody(nothing + `"last":false`)))
	require.Empty(t, d.Transfers)
	require.Equal(t, dlq.AmountZero, d.Ignored)
	capture.Transfers[0].Final = config.Text{}
	capture.Transfers[0].Captures, capture.Transfers[0].Operation = text(`op("hold", body.none)`), text(`op("charge", body.none)`)
	d = compile(t, stripeSource(capture), stripe).Decide(stripeEvent(stripeBody(nothing + `"last":true`)))
	require.Equal(t, dlq.AmountZero, d.Ignored)
}

// Whatever a rule says of holds is part of its version, and a rule without keeps
// the one it had.
func TestVersionsKnowHolds(t *testing.T) {
	t.Parallel()
	_, capture, void := holdRules()
	capture.Transfers[0].Final, capture.Transfers[0].Fact = config.Text{}, false
	base := compile(t, stripeSource(capture, void), stripe).Version()
	for name, change := range map[string]func(c, v *config.Transfer){
		"no capture":  func(c, _ *config.Transfer) { c.Captures = config.Text{} },
		"a parent":    func(c, _ *config.Transfer) { c.Parent, c.Captures = c.Captures, config.Text{} },
		"other holds": func(c, _ *config.Transfer) { c.Captures = text(`op("other", "hold")`) },
		"the last":    func(c, _ *config.Transfer) { c.Final = text("true") },
		"a fact":      func(c, _ *config.Transfer) { c.Fact = true },
		"other void":  func(_, v *config.Transfer) { v.Voids = text(`op("other", "hold")`) },
	} {
		_, c, v := holdRules()
		c.Transfers[0].Final, c.Transfers[0].Fact = config.Text{}, false
		change(&c.Transfers[0], &v.Transfers[0])
		require.NotEqual(t, base, compile(t, stripeSource(c, v), stripe).Version(), name)
	}
	hold, _, _ := holdRules()
	longer := hold
	longer.Transfers = []config.Transfer{hold.Transfers[0]}
	longer.Transfers[0].Expires = 2 * time.Hour
	require.NotEqual(t, compile(t, stripeSource(hold), stripe).Version(), compile(t, stripeSource(longer), stripe).Version())
}

// Two rules of one event may tell of one capture, of which one knows no hold.
func TestACaptureIsItsTransfer(t *testing.T) {
	t.Parallel()
	hold, capture, _ := holdRules()
	capture.When, capture.Transfers[0].Final = text("true"), text("true")
	plain := chargeRule()
	plain.When = text("true")
	body := stripeBody(`"amount":10,"currency":"eur","status":"none"`)
	for _, both := range [][]config.Rule{{capture, plain}, {plain, capture}} {
		d := compile(t, stripeSource(both...), stripe).Decide(stripeEvent(body))
		require.NoError(t, d.Err)
		require.Len(t, d.Transfers, 1)
		require.Equal(t, ledger.KindCapture, d.Transfers[0].Kind)
		require.Equal(t, holdKey, d.Transfers[0].Parent)
		require.True(t, d.Transfers[0].Final && d.Transfers[0].Fact)
	}
	hold.When, hold.Transfers[0].Operation = text("true"), plain.Transfers[0].Operation
	d := compile(t, stripeSource(plain, hold), stripe).Decide(stripeEvent(body))
	require.Equal(t, dlq.OperationConflict, d.Parked)
}
