package repair_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/repair"
	"github.com/onceledger/onceledger/internal/systemtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

func TestAConflictThatWasRight(t *testing.T) {
	for name, second := range map[string]string{"other content of one event": "evt_1", "other content of one operation": "evt_2"} {
		t.Run(name, func(t *testing.T) {
			s := systemtest.New(t, stack, right)
			s.Decide(pay("evt_1", "p1", "bank", wallet, "500"))
			s.Decide(pay(second, "p1", "bank", wallet, "900"))
			letters := s.Stored()
			require.Len(t, letters, 1)
			r := repairer(s)

			planned, err := r.CorrectLetter(t.Context(), letters[0], why, dry)
			require.NoError(t, err)
			require.EqualValues(t, 500, planned.Reversed[0].Amount)
			require.EqualValues(t, 900, planned.Posted[0].Amount)
			require.Len(t, s.Stored(), 1)
			require.EqualValues(t, 500, s.Balance(wallet))

			_, err = r.CorrectLetter(t.Context(), letters[0], why, repair.Options{})
			require.NoError(t, err)
			require.EqualValues(t, 900, s.Balance(wallet))
			require.Empty(t, s.Stored())
			require.Zero(t, s.Count(`SELECT count(*) FROM events WHERE state <> 'completed'`))
			require.Equal(t, 2, s.Count(`SELECT count(DISTINCT event_no) FROM actions WHERE verb = 'correct'`), "both events tell of it")
			require.Equal(t, 2, s.Clean().Applied)

			_, err = r.CorrectLetter(t.Context(), letters[0], why, repair.Options{})
			require.ErrorIs(t, err, repair.ErrConflict)
			s.Decide(pay("evt_1", "p1", "bank", wallet, "500"), pay(second, "p1", "bank", wallet, "900"))
			require.EqualValues(t, 900, s.Balance(wallet))
			require.Empty(t, s.Stored(), "both contents are known")
			require.Equal(t, 2, s.Clean().Duplicates)
		})
	}
}

// The standing event is replaced as a whole, also where the conflict is about
// another operation.
func TestAConflictAboutAnotherPayment(t *testing.T) {
	s := systemtest.New(t, stack, right)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "500"))
	s.Decide(pay("evt_1", "p9", "bank", wallet, "900"))
	done, err := repairer(s).CorrectLetter(t.Context(), s.Stored()[0], why, repair.Options{})
	require.NoError(t, err)
	require.Len(t, done.Reversed, 1)
	require.EqualValues(t, 900, s.Balance(wallet))
	require.Equal(t, 1, s.Count(`SELECT count(*) FROM operations`))
	s.Clean()
}

// forgetful is a broker that ends the process before it deletes a letter.
type forgetful struct{ jetstream.JetStream }

var errDied = errors.New("died here")

func (f forgetful) Stream(context.Context, string) (jetstream.Stream, error) { return nil, errDied }

func TestACorrectionDiesBeforeItsLetterIsDeleted(t *testing.T) {
	s := systemtest.New(t, stack, right)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "500"))
	s.Decide(pay("evt_1", "p1", "bank", wallet, "900"))
	r := repairer(s)
	r.JS = forgetful{s.JS}
	_, err := r.CorrectLetter(t.Context(), s.Stored()[0], why, repair.Options{})
	require.ErrorIs(t, err, errDied)
	require.EqualValues(t, 900, s.Balance(wallet))
	s.Clean()
	n, err := s.Letters.Tidy(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Empty(t, s.Stored())
	s.Clean()
}

func TestOnlyConflictsCanStand(t *testing.T) {
	s := systemtest.New(t, stack, systemtest.Wrong)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "500"))
	s.Rules(right)
	_, err := repairer(s).CorrectLetter(t.Context(), s.Stored()[0], why, repair.Options{})
	require.ErrorIs(t, err, repair.ErrConflict)
	require.Len(t, s.Stored(), 1)

	s = systemtest.New(t, stack, right)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "500"))
	s.Decide(pay("evt_1", "p1", "bank", wallet, "900"))
	l := s.Stored()[0]
	s.Rules(systemtest.Wrong)
	_, err = repairer(s).CorrectLetter(t.Context(), l, why, repair.Options{})
	require.ErrorIs(t, err, repair.ErrParked)
	s.Rules(right)
	_, err = s.Letters.Discard(t.Context(), []*dlq.Letter{l}, why)
	require.NoError(t, err)
	_, err = repairer(s).CorrectLetter(t.Context(), l, why, repair.Options{})
	require.ErrorIs(t, err, repair.ErrConflict)
	require.EqualValues(t, 500, s.Balance(wallet))
	s.Clean()
}

func TestReopenDecidesAnew(t *testing.T) {
	s := systemtest.New(t, stack, deaf)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "500"), pay("evt_2", "p2", "bank", wallet, "5"))
	require.Equal(t, dedupe.Ignored, s.Row("evt_1").Outcome)
	s.Rules(right)
	r := repairer(s)
	planned, err := r.Reopen(t.Context(), key("evt_1"), why, dry)
	require.NoError(t, err)
	require.Len(t, planned.Decision.Transfers, 1)
	require.Equal(t, dedupe.Completed, s.Row("evt_1").State)

	done, err := r.Reopen(t.Context(), key("evt_1"), why, repair.Options{})
	require.NoError(t, err)
	require.Equal(t, dedupe.Pending, done.Row.State)
	_, err = r.Reopen(t.Context(), key("evt_1"), why, repair.Options{})
	require.ErrorIs(t, err, dedupe.ErrState)
	s.Decide()
	require.Equal(t, dedupe.Applied, s.Row("evt_1").Outcome)
	require.Equal(t, dedupe.Ignored, s.Row("evt_2").Outcome)
	require.EqualValues(t, 500, s.Balance(wallet))
	s.Clean()

	_, err = r.Reopen(t.Context(), key("evt_1"), why, repair.Options{})
	require.ErrorIs(t, err, dedupe.ErrState, "money moved")
	_, err = r.Reopen(t.Context(), key("evt_none"), why, repair.Options{})
	require.ErrorIs(t, err, dedupe.ErrNoEvent)
}
