package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/review"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

var mending = operator.EventRepair{Actor: "ada", Note: "the rule read the wrong field"}

// named mends one event of the shop.
func named(id string) operator.EventRepair {
	m := mending
	m.Source, m.ID = "shop", id
	return m
}

// correct runs the command and returns its JSON object.
func (s *system) correct(id string, m operator.EventRepair) (operator.RepairedEvent, error) {
	s.t.Helper()
	m.Source, m.ID = "shop", id
	out, err := s.run(true, func(ctx context.Context, o *operator.Session) error {
		return operator.CorrectEvents(ctx, o, m)
	})
	return repaired(s.t, out), err
}

func repaired(t *testing.T, out string) operator.RepairedEvent {
	t.Helper()
	if list := lines[operator.RepairedEvent](t, out); len(list) > 0 {
		return list[0]
	}
	return operator.RepairedEvent{}
}

func TestCorrectEvent(t *testing.T) {
	s := newSystem(t)
	s.rules("amount: body.amount", "amount: minor(body.amount) * 100")
	s.decide(payment("evt_1", "p1", "1999", "EUR"))
	s.write(configuration)

	_, err := s.correct("evt_1", operator.EventRepair{})
	require.Equal(t, exit.Usage, exit.Code(err), "a note is required")
	planned := mending
	planned.DryRun, planned.Note = true, ""
	e, err := s.correct("evt_1", planned)
	require.NoError(t, err)
	require.True(t, e.DryRun)
	require.EqualValues(t, 199900, e.Reversed[0].Minor)
	require.EqualValues(t, 1999, e.Posted[0].Minor)
	require.Len(t, s.event("evt_1").Transfers, 1)

	out, err := s.run(false, func(ctx context.Context, o *operator.Session) error {
		return operator.CorrectEvents(ctx, o, named("evt_1"))
	})
	require.NoError(t, err)
	require.Contains(t, out, "reverse")
	require.Contains(t, out, "1999.00 EUR")
	require.Contains(t, out, "event evt_1 of shop corrected: 1 reversed, 1 posted")

	shown := s.event("evt_1")
	require.Len(t, shown.Transfers, 3)
	require.True(t, shown.Transfers[0].Reversed)
	require.EqualValues(t, 0, *shown.Transfers[1].Reverses)
	require.False(t, shown.Transfers[2].Reversed)
	require.Equal(t, []string{"ada", "correct", mending.Note}, []string{shown.Actions[0].Actor, shown.Actions[0].Verb, shown.Actions[0].Note})
	out, err = s.run(false, func(ctx context.Context, o *operator.Session) error {
		return operator.ShowEvent(ctx, o, "shop", "evt_1")
	})
	require.NoError(t, err)
	require.Contains(t, out, "reversed")
	s.auditClean()

	e, err = s.correct("evt_1", mending)
	require.NoError(t, err)
	require.Equal(t, "unchanged", e.Result)
	_, err = s.correct("evt_none", mending)
	require.ErrorContains(t, err, "event evt_none of source shop is not known")
}

func TestCorrectEventBeyondALimit(t *testing.T) {
	s := newSystem(t)
	enforced := strings.Replace(configuration, "policy: record", "policy: enforce", 1)
	s.write(enforced)
	s.decide(
		event("evt_in", "paid", `{"id":"evt_in","type":"paid","payment":"p1","from":"bank","to":"purse:1","amount":1999,"asset":"EUR"}`),
		event("evt_out", "paid", `{"id":"evt_out","type":"paid","payment":"p2","from":"purse:1","to":"bank","amount":1500,"asset":"EUR"}`),
	)
	s.write(strings.Replace(enforced, "amount: body.amount", "amount: minor(body.amount) - 1000", 1))
	e, err := s.correct("evt_in", mending)
	require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
	require.ErrorContains(t, err, "add --overdraw to post it all the same")
	require.ErrorContains(t, err, "correct event evt_in of shop: the account's limit refuses the transfer: account purse:1: debits would be 34.99 EUR, with 0.00 EUR held, against credits of 29.98 EUR")
	require.Equal(t, "refused", e.Result)
	over := mending
	over.Overdraw = true
	e, err = s.correct("evt_in", over)
	require.NoError(t, err)
	require.Equal(t, []string{"purse:1"}, e.Overdrawn)
	s.auditClean()
}

func TestReopenEvent(t *testing.T) {
	s := newSystem(t)
	s.rules(`event.type == "paid"`, `event.type == "settled"`)
	s.decide(payment("evt_1", "p1", "1999", "EUR"))
	s.write(configuration)
	reopen := func(m operator.EventRepair, json bool) (string, error) {
		return s.run(json, func(ctx context.Context, o *operator.Session) error {
			return operator.ReopenEvents(ctx, o, m)
		})
	}
	planned := named("evt_1")
	planned.DryRun = true
	out, err := reopen(planned, false)
	require.NoError(t, err)
	require.Contains(t, out, "would be reopened")
	require.Contains(t, out, "apply it")
	require.Equal(t, "ignored", s.event("evt_1").Outcome)

	out, err = reopen(named("evt_1"), true)
	require.NoError(t, err)
	require.Equal(t, "reopened", repaired(t, out).Result)
	s.decide()
	require.Equal(t, "applied", s.event("evt_1").Outcome)
	out, err = reopen(named("evt_1"), true)
	require.ErrorIs(t, err, dedupe.ErrState)
	require.ErrorContains(t, err, "event correct is for events that are applied")
	require.Equal(t, "refused", repaired(t, out).Result)
	s.auditClean()
}

func TestRedriveAsCorrection(t *testing.T) {
	s := newSystem(t)
	s.decide(payment("evt_1", "p1", "1999", "EUR"))
	s.decide(payment("evt_1", "p1", "2999", "EUR"))
	letter := s.list(operator.LetterQuery{})[0]
	named := operator.LetterMove{Seqs: []uint64{letter.Seq}, Actor: "ada", Note: mending.Note}
	run := func(m operator.LetterMove) (string, error) {
		return s.run(true, func(ctx context.Context, o *operator.Session) error {
			return operator.CorrectByLetters(ctx, o, m, false)
		})
	}
	_, err := run(operator.LetterMove{All: true, Note: "all"})
	require.Equal(t, exit.Usage, exit.Code(err))
	out, err := run(named)
	require.NoError(t, err)
	e := repaired(t, out)
	require.Equal(t, "corrected", e.Result)
	require.EqualValues(t, 1999, e.Reversed[0].Minor)
	require.EqualValues(t, 2999, e.Posted[0].Minor)
	require.Empty(t, s.list(operator.LetterQuery{}))
	shown := s.event("evt_1")
	require.True(t, shown.Transfers[0].Reversed)
	require.Equal(t, "applied", shown.Conflicts[0].Outcome)
	require.Len(t, shown.Conflicts[0].Transfers, 1)
	s.auditClean()
}

// A wrong rule posted and ignored for a while: in the end everything stands as
// today's rules have it, apart from what a limit refuses.
func TestRepairAll(t *testing.T) {
	s := newSystem(t)
	enforced := strings.Replace(configuration, "policy: record", "policy: enforce", 1)
	s.write(enforced)
	var paid, wrong, missed []*envelope.Event
	for n := range 10 {
		body := func(id, typ string) string {
			return fmt.Sprintf(`{"id":%q,"type":%q,"payment":%q,"from":"bank","to":"purse:%d","amount":1000,"asset":"EUR"}`, id, typ, "p_"+id, n)
		}
		good, bad, deaf := fmt.Sprint("good_", n), fmt.Sprint("bad_", n), fmt.Sprint("deaf_", n)
		paid = append(paid, event(good, "paid", body(good, "paid")))
		wrong = append(wrong, event(bad, "paid", body(bad, "paid")))
		missed = append(missed, event(deaf, "settled", body(deaf, "settled")))
	}
	s.decide(paid...)
	s.write(strings.Replace(enforced, "amount: body.amount", "amount: minor(body.amount) * 100", 1))
	s.decide(append(wrong, missed...)...)
	s.decide(event("spent", "paid", `{"id":"spent","type":"paid","payment":"p_spent","from":"purse:3","to":"bank","amount":900,"asset":"EUR"}`))
	s.write(strings.Replace(enforced, `event.type == "paid"`, `event.type in ["paid", "settled"]`, 1))

	all := mending
	all.All, all.Yes = true, true
	correct := func(m operator.EventRepair, json bool) (string, error) {
		return s.run(json, func(ctx context.Context, o *operator.Session) error { return operator.CorrectEvents(ctx, o, m) })
	}
	_, err := correct(operator.EventRepair{All: true, Note: "nobody is asked"}, false)
	require.Equal(t, exit.Usage, exit.Code(err))
	planned := all
	planned.DryRun = true
	out, err := correct(planned, false)
	require.ErrorContains(t, err, "1 event refused; they stay as they were")
	// spent was taken 100 times over, too.
	require.Contains(t, out, "11 events of 31 compared to correct")
	require.Contains(t, out, "10 events would be corrected: 10 reversed, 10 posted")
	require.Contains(t, out, "refused: event bad_3 of shop", "what spent took has to come back first")
	require.EqualValues(t, 21, s.count(`SELECT count(*) FROM transfers`))

	out, err = correct(all, true)
	require.NoError(t, err)
	require.Len(t, lines[operator.RepairedEvent](t, out), 11)
	out, err = s.run(false, func(ctx context.Context, o *operator.Session) error { return operator.ReopenEvents(ctx, o, all) })
	require.NoError(t, err)
	require.Contains(t, out, "10 events reopened")
	s.decide()
	limits := all
	limits.DryRun, limits.Filter.To = true, 3_000_000_000
	_, err = correct(limits, false)
	require.NoError(t, err, "sequences are 64 bits")
	require.EqualValues(t, 29_100, s.count(`SELECT sum(credits_posted - debits_posted) FROM accounts WHERE name LIKE 'purse:%'`))
	out, err = s.run(false, func(ctx context.Context, o *operator.Session) error {
		return operator.CheckAgainstStream(ctx, o, o.ConfigPath(), review.Filter{})
	})
	require.NoError(t, err, "nothing differs any more: %s", out)
	out, err = correct(all, false)
	require.NoError(t, err)
	require.Contains(t, out, "0 events of 31 compared to correct")
	s.auditClean()
}
