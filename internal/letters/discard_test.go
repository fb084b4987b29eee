package letters_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// fixedAmount are rules by which the amount does not matter.
const fixedAmount = `
nats: {events_max_bytes: 256MiB, dlq_max_bytes: 64MiB}
sources:
  shop:
    provider: hmac
    secret: secret-of-the-shop
    hmac: {header: X-Signature, encoding: hex, algorithm: sha256}
    id: body:id
    type: body:type
    fingerprint: [payment]
    rules:
      - when: event.type == "paid"
        transfers:
          - {debit: body.from, credit: body.to, amount: '5', asset: body.asset, operation: 'op("payment", body.payment)'}
`

func pgExec(t *testing.T, s *system, statement string) {
	t.Helper()
	pgtest.Exec(t, s.URL, statement)
}

var bob = dedupe.Action{Actor: "bob", Note: "confirmed by the provider as a test"}

func TestDiscard(t *testing.T) {
	for _, step := range []string{
		"", "dies before it deletes the letter", "dies after it deleted the letter",
		"is killed before it deletes the letter", "is killed after it deleted the letter",
	} {
		t.Run(step, func(t *testing.T) {
			s := newSystem(t, right)
			s.Decide(payment("evt_1", "p1", "bank", "wallet:1", `"many"`))
			if at, ok := strings.CutPrefix(step, "is killed "); ok {
				child(s, "discard", at)
			} else if at, ok := strings.CutPrefix(step, "dies "); ok {
				broken := letters.Store{Pool: s.Pool, JS: &dying{JetStream: s.JS, at: at}}
				_, err := broken.Discard(t.Context(), s.Stored(), bob)
				require.ErrorIs(t, err, errDied)
			}
			_, err := s.Letters.Discard(t.Context(), s.Stored(), bob)
			require.NoError(t, err)

			require.Empty(t, s.Stored())
			require.Equal(t, dedupe.Discarded, s.Row("evt_1").State)
			done, err := dedupe.Actions(t.Context(), s.Pool, s.Row("evt_1").No)
			require.NoError(t, err)
			require.Len(t, done, 1, "it is done once")
			require.Equal(t, []string{"bob", "discard", bob.Note}, []string{done[0].Actor, string(done[0].Verb), done[0].Note})
			require.Equal(t, 1, s.Clean().Discarded)

			// A resend of what was given up is a duplicate.
			s.Decide(payment("evt_1", "p1", "bank", "wallet:1", `"many"`))
			sum := s.Clean()
			require.Equal(t, []int{1, 1}, []int{sum.Discarded, sum.Duplicates})

			// Case 31: a good body under its id is still decided, and the audit can
			// still tell what became of the other one.
			s.Decide(payment("evt_1", "p1", "bank", "wallet:1", "5"))
			require.Equal(t, dedupe.Applied, s.Row("evt_1").Outcome)
			require.Equal(t, 1, s.Clean().Applied)
		})
	}
}

func TestDiscardIsRefused(t *testing.T) {
	s := newSystem(t, wrong)
	s.Decide(payment("evt_1", "p1", "bank", "wallet:1", "5"))

	t.Run("without a note", func(t *testing.T) {
		_, err := s.Letters.Discard(t.Context(), s.Stored(), dedupe.Action{Actor: "bob"})
		require.ErrorContains(t, err, "a note is needed")
		require.Len(t, s.Stored(), 1)
		require.Equal(t, dedupe.Failed, s.Row("evt_1").State)
	})
	t.Run("while the event is on its way", func(t *testing.T) {
		broken := letters.Store{Pool: s.Pool, JS: &dying{JetStream: s.JS, at: "before it publishes"}}
		_, err := broken.Redrive(t.Context(), s.Stored(), ada, nil)
		require.NoError(t, err)
		results, err := s.Letters.Discard(t.Context(), s.Stored(), bob)
		require.NoError(t, err)
		require.ErrorIs(t, results[0].Err, letters.ErrBusy)
		require.Len(t, s.Stored(), 1)
		require.Equal(t, dedupe.Pending, s.Row("evt_1").State)
	})
}

// What Tidy deletes no longer explains its message; the audit must still know.
func TestTidy(t *testing.T) {
	s := newSystem(t, right)
	s.Decide(payment("evt_1", "p1", "bank", "wallet:1", `"many"`))
	s.Decide(payment("evt_1", "p1", "bank", "wallet:1", "5")) // takes the event over
	s.Decide(payment("evt_2", "p2", "bank", "wallet:1", `"few"`))
	repeat := *s.Stored()[1]
	for range 2 { // as workers do that die between storing a letter and recording it
		_, err := s.JS.PublishMsg(t.Context(), letterMsg(t, s, repeat.Seq))
		require.NoError(t, err)
	}
	require.Equal(t, []letters.Standing{letters.Stale, letters.Parked, letters.Stale, letters.Stale}, s.Standings())
	require.Equal(t, 2, s.Clean().Parked)

	child(s, "tidy", "before it deletes the letter") // what it has noted, it notes again
	require.Equal(t, 2, s.Clean().Parked)
	child(s, "tidy", "after it deleted the letter")
	require.Equal(t, 2, s.Clean().Parked)
	_, err := s.Letters.Tidy(t.Context())
	require.NoError(t, err)
	require.Equal(t, []letters.Standing{letters.Parked}, s.Standings())
	sum := s.Clean()
	require.Equal(t, []int{2, 1, 0}, []int{sum.Parked, sum.Applied, sum.Unaccounted})

	n, err := s.Letters.Tidy(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestMoveBounds(t *testing.T) {
	s := newSystem(t, right)
	t.Run("nothing is moved without letters", func(t *testing.T) {
		results, err := s.Letters.Redrive(t.Context(), nil, ada, nil)
		require.NoError(t, err)
		require.Empty(t, results)
		n, err := s.Letters.Tidy(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
	})
	t.Run("letters of one event go one at a time", func(t *testing.T) {
		s.Rules(wrong)
		s.Decide(payment("evt_1", "p1", "bank", "wallet:1", "5"))
		first := s.Stored()[0]
		pgExec(t, s, `UPDATE events SET dlq_seq = NULL`) // stored, and not recorded yet
		_, err := s.JS.PublishMsg(t.Context(), letterMsg(t, s, first.Seq))
		require.NoError(t, err)
		results, err := s.Letters.Redrive(t.Context(), s.Stored(), ada, nil)
		require.NoError(t, err)
		require.True(t, results[0].Done)
		require.ErrorIs(t, results[1].Err, letters.ErrRepeated)
		require.Equal(t, 1, s.Row("evt_1").Redrives)
	})
	t.Run("a page is bounded", func(t *testing.T) {
		many := s.Stored()
		for len(many) <= letters.Page {
			many = append(many, many[0])
		}
		_, err := s.Letters.Redrive(t.Context(), many, ada, nil)
		require.ErrorContains(t, err, fmt.Sprint(letters.Page))
	})
}
