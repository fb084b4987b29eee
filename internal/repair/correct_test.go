package repair_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/repair"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/systemtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/ledger"
)

func TestCorrectMovesTheMoneyToWhereTodaysRulesSay(t *testing.T) {
	s := systemtest.New(t, stack, bad)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "500"), pay("evt_2", "p2", "bank", wallet, "7"))
	s.Rules(right)

	planned, err := repairer(s).Correct(t.Context(), key("evt_1"), why, dry)
	require.NoError(t, err)
	require.Equal(t, "house", planned.Reversed[0].Credit)
	require.Equal(t, wallet, planned.Posted[0].Credit)
	require.Equal(t, 2, s.Transfers(), "a dry run changes nothing")
	require.Zero(t, s.Count(`SELECT count(*) FROM actions`))

	done := correct(t, s, "evt_1")
	require.Equal(t, planned.Posted, done.Posted)
	require.EqualValues(t, 500, s.Balance(wallet))
	require.EqualValues(t, 7, s.Balance("house"))
	require.EqualValues(t, -507, s.Balance("bank"))
	require.Equal(t, 4, s.Transfers(), "nothing was edited")
	actions, err := dedupe.Actions(t.Context(), s.Pool, done.Row.No)
	require.NoError(t, err)
	require.Len(t, actions, 1)
	require.Equal(t, dedupe.VerbCorrect, actions[0].Verb)
	require.Equal(t, why.Note, actions[0].Note)
	require.Equal(t, 2, s.Clean().Applied)

	require.False(t, correct(t, s, "evt_1").Changed())
	require.Equal(t, 1, s.Count(`SELECT count(*) FROM actions`), "what changes nothing is not recorded")

	s.Decide(pay("evt_1", "p1", "bank", wallet, "500"), pay("evt_1b", "p1", "bank", wallet, "500"))
	require.Equal(t, dedupe.DuplicateOperation, s.Row("evt_1b").Outcome)
	require.EqualValues(t, 500, s.Balance(wallet))
	sum := s.Clean()
	require.Equal(t, 1, sum.Duplicates)
}

// Money that the rules no longer ask for goes back, and whoever reports it from
// then on is applied; who came before can be opened again.
func TestCorrectGivesOperationsUp(t *testing.T) {
	s := systemtest.New(t, stack, right)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "500"))
	s.Decide(pay("evt_twin", "p1", "bank", wallet, "500"))
	require.Equal(t, dedupe.DuplicateOperation, s.Row("evt_twin").Outcome)
	s.Rules(deaf)
	done := correct(t, s, "evt_1")
	require.Len(t, done.Reversed, 1)
	require.Empty(t, done.Posted)
	require.Zero(t, s.Balance(wallet))
	require.Zero(t, s.Count(`SELECT count(*) FROM operations`))
	s.Clean()

	s.Rules(right)
	_, err := repairer(s).Reopen(t.Context(), key("evt_twin"), dedupe.Action{Actor: "ada", Note: "its twin was corrected"}, repair.Options{})
	require.NoError(t, err)
	s.Decide()
	require.Equal(t, dedupe.Applied, s.Row("evt_twin").Outcome)
	require.EqualValues(t, 500, s.Balance(wallet))
	s.Clean()

	s.Decide(pay("evt_3", "p1", "bank", wallet, "500"))
	require.Equal(t, dedupe.DuplicateOperation, s.Row("evt_3").Outcome)
	require.False(t, correct(t, s, "evt_1").Changed(), "its operation stands as the twin posted it")
	s.Clean()
}

func TestCorrectRefuses(t *testing.T) {
	s := systemtest.New(t, stack, right)
	s.Decide(pay("evt_1", "p1", "bank", "purse:1", "500"))
	s.Decide(pay("evt_spent", "p2", "purse:1", "bank", "400"), pay("evt_bad", "p3", "bank", wallet, `"many"`))
	r := repairer(s)
	refused := func(id string, want error) {
		t.Helper()
		_, err := r.Correct(t.Context(), key(id), why, repair.Options{})
		require.ErrorIs(t, err, want)
		require.Equal(t, 2, s.Transfers())
	}
	refused("evt_none", dedupe.ErrNoEvent)
	refused("evt_bad", dedupe.ErrState)

	s.Rules(systemtest.Wrong)
	r = repairer(s)
	refused("evt_1", repair.ErrParked)

	s.Rules(deaf)
	r = repairer(s)
	refused("evt_1", ledger.ErrInsufficientFunds) // the money was spent
	done, err := r.Correct(t.Context(), key("evt_1"), why, repair.Options{Overdraw: true})
	require.NoError(t, err)
	require.Equal(t, []string{"purse:1"}, done.Overdrawn)
	require.EqualValues(t, -400, s.Balance("purse:1"))
	s.Clean()

	events, err := s.JS.Stream(t.Context(), stream.Events)
	require.NoError(t, err)
	require.NoError(t, events.Purge(t.Context()))
	_, err = r.Correct(t.Context(), key("evt_spent"), why, repair.Options{})
	require.ErrorIs(t, err, repair.ErrGone)
}

// Corrections there and back, resends and twins at the same time leave the books
// balanced, and the event as the last correction has it.
func TestCorrectBesideWorkers(t *testing.T) {
	s := systemtest.New(t, stack, right)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "500"), pay("evt_2", "p2", "bank", wallet, "30"))
	s.Rules(bad)
	wrong := repairer(s)
	s.Rules(right)
	good := repairer(s)
	s.Work()
	var group errgroup.Group
	for _, id := range []string{"evt_1", "evt_2"} {
		group.Go(func() error {
			for range 20 {
				for _, r := range []repair.Repairer{wrong, good} {
					if _, err := r.Correct(t.Context(), key(id), why, repair.Options{}); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		for n := range 200 {
			for _, e := range []struct{ id, payment, amount string }{{"evt_1", "p1", "500"}, {fmt.Sprint("twin", n), "p2", "30"}} {
				msg, err := pay(e.id, e.payment, "bank", wallet, e.amount).Msg()
				if err != nil {
					return err
				}
				if _, err := s.JS.PublishMsg(t.Context(), msg); err != nil {
					return err
				}
			}
		}
		return nil
	})
	require.NoError(t, group.Wait())
	s.Settle()
	require.EqualValues(t, 530, s.Balance(wallet))
	require.Zero(t, s.Balance("house"))
	require.EqualValues(t, 2, s.Count(`SELECT count(*) FROM operations`))
	s.Clean()
}
