package repair_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/repair"
	"github.com/onceledger/onceledger/internal/review"
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
			again := pay(second, "p1", "bank", wallet, "900")
			again.Data = []byte(strings.TrimSuffix(string(again.Data), "}") + `,"pending_webhooks":2}`)
			s.Decide(again)
			require.Empty(t, s.Stored(), "other bytes of the same meaning are known, too")
			require.Equal(t, 3, s.Clean().Duplicates)
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

// Of any number of contents under one id, the last one that was let stand is the
// one that counts, and the one that is corrected from then on.
func TestTheLastContentStands(t *testing.T) {
	s := systemtest.New(t, stack, right)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "100"))
	s.Decide(pay("evt_1", "p2", "bank", wallet, "200"))
	s.Decide(pay("evt_1", "p3", "bank", wallet, "400"))
	letters := s.Stored()
	require.Len(t, letters, 2)
	for i, want := range []int64{200, 400} {
		_, err := repairer(s).CorrectLetter(t.Context(), letters[i], why, repair.Options{})
		require.NoError(t, err)
		require.Equal(t, want, s.Balance(wallet))
		require.Equal(t, 1, s.Count(`SELECT count(*) FROM operations`))
		require.False(t, correct(t, s, "evt_1").Changed(), "it stands as today's rules have it")
		require.Empty(t, differences(t, s))
		s.Clean()
	}
	s.Rules(bad)
	found := differences(t, s)
	require.Len(t, found, 1)
	require.Equal(t, uint64(3), found[0].Seq)
	require.True(t, correct(t, s, "evt_1").Changed())
	require.Zero(t, s.Balance(wallet))
	require.EqualValues(t, 400, s.Balance("house"))
	require.Empty(t, differences(t, s))

	s.Decide(pay("evt_1", "p1", "bank", wallet, "100"), pay("evt_1", "p2", "bank", wallet, "200"), pay("evt_1", "p3", "bank", wallet, "400"))
	require.EqualValues(t, 400, s.Balance("house"), "all of them are known")
	require.Equal(t, 3, s.Clean().Duplicates)
}

// Of two events that report one operation, the one that was let stand is the one
// that counts, whatever the rules call the operation later.
func TestAReplacedEventStaysReplaced(t *testing.T) {
	s := systemtest.New(t, stack, right)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "100"))
	s.Decide(pay("evt_2", "p1", "bank", wallet, "150"))
	_, err := repairer(s).CorrectLetter(t.Context(), s.Stored()[0], why, repair.Options{})
	require.NoError(t, err)
	require.Empty(t, differences(t, s))
	s.Rules(strings.Replace(right, `op("payment"`, `op("renamed"`, 1))
	found := differences(t, s)
	require.Len(t, found, 1)
	require.Equal(t, "evt_2", found[0].Row.ID)
	_, err = repairer(s).Correct(t.Context(), key("evt_1"), why, repair.Options{})
	require.ErrorIs(t, err, repair.ErrReplaced)
	correct(t, s, "evt_2")
	require.EqualValues(t, 150, s.Balance(wallet))
	require.Empty(t, differences(t, s))
	s.Clean()
}

// What stands in place of an ignored event keeps that from being opened.
func TestAReplacedEventIsNotReopened(t *testing.T) {
	s := systemtest.New(t, stack, deaf)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "100"))
	s.Decide(pay("evt_1", "p1", "bank", wallet, "150"))
	s.Rules(right)
	_, err := repairer(s).CorrectLetter(t.Context(), s.Stored()[0], why, repair.Options{})
	require.NoError(t, err)
	require.Empty(t, differences(t, s))
	_, err = repairer(s).Reopen(t.Context(), key("evt_1"), why, repair.Options{})
	require.ErrorIs(t, err, repair.ErrReplaced)
	require.EqualValues(t, 150, s.Balance(wallet))
	s.Clean()
}

// A conflict whose money is all there already has nothing to stand for.
func TestAConflictThatPostsNothing(t *testing.T) {
	s := systemtest.New(t, stack, right)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "100"), pay("evt_2", "p2", "bank", wallet, "200"))
	s.Decide(pay("evt_1", "p2", "bank", wallet, "200"))
	_, err := repairer(s).CorrectLetter(t.Context(), s.Stored()[0], why, repair.Options{})
	require.ErrorIs(t, err, repair.ErrNothing)
	require.EqualValues(t, 300, s.Balance(wallet))
	require.Len(t, s.Stored(), 1)
	s.Clean()
}

func TestWhatWaitedForAParentIsCompared(t *testing.T) {
	child := strings.Replace(right, `operation: 'op("payment", body.payment)'`, `operation: 'op("refund", body.id)', parent: 'op("payment", body.payment)'`, 1)
	require.NotEqual(t, right, child)
	s := systemtest.New(t, stack, child)
	s.Decide(pay("evt_1", "p1", "bank", wallet, "100"))
	require.Equal(t, string(dlq.MissingParent), s.Row("evt_1").Reason)
	require.Empty(t, differences(t, s), "it would be parked again")
	s.Rules(right)
	found := differences(t, s)
	require.Len(t, found, 1)
	require.Equal(t, review.WouldApply, found[0].Kind)
	s.Redrive(s.Stored()...)
	s.Decide()
	require.Empty(t, differences(t, s))
	s.Decide(pay("evt_0", "p9", "bank", wallet, "100"))
	s.Rules(child)
	s.Decide(pay("evt_2", "p9", "bank", wallet, "7"))
	require.Equal(t, dedupe.Applied, s.Row("evt_2").Outcome, "its parent is there")
	s.Clean()
}

// differences are what today's rules would treat in another way.
func differences(t *testing.T, s *systemtest.System) (list []*review.Difference) {
	t.Helper()
	_, err := review.Each(t.Context(), review.Options{JS: s.JS, Pool: s.Pool, Catalog: s.Catalog}, func(d *review.Difference) error {
		list = append(list, d)
		return nil
	})
	require.NoError(t, err)
	return list
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
