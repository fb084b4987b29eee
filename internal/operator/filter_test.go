package operator_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/review"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// bySource are the commands that take a source as a filter.
func bySource(source string) map[string]command {
	all := operator.EventRepair{All: true, DryRun: true, Filter: review.Filter{Source: source}}
	moved := operator.LetterMove{All: true, DryRun: true, Rate: 1, Note: "n", Query: operator.LetterQuery{Source: source}}
	return map[string]command{
		"config check": func(ctx context.Context, o *operator.Session) error {
			return operator.CheckAgainstStream(ctx, o, o.ConfigPath(), review.Filter{Source: source})
		},
		"event correct": func(ctx context.Context, o *operator.Session) error { return operator.CorrectEvents(ctx, o, all) },
		"event reopen":  func(ctx context.Context, o *operator.Session) error { return operator.ReopenEvents(ctx, o, all) },
		"dlq list": func(ctx context.Context, o *operator.Session) error {
			return operator.ListLetters(ctx, o, operator.LetterQuery{Source: source})
		},
		"dlq redrive": func(ctx context.Context, o *operator.Session) error { return operator.RedriveLetters(ctx, o, moved) },
		"dlq discard": func(ctx context.Context, o *operator.Session) error { return operator.DiscardLetters(ctx, o, moved) },
		"replay": func(ctx context.Context, o *operator.Session) error {
			return operator.ReplayMessages(ctx, o, operator.Replay{FromSeq: 1, Rate: 1, DryRun: true, Source: source})
		},
	}
}

// A mistyped filter selects nothing, which must not read like an all-clear.
func TestASourceThatIsNoneIsRefused(t *testing.T) {
	s := newSystem(t)
	old := payment("evt_1", "p1", "1999", "EUR")
	old.Source = "old"
	s.decide(old, payment("evt_2", "p2", "1999", "EUR"))
	waiting := payment("evt_3", "p3", "1999", "EUR")
	waiting.Source = "waits"
	s.publish(waiting)
	_, err := dlq.Park(t.Context(), s.js, dlq.Letter{Reason: dlq.RuleError, Source: "parked", EventID: "evt_4", Error: "e"})
	require.NoError(t, err)
	for name, run := range bySource("strpie") {
		out, err := s.run(false, run)
		require.ErrorContains(t, err, `--source "strpie" is unknown`, name)
		require.ErrorContains(t, err, "there are old, orders, pages, shop, stripe, xml", name)
		require.Equal(t, exit.Usage, exit.Code(err), name)
		require.Empty(t, out, name)
	}
	for _, source := range []string{"stripe", "old", "waits", "parked"} { // configured, decided, stored, a letter
		for name, run := range bySource(source) {
			_, err := s.run(false, run)
			require.NotEqual(t, exit.Usage, exit.Code(err), "%s of %s: %v", name, source, err)
		}
	}
}

func TestAnAssetIsTakenInLowerCaseAndRefusedWhereItIsNone(t *testing.T) {
	s := newSystem(t)
	s.decide(payment("evt_1", "p1", "1999", "EUR"))
	list := func(asset string) command {
		return func(ctx context.Context, o *operator.Session) error {
			return operator.ListAccounts(ctx, o, "", asset, "")
		}
	}
	statement := func(asset string) command {
		return statementOf(operator.StatementQuery{Account: "purse:a", Asset: asset})
	}
	for name, run := range map[string]func(string) command{
		"list": list, "statement": statement, "trial balance": func(asset string) command { return trialBalance(time.Time{}, asset, false) },
	} {
		out, err := s.run(false, run("eur"))
		require.NoError(t, err, name)
		require.Contains(t, out, "19.99", name)
		_, err = s.run(false, run("EURO"))
		require.ErrorContains(t, err, "EURO", name)
	}
	for _, run := range []command{list("EURO"), trialBalance(time.Time{}, "EURO", true)} {
		_, err := s.run(false, run)
		require.ErrorContains(t, err, "asset EURO is neither an ISO 4217 code nor")
		require.Equal(t, exit.Usage, exit.Code(err))
	}
	for _, step := range []struct {
		command accountChange
		result  string
	}{
		{operator.OpenAccount, "EUR opened open"}, {operator.FreezeAccount, "EUR frozen frozen"}, {operator.UnfreezeAccount, "EUR unfrozen open"},
		{operator.SetAccount, "EUR set open"}, {operator.CloseAccount, "EUR closed closed"},
	} {
		changed, err := s.change(step.command, operator.AccountChange{Account: "till", Asset: "eur", Note: "n", Metadata: map[string]string{"k": "v"}})
		require.NoError(t, err)
		require.Equal(t, []string{step.result}, results(changed))
	}
}
