package keeper_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/keeper"
	"github.com/onceledger/onceledger/internal/resend"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// replay sends again by hand what is missing, and returns how many copies it
// sent. Between its look at a page and what it does about it, it calls meanwhile.
func (s *system) replay(meanwhile func()) (sent int, err error) {
	survey, err := audit.NewSurvey(s.t.Context(), audit.Options{JS: s.js, Pool: s.owner, Meaning: audit.Meaning(s.cat), Grace: time.Nanosecond})
	if err != nil {
		return 0, err
	}
	events, err := s.js.Stream(s.t.Context(), stream.Events)
	if err != nil {
		return 0, err
	}
	r := &resend.Replay{
		Sender: &resend.Sender{Pool: s.owner, JS: s.js, Events: events, Stream: survey.Stream(), Actor: "ada", Verb: dedupe.VerbReplay},
		Survey: survey, From: 1, To: survey.Stream().Last, Grace: time.Second,
	}
	err = r.Each(s.t.Context(), func(page []resend.Planned) error {
		var missing []resend.Planned
		for _, p := range page {
			if p.Plan == resend.Send || p.Plan == resend.Park {
				missing = append(missing, p)
			}
		}
		meanwhile()
		results, err := r.Do(s.t.Context(), missing)
		for _, result := range results {
			if result.Sent != 0 {
				sent++
			} else if !errors.Is(result.Err, resend.ErrElsewhere) {
				return errors.Join(err, result.Err)
			}
		}
		return err
	})
	return sent, err
}

// TestReplayLooksAgain has everything that is missing come back between the look
// and the claim.
func TestReplayLooksAgain(t *testing.T) {
	s := newSystem(t, "64MiB")
	s.decide(payment("evt_1", "p1", "500"))
	s.exec(takeAway("evt_1")...)
	sent, err := s.replay(func() { s.decide(payment("evt_1", "p1", "500")) })
	require.NoError(t, err)
	require.Zero(t, sent)
	require.Zero(t, one[int](s, `SELECT count(*)::int FROM audit_copies`), "nothing stays claimed")
	require.EqualValues(t, 2, s.last())
	s.full()
}

// TestSweepAndReplayAtOnce lets the keeper and two people repair one loss at the
// same time, while nobody answers the copies and while somebody does.
func TestSweepAndReplayAtOnce(t *testing.T) {
	const n = 1500
	for _, working := range []bool{false, true} {
		t.Run(fmt.Sprintf("workers %v", working), func(t *testing.T) {
			s := newSystem(t, "64MiB")
			stop := s.work()
			for i := range n {
				s.publish(payment(fmt.Sprintf("evt_%d", i), fmt.Sprint(i), "10"))
			}
			s.publish(payment("evt_0", "0", "10"))
			s.settle()
			stop()
			s.exec(`DELETE FROM events`, `DELETE FROM transfers`, `DELETE FROM operations`, `DELETE FROM accounts`,
				`DELETE FROM audit_balances`, `DELETE FROM audit_open`, oldMark)

			k := s.keep(func(o *keeper.Options) { o.Config.Interval = time.Millisecond })
			var group errgroup.Group
			sent := make([]int, 2)
			if working {
				s.work()
			}
			for i := range sent {
				group.Go(func() (err error) {
					sent[i], err = s.replay(func() {})
					return err
				})
			}
			require.NoError(t, group.Wait())
			swept := func() int { return int(max(0, k.metric("sweep_repairs_total", "lost"))) }
			require.Eventually(t, func() bool { return s.last() >= 2*n+1 }, 60*time.Second, 5*time.Millisecond)
			if !working {
				for range 3 {
					k.until("another round", func(r round) bool { return r.err == nil })
				}
				s.work()
			}
			s.settle()
			k.clean()
			require.EqualValues(t, 2*n+1, s.last(), "each event is sent once, by %v and the sweep %d", sent, swept())
			require.Equal(t, n, sent[0]+sent[1]+swept())
			require.Equal(t, n, one[int](s, `SELECT count(*)::int FROM transfers`), "each event is applied once")
			require.Equal(t, 10*n, one[int](s, `SELECT credits_posted::int FROM accounts WHERE name = 'purse:a'`))
			require.Eventually(t, func() bool { return one[int](s, `SELECT count(*)::int FROM audit_copies`) == 0 },
				20*time.Second, 5*time.Millisecond, "nothing is remembered that nobody needs")
			s.full()
		})
	}
}
