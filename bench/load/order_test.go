package load

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/bench/traffic"
)

// all is everything a plan sends.
func all(plan Plan) []delivery {
	var found []delivery
	for o := newOrder(plan); ; {
		d, ok := o.next()
		if !ok {
			return found
		}
		found = append(found, d)
	}
}

func TestDeliveriesAreDueAtTheRateAndAtRandomTimes(t *testing.T) {
	t.Parallel()
	plan := Plan{Rate: 2000, WarmUp: 5 * time.Second, Measure: 15 * time.Second}
	due := all(plan)
	require.InEpsilon(t, 40_000, len(due), 0.02)
	var gaps, squares float64
	for i := range due {
		require.Equal(t, i, due[i].event)
		require.False(t, due[i].conflict)
		if i == 0 {
			continue
		}
		gap := (due[i].due - due[i-1].due).Seconds()
		require.GreaterOrEqual(t, gap, 0.0)
		gaps += gap
		squares += gap * gap
	}
	mean := gaps / float64(len(due)-1)
	require.InEpsilon(t, 1.0/2000, mean, 0.02)
	// Of an exponential distribution the variance is the square of the mean.
	require.InEpsilon(t, 2*mean*mean, squares/float64(len(due)-1), 0.05)
	require.Equal(t, due, all(plan), "not the same for the same plan")
}

func TestResendsAndConflictsHaveTheirSharesAndRepeatWhatIsRecent(t *testing.T) {
	t.Parallel()
	seen, resends, conflicts := 0, 0, 0
	due := all(Plan{Rate: 10_000, Measure: 3 * time.Second, Resends: 0.5, Conflicts: 0.1})
	for _, d := range due {
		if d.event == seen && !d.conflict {
			seen++
			continue
		}
		require.Less(t, d.event, seen)
		require.Less(t, seen-d.event, recent+1)
		if d.conflict {
			conflicts++
		} else {
			resends++
		}
	}
	require.InEpsilon(t, 0.5, float64(resends)/float64(len(due)), 0.05)
	require.InEpsilon(t, 0.1, float64(conflicts)/float64(len(due)), 0.1)
}

func TestTallyKnowsWhatALedgerMustHold(t *testing.T) {
	t.Parallel()
	var seen tally
	for _, d := range []delivery{
		{event: 5}, {event: 5}, // sent again
		{event: 1}, {event: 1, conflict: true}, {event: 1, conflict: true}, // one stands
		{event: 8999, conflict: true}, // the charge itself was refused
	} {
		seen.add(d)
	}
	stands := traffic.Amount(5) + traffic.ConflictAmount(8999)
	require.Equal(t, Events{
		Applied: 3, Conflicts: 1, Least: stands + traffic.Amount(1), Most: stands + traffic.ConflictAmount(1),
	}, seen.sum())
}

// stalling answers nothing until it has been asked for as long as stall, and then
// at once.
func stalling(t *testing.T, stall time.Duration) *httptest.Server {
	var first sync.Once
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		first.Do(func() { time.AfterFunc(stall, func() { close(over) }) })
		<-over
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(server.Close)
	return server
}

func unsigned([]byte, time.Time) (http.Header, error) { return nil, nil }

// With four connections a closed loop would see a stall in four requests. Here
// every delivery that was due meanwhile has waited for its end.
func TestAStallIsSeenByAllThatWereDueMeanwhile(t *testing.T) {
	t.Parallel()
	const stall = 400 * time.Millisecond
	plan := Plan{URL: stalling(t, stall).URL + "/", Tag: "t", Senders: 4, Rate: 500, Measure: time.Second}
	due := all(plan)
	got, err := sendSigned(t.Context(), plan, unsigned)
	require.NoError(t, err)
	require.Equal(t, len(due), got.Accepted)
	require.Equal(t, len(due), got.Measured)
	require.Equal(t, len(due), got.Events.Applied)
	require.EqualValues(t, len(due), got.Latency.TotalCount())
	require.Zero(t, got.Failed()+got.Unsent)

	early := 0 // due in the first half of the stall
	for _, d := range due {
		if d.due < stall/2 {
			early++
		}
	}
	require.Greater(t, early, 50)
	slow := 0
	for _, bar := range got.Latency.Distribution() {
		if bar.From >= (stall/2).Microseconds()*99/100 { // a bar is wide
			slow += int(bar.Count)
		}
	}
	require.GreaterOrEqual(t, slow, early)
	acked := 0
	for _, n := range got.Acks {
		acked += n
	}
	require.Equal(t, got.Accepted, acked)
	require.False(t, got.Last.Before(got.From.Add(stall)))
}

func TestAClosedLoopWaitsForAnswers(t *testing.T) {
	t.Parallel()
	const stall = 300 * time.Millisecond
	plan := Plan{URL: stalling(t, stall).URL + "/", Tag: "t", Senders: 4, Measure: stall / 2, Resends: 0.5}
	got, err := sendSigned(t.Context(), plan, unsigned)
	require.NoError(t, err)
	require.Equal(t, 4, got.Accepted)
	require.Zero(t, got.Measured, "they were answered after the measured time")
	require.Less(t, got.Events.Applied, 5)
}

func TestWhatFindsNoConnectionIsCountedWithItsWait(t *testing.T) {
	t.Parallel()
	r := &run{plan: Plan{Rate: 1}, from: time.Now().Add(-time.Minute), result: Result{Latency: NewHistogram()}}
	r.giveUp(time.Now().Add(-20 * time.Second))
	require.Equal(t, 1, r.result.Unsent)
	require.InEpsilon(t, 20_000_000, r.result.Latency.Max(), 0.01)
	require.Zero(t, r.result.Measured)
}
