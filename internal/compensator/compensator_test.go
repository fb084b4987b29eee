package compensator_test

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/compensator"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// soon is the wait of these tests; ages are set instead.
const soon = time.Hour

func (s *system) job(adjust ...func(*compensator.Options)) *compensator.Compensator {
	s.T.Helper()
	s.metrics = prometheus.NewRegistry()
	o := compensator.Options{
		Pool: s.Pool, JS: s.JS, Log: zerolog.Nop(), Registry: s.metrics, FirstWait: soon, TidyEvery: time.Nanosecond,
	}
	for _, f := range adjust {
		f(&o)
	}
	return compensator.New(o)
}

// exposes compares the value of a metric of the last job.
func (s *system) exposes(line string) {
	s.T.Helper()
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(s.metrics, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/", nil))
	require.Contains(s.T, recorder.Body.String(), "onceledger_compensator_"+line+"\n")
}

// run is a pass, and a worker that decides what it sent.
func (s *system) run(c *compensator.Compensator) {
	s.T.Helper()
	require.NoError(s.T, c.Run(s.T.Context()))
	s.Decide()
}

// age lets all that is parked or was done lie longer.
func (s *system) age(by time.Duration) {
	s.T.Helper()
	s.exec(`UPDATE events SET decided_at = decided_at - $1 * interval '1 second'`, by)
	s.exec(`UPDATE actions SET at = at - $1 * interval '1 second'`, by)
}

func TestCanaryGoesFirst(t *testing.T) {
	s := newSystem(t, wrong)
	s.Decide(payments(5)...)
	c := s.job()
	s.run(c)
	require.Zero(t, s.redrives(), "they have not lain long enough")

	s.age(soon)
	s.run(c)
	require.Equal(t, 1, s.redrives(), "one of the group goes")
	require.Equal(t, 5, s.state(dedupe.Failed), "in vain")
	s.run(c)
	require.Equal(t, 1, s.redrives(), "and nobody follows")
	s.exposes(`canaries_failed{reason="amount_missing",source="shop"} 1`)
	s.exposes(`redriven_total{reason="amount_missing",source="shop"} 1`)

	t.Run("after a longer wait another one", func(t *testing.T) {
		s.age(3 * soon)
		s.run(c)
		require.Equal(t, 1, s.redrives())
		s.age(soon)
		s.run(c)
		require.Equal(t, 2, s.redrives())
		require.Equal(t, 2, s.Count(`SELECT count(*) FROM events WHERE redrives = 1`), "not the one that failed")
	})
	t.Run("once the cause is mended the rest follows the next one", func(t *testing.T) {
		s.Rules(right)
		s.age(16 * soon)
		s.run(c)
		require.Equal(t, 3, s.redrives())
		require.Equal(t, 1, s.state(dedupe.Completed))
		s.run(s.job()) // as another process, which knows nothing but what is stored
		require.Equal(t, 5, s.state(dedupe.Completed))
		require.Equal(t, 5, s.Transfers())
		require.Empty(t, s.Stored())
		require.Equal(t, s.redrives(), s.Count(`SELECT count(*) FROM actions WHERE verb = 'compensate' AND actor = 'compensator'`))
		s.Clean()
	})
	t.Run("what is parked later needs a canary of its own", func(t *testing.T) {
		s.Rules(wrong)
		s.Decide(payment("evt_8"), payment("evt_9"))
		s.age(soon)
		before := s.redrives()
		s.run(s.job())
		s.run(s.job())
		require.Equal(t, before+1, s.redrives())
		require.Equal(t, 2, s.state(dedupe.Failed))
	})
}

func TestCanaryThatWaitsHoldsItsGroupBack(t *testing.T) {
	s := newSystem(t, wrong)
	s.Decide(payments(3)...)
	s.age(soon)
	c := s.job()
	require.NoError(t, c.Run(t.Context())) // no worker decides it
	require.Equal(t, 1, s.state(dedupe.Pending))
	s.exec(`UPDATE events SET decided_at = decided_at - $1 * interval '1 second'`, 100*soon)
	require.NoError(t, c.Run(t.Context()))
	require.Equal(t, 1, s.redrives())
	s.age(compensator.CanaryLimit)
	require.NoError(t, c.Run(t.Context()))
	require.Equal(t, 2, s.redrives(), "not for ever")
}

func TestGroupsDoNotWaitForEachOther(t *testing.T) {
	s := newSystem(t, wrong)
	s.Decide(payment("evt_1"), payment("evt_2"), event("evt_3", `{"id":"evt_3","type":"paid","total":"x","payment":"p3","from":"a","to":"b","asset":"EUR"}`))
	s.age(soon)
	s.run(s.job())
	require.Equal(t, 1, s.Row("evt_3").Redrives, "another reason")
	require.Equal(t, 2, s.redrives())
}

// Nobody but a person ends these: the same bytes meet the same answer.
func TestWhatIsLeftToPeople(t *testing.T) {
	s := newSystem(t, right)
	s.Decide(event("evt_1", `{"id":`), payment("evt_2"))
	s.Decide(event("evt_2", `{"id":"evt_2","type":"paid","payment":"evt_2","from":"bank","to":"wallet:1","amount":9,"asset":"EUR"}`)) // a conflict
	s.Rules(wrong)
	s.Decide(payment("evt_3"))
	s.exec(`UPDATE events SET redrives = $1 WHERE event_id = 'evt_3'`, compensator.Budget)
	s.age(1000 * soon)
	require.Len(t, s.Stored(), 3)
	s.run(s.job())
	require.Zero(t, s.Count(`SELECT count(*) FROM actions`))
	require.Len(t, s.Stored(), 3)

	s.exec(`UPDATE events SET redrives = $1 WHERE event_id = 'evt_3'`, compensator.Budget-1)
	t.Run("everything, where it is off", func(t *testing.T) {
		s.run(s.job(func(o *compensator.Options) { o.Off = true }))
		require.Zero(t, s.Count(`SELECT count(*) FROM actions`))
	})
	s.run(s.job())
	require.Equal(t, compensator.Budget, s.Row("evt_3").Redrives)
	s.age(1000 * soon)
	s.run(s.job())
	require.Equal(t, compensator.Budget, s.Row("evt_3").Redrives, "its budget is spent for good")
}

func TestStaleLettersAreDeleted(t *testing.T) {
	s := newSystem(t, wrong)
	s.Decide(payment("evt_1"))
	s.Rules(right)
	s.Decide(event("evt_1", `{"id":"evt_1","type":"paid","payment":"evt_1","from":"bank","to":"wallet:1","amount":6,"asset":"EUR"}`))
	require.Len(t, s.Stored(), 1)
	c := s.job(func(o *compensator.Options) { o.Off = true })
	s.run(c)
	require.Empty(t, s.Stored())
	s.exposes("stale_letters_deleted_total 1")
	s.Clean()
}

func TestManyOfAGroup(t *testing.T) {
	const many = 250 // some pages
	s := newSystem(t, wrong)
	s.Decide(payments(many)...)
	s.Rules(right)
	s.age(soon)
	s.run(s.job())
	s.run(s.job())
	require.Equal(t, many, s.state(dedupe.Completed))
	require.Equal(t, many, s.redrives())
}

func TestPause(t *testing.T) {
	t.Parallel()
	for failed, want := range []time.Duration{10 * time.Minute, 40 * time.Minute, 160 * time.Minute, 640 * time.Minute, compensator.MostWait, compensator.MostWait} {
		require.Equal(t, want, compensator.Pause(compensator.FirstWait, failed), fmt.Sprint(failed))
	}
	require.Equal(t, compensator.MostWait, compensator.Pause(compensator.FirstWait, 1_000_000))
}
