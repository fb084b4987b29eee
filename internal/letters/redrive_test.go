package letters_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

var steps = []string{
	"before it publishes",
	"before it hears that the message is stored",
	"before it records where the message lies",
	"before it deletes the letter",
	"after it deleted the letter",
}

// Whatever step a redrive dies at, and whether or not a worker gets to see what
// it left behind, repeating it ends in one outcome or one letter.
func TestRedriveDiesAtEachStep(t *testing.T) {
	dieAtEachStep(t, map[string]bool{"repeated at once": false, "a worker came between": true}, func(s *system, step string) {
		broken := letters.Store{Pool: s.Pool, JS: &dying{JetStream: s.JS, at: step}}
		results, err := broken.Redrive(s.T.Context(), s.Stored(), ada, nil)
		require.NoError(s.T, err)
		require.ErrorIs(s.T, results[0].Err, errDied)
		require.False(s.T, results[0].Done)
	})
}

// The same, where its process ends there.
func TestRedriveIsKilledAtEachStep(t *testing.T) {
	dieAtEachStep(t, map[string]bool{"a worker came between": true}, func(s *system, step string) { child(s, "redrive", step) })
}

func dieAtEachStep(t *testing.T, betweens map[string]bool, redrive func(s *system, step string)) {
	for _, step := range steps {
		for between, worked := range betweens {
			for end, rules := range map[string]string{"one outcome": right, "one letter": wrong} {
				t.Run(step+"/"+between+"/"+end, func(t *testing.T) {
					s := newSystem(t, wrong)
					s.Decide(payment("evt_1", "p1", "bank", "wallet:1", "5"))
					s.Rules(rules)
					redrive(s, step)
					require.Equal(t, dedupe.Pending, s.Row("evt_1").State)
					for _, standing := range s.Standings() {
						require.Equal(t, letters.Redriven, standing, "it is shown, and can be redriven")
					}
					if worked {
						s.Decide()
					}
					redriveLeft(s)
					s.Decide()
					_, err := s.Letters.Tidy(t.Context())
					require.NoError(t, err)

					row := s.Row("evt_1")
					if rules == right {
						require.Equal(t, dedupe.Applied, row.Outcome)
						require.Equal(t, 1, s.Transfers())
						require.Empty(t, s.Stored())
					} else {
						require.Equal(t, dedupe.Failed, row.State)
						require.Zero(t, s.Transfers())
						require.Equal(t, []letters.Standing{letters.Parked}, s.Standings())
						require.Equal(t, s.Stored()[0].Seq, row.DLQSeq)
					}
					s.Clean()
				})
			}
		}
	}
}

// redriveLeft repeats the redrive of the first letter, if it is still there and
// not one that was parked anew.
func redriveLeft(s *system) {
	s.T.Helper()
	for _, l := range s.Stored() {
		if l.Seq == 1 {
			s.Redrive(l)
		}
	}
}

func TestRedriveWhileAWorkerRuns(t *testing.T) {
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			s := newSystem(t, wrong)
			s.Decide(payment("evt_1", "p1", "bank", "wallet:1", "5"))
			s.Rules(right)
			s.Work()
			broken := letters.Store{Pool: s.Pool, JS: &dying{JetStream: s.JS, at: step}}
			_, err := broken.Redrive(t.Context(), s.Stored(), ada, nil)
			require.NoError(t, err)
			// The worker may be at the event just now; then the operator comes again.
			require.Eventually(t, func() bool {
				results, err := s.Letters.Redrive(t.Context(), s.Stored(), ada, nil)
				require.NoError(t, err)
				for _, r := range results {
					if r.Err != nil {
						require.ErrorIs(t, r.Err, letters.ErrBusy)
						return false
					}
				}
				return true
			}, time.Minute, 10*time.Millisecond)
			require.Eventually(t, func() bool { return s.Row("evt_1").State == dedupe.Completed }, time.Minute, 10*time.Millisecond)
			s.Settle()
			require.Equal(t, 1, s.Transfers())
			require.Empty(t, s.Stored())
			s.Clean()
		})
	}
}

func TestRedriveOfAConflict(t *testing.T) {
	s := newSystem(t, right)
	s.Decide(payment("evt_1", "p1", "bank", "wallet:1", "5"))
	s.Decide(payment("evt_1", "p1", "bank", "wallet:1", "6"))
	before := s.Stored()
	require.Len(t, before, 1)
	s.Redrive(before...)
	s.Decide()

	after := s.Stored()
	require.Len(t, after, 1)
	require.NotEqual(t, before[0].Seq, after[0].Seq)
	require.Equal(t, dlq.IDConflict, after[0].Reason)
	rows, err := dedupe.Find(t.Context(), s.Pool, "shop", "evt_1")
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, after[0].Variant, rows[1].Variant)
	require.Equal(t, 1, rows[1].Redrives)
	require.Equal(t, after[0].Seq, rows[1].DLQSeq)
	require.Equal(t, 1, s.Transfers())
	s.Clean()

	t.Run("one that today's rules find equal is no conflict any more", func(t *testing.T) {
		s.Rules(fixedAmount)
		s.Redrive(after...)
		s.Decide()
		require.Empty(t, s.Stored())
		require.Zero(t, s.Count(`SELECT count(*) FROM events WHERE state <> 'completed'`), "nothing waits for a message that will not come")
		require.Equal(t, 1, s.Transfers())
		s.Clean()
	})
}

func TestRedriveRenewsTheBudget(t *testing.T) {
	s := newSystem(t, right)
	s.Decide(payment("evt_1", "p1", "purse:1", "bank", "5"))
	for n := 1; n <= 2; n++ {
		row := s.Row("evt_1")
		require.Equal(t, string(dlq.InsufficientFunds), row.Reason)
		require.Equal(t, 3, row.Attempts)
		pgExec(t, s, `UPDATE events SET first_failed_at = now() - interval '59 minutes'`) // almost too old
		s.Redrive(s.Stored()...)
		row = s.Row("evt_1")
		require.Zero(t, row.Attempts)
		require.Zero(t, row.FailingFor)
		s.Decide()
		row = s.Row("evt_1")
		require.Equal(t, 3, row.Attempts, "it is tried three times again")
		require.Less(t, row.FailingFor, time.Minute)
		require.Equal(t, n, row.Redrives, "which is never reset")
		require.Len(t, s.Stored(), 1)
	}
	s.Clean()
}

func TestLettersThatCannotBeRedriven(t *testing.T) {
	s := newSystem(t, right)
	_, err := s.JS.Publish(t.Context(), "events.shop.paid", []byte("hello"))
	require.NoError(t, err)
	s.Decide()
	_, err = s.JS.PublishMsg(t.Context(), nats.NewMsg("dlq.of.strangers"))
	require.NoError(t, err)

	results, err := s.Letters.Redrive(t.Context(), s.Stored(), ada, nil)
	require.NoError(t, err)
	require.Len(t, results, 2)
	for _, r := range results {
		require.ErrorIs(t, r.Err, dlq.ErrNoEnvelope)
	}
	require.Len(t, s.Stored(), 2)
	require.Zero(t, s.Count(`SELECT count(*) FROM actions`))
}

// After a restore from an older backup, a letter's row may be missing.
func TestRedriveWithoutARow(t *testing.T) {
	s := newSystem(t, right)
	msg, err := payment("evt_1", "p1", "bank", "wallet:1", "5").Msg()
	require.NoError(t, err)
	_, err = dlq.Park(t.Context(), s.JS, dlq.Letter{Source: "shop", EventID: "evt_1", Reason: dlq.RuleError, Header: msg.Header, Data: msg.Data})
	require.NoError(t, err)
	require.Equal(t, []letters.Standing{letters.Orphaned}, s.Standings())
	s.Redrive(s.Stored()...)
	s.Decide()
	require.Equal(t, dedupe.Applied, s.Row("evt_1").Outcome)
	require.Empty(t, s.Stored())
	require.Equal(t, 1, s.Count(`SELECT count(*) FROM actions WHERE event_no IS NULL AND detail->>'event_id' = 'evt_1'`))
}
