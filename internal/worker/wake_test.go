package worker

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// sleeping is a system whose events wait for longer than any test lasts. A delay is
// uniform from nothing on, so that the longest one that a file may ask for is too
// short: of a hundred events one would wait for seconds.
func sleeping(t *testing.T, yaml string) *system {
	t.Helper()
	s := newSystem(t, yaml)
	retry := &s.cat.Sources["shop"].Retry
	retry.Base, retry.Cap = 10_000*time.Hour, 10_000*time.Hour
	return s
}

// noted counts the notes of events that wait for an operation.
func (s *system) noted() int { return s.count(`SELECT count(*) FROM waiting`) }

func tried(w *worker) float64 { return testutil.ToFloat64(w.metrics.woken.WithLabelValues(wokenTried)) }

// Case 25, with a parent that comes in a later batch, at another worker.
func TestChildIsTriedWhenItsParentCommits(t *testing.T) {
	s := sleeping(t, patient)
	stop := s.start()
	s.publish(refund("evt_undo", "r2", "r1", 100), refund("evt_refund", "r1", "p1", 400))
	for _, id := range []string{"evt_undo", "evt_refund"} {
		require.Equal(t, string(dlq.MissingParent), s.decided(id, dedupe.Pending).Reason)
	}
	require.Equal(t, 2, s.noted())
	stop()

	var other *worker
	s.start(func(w *worker) { other = w })
	s.publish(payment("evt_payment", "p1", "bank", "wallet:1", 1000))
	for _, id := range []string{"evt_refund", "evt_undo"} { // whose parent is the refund
		row := s.decided(id, dedupe.Completed)
		require.Equal(t, dedupe.Applied, row.Outcome)
		require.Equal(t, 1, row.Attempts, "that which failed")
	}
	require.EqualValues(t, 500, s.balance("wallet:1"))
	require.Zero(t, s.noted())
	require.InDelta(t, 2, tried(other), 0)

	// The deliveries that waited, and any copy, are duplicates.
	s.publish(refund("evt_refund", "r1", "p1", 400))
	s.eventually(func() bool {
		return testutil.ToFloat64(other.metrics.deliveries.WithLabelValues("shop", outcomeDuplicate)) == 1
	}, "the copy is answered")
	require.Equal(t, 5, s.transfers())
	require.Empty(t, s.letters())
}

// Between the child's look for its parent and its own commit the parent is posted
// by somebody else, who finds nobody waiting.
func TestParentCommitsWhileItsChildIsPutOff(t *testing.T) {
	for !parentCommitsMeanwhile(t) {
		t.Log("it took longer than the server lets a transaction idle: once more")
	}
}

// parentCommitsMeanwhile reports whether the child's transaction was still there when
// its parent had committed.
func parentCommitsMeanwhile(t *testing.T) bool {
	s := sleeping(t, patient)
	looked, parentDone := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(parentDone) })
	defer goOn()
	var blocked atomic.Bool
	var w *worker
	stop := s.start(func(started *worker) {
		w = started
		w.between = func() {
			if blocked.CompareAndSwap(false, true) {
				close(looked)
				<-parentDone
			}
		}
	})
	s.publish(refund("evt_refund", "r1", "p1", 400))
	<-looked
	s.publish(payment("evt_payment", "p1", "bank", "wallet:1", 1000)) // for the other loop
	s.decided("evt_payment", dedupe.Completed)
	require.Nil(t, s.row("evt_refund"), "the child has committed nothing")
	require.Zero(t, s.noted())
	require.Zero(t, tried(w))
	goOn()

	row := s.decided("evt_refund", dedupe.Completed)
	if s.logged("postgres is unavailable") > 0 {
		stop()
		return false
	}
	require.Equal(t, 1, row.Attempts, "it was put off, and woken by its own look")
	require.InDelta(t, 1, tried(w), 0)
	require.EqualValues(t, 600, s.balance("wallet:1"))
	require.Zero(t, s.noted())
	return true
}

// A worker dies after the parent's commit, before it tries the child: the child's
// own delivery is still there.
func TestWorkerThatDiesBeforeItWakes(t *testing.T) {
	s := sleeping(t, patient)
	stop := s.start()
	s.publish(refund("evt_refund", "r1", "p1", 400))
	s.decided("evt_refund", dedupe.Pending)
	stop()
	cmd := s.child("waking")
	s.publish(payment("evt_payment", "p1", "bank", "wallet:1", 1000))
	var ended *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &ended)
	require.Equal(t, 137, ended.ExitCode())
	require.Equal(t, dedupe.Completed, s.row("evt_payment").State)
	require.Equal(t, dedupe.Pending, s.row("evt_refund").State)
	require.Zero(t, s.noted(), "nobody will wake it any more")

	// Its delay is over.
	_, err := s.pool.Exec(t.Context(), `UPDATE events SET next_try_at = now() WHERE state = 'pending'`)
	require.NoError(t, err)
	require.NoError(t, s.js.DeleteConsumer(t.Context(), stream.Events, stream.Consumer))
	s.start()
	require.Equal(t, dedupe.Applied, s.decided("evt_refund", dedupe.Completed).Outcome)
	s.settled()
	require.EqualValues(t, 600, s.balance("wallet:1"))
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE crashes > 0`))
}

// What is woken and refused again waits again, and what is parked then has its
// letter, though no delivery was there.
func TestWokenForNothing(t *testing.T) {
	s := sleeping(t, patient)
	s.start()
	s.apply(payment("evt_fee", "p0", "other", "fees", 1))
	s.setState("fees", ledger.StateFrozen)
	s.publish(refund("evt_fee_due", "r1", "p1", 200), refund("evt_other", "r2", "p2", 1))
	s.decided("evt_fee_due", dedupe.Pending)
	s.decided("evt_other", dedupe.Pending)
	s.publish(payment("evt_payment", "p1", "bank", "wallet:1", 500))
	row := s.decided("evt_fee_due", dedupe.Failed)
	require.Equal(t, string(dlq.AccountFrozen), row.Reason)
	s.eventually(func() bool { return len(s.letters()) == 1 }, "its letter is stored")
	s.eventually(func() bool { return s.row("evt_fee_due").DLQSeq != 0 }, "and recorded")
	require.Equal(t, refund("evt_fee_due", "r1", "p1", 200).Data, s.letters()[0].Data)
	require.Equal(t, 1, s.noted(), "another parent's child still waits")
	require.EqualValues(t, 500, s.balance("wallet:1"))
}

// A capture waits for its hold as a refund for its payment.
func TestCaptureIsTriedWhenItsHoldCommits(t *testing.T) {
	s := sleeping(t, patientDesk)
	s.start()
	s.fund(100)
	s.publish(deal("captured", "evt_capture", "c1", "h1", 20, ""))
	require.Equal(t, string(dlq.MissingParent), s.decided("evt_capture", dedupe.Pending).Reason)
	require.Equal(t, 1, s.noted())
	s.publish(deal("authorised", "evt_hold", "h1", "", 60, ""))
	require.Equal(t, dedupe.Applied, s.decided("evt_capture", dedupe.Completed).Outcome)
	require.EqualValues(t, 80, s.balance("purse:1"))
	require.Equal(t, 40, s.held("purse:1"))
	require.Zero(t, s.noted())
}

// What is given up leaves no note.
func TestParkedChildWaitsNoLonger(t *testing.T) {
	s := newSystem(t, family)
	s.start()
	s.publish(refund("evt_refund", "r1", "p1", 400))
	row := s.decided("evt_refund", dedupe.Failed)
	require.Equal(t, 3, row.Attempts, "it has waited twice")
	require.Zero(t, s.noted())
}

// Many children of many parents: each is tried once more, when its parent has come.
// The times are what that saves beside a delay of 0 to 2 s.
func TestManyChildrenAreTriedAtOnce(t *testing.T) {
	const families = 100
	run := func(t *testing.T, s *system, adjust func(*worker)) *system {
		s.start(adjust)
		for n := range families {
			s.publish(refund(fmt.Sprint("evt_r", n), fmt.Sprint("r", n), fmt.Sprint("p", n), 10))
		}
		// Those whose delay is short are tried again and again, and not pending meanwhile.
		s.eventually(func() bool { return s.count(`SELECT count(*) FROM events WHERE attempts > 0`) == families }, "they wait")
		for n := range families {
			s.publish(payment(fmt.Sprint("evt_p", n), fmt.Sprint("p", n), "bank", "wallet:1", 100))
		}
		s.eventually(func() bool { return s.count(`SELECT count(*) FROM events WHERE state = 'completed'`) == 2*families }, "all is decided")
		require.EqualValues(t, 90*families, s.balance("wallet:1"))
		require.Equal(t, 3*families, s.transfers())
		var least, median, most float64
		require.NoError(t, s.pool.QueryRow(t.Context(), `
			SELECT min(took), percentile_cont(0.5) WITHIN GROUP (ORDER BY took), max(took)
			FROM (
				SELECT EXTRACT(epoch FROM child.decided_at - parent.decided_at)::float8
				FROM events child
				JOIN events parent ON parent.event_id = replace(child.event_id, 'evt_r', 'evt_p')
				WHERE child.event_id LIKE 'evt_r%') AS waits (took)`).Scan(&least, &median, &most))
		t.Logf("from the parent's transaction to the child's: %.3f s at least, %.3f s in the median, %.3f s at most", least, median, most)
		return s
	}
	t.Run("by their delay", func(t *testing.T) {
		yaml := strings.NewReplacer("base: 50ms", "base: 2s", "cap: 100ms", "cap: 2s").Replace(patient)
		run(t, newSystem(t, yaml), func(w *worker) { w.woken = nil }).settled() // nobody takes them
	})
	t.Run("at once", func(t *testing.T) {
		var w *worker
		s := run(t, sleeping(t, patient), func(started *worker) { w = started })
		require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 1`))
		require.InDelta(t, families, tried(w), 0)
		require.Zero(t, s.noted())
	})
}
