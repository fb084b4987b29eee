package worker

import (
	"fmt"
	"os/exec"
	"slices"
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
)

// sleepy is family with delays that no test outlasts, but for one in thousands.
var sleepy = strings.NewReplacer("base: 50ms", "base: 1h", "cap: 100ms", "cap: 24h").Replace(patient)

// noted counts the notes of events that wait for an operation.
func (s *system) noted() int { return s.count(`SELECT count(*) FROM waiting`) }

func tried(w *worker) float64 { return testutil.ToFloat64(w.metrics.woken.WithLabelValues(wokenTried)) }

// Case 25, with a parent that comes in a later batch, at another worker.
func TestChildIsTriedWhenItsParentCommits(t *testing.T) {
	s := newSystem(t, sleepy)
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
	s := newSystem(t, sleepy)
	looked, parentDone := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(parentDone) })
	defer goOn()
	var blocked atomic.Bool
	var w *worker
	s.start(func(started *worker) {
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
	require.Equal(t, 1, row.Attempts, "it was put off, and woken by its own look")
	require.InDelta(t, 1, tried(w), 0)
	require.EqualValues(t, 600, s.balance("wallet:1"))
	require.Zero(t, s.noted())
}

// A worker dies after the parent's commit, before it tries the child: the child's
// own delivery is still there.
func TestWorkerThatDiesBeforeItWakes(t *testing.T) {
	s := newSystem(t, sleepy)
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
	s := newSystem(t, strings.Replace(sleepy, "parent:", "refunds:", 1))
	s.start()
	s.publish(refund("evt_much", "r1", "p1", 700), refund("evt_other", "r2", "p2", 1))
	s.decided("evt_much", dedupe.Pending)
	s.decided("evt_other", dedupe.Pending)
	s.publish(payment("evt_payment", "p1", "bank", "wallet:1", 500))
	row := s.decided("evt_much", dedupe.Failed)
	require.Equal(t, string(dlq.OverRefund), row.Reason)
	s.eventually(func() bool { return len(s.letters()) == 1 }, "its letter is stored")
	s.eventually(func() bool { return s.row("evt_much").DLQSeq != 0 }, "and recorded")
	require.Equal(t, refund("evt_much", "r1", "p1", 700).Data, s.letters()[0].Data)
	require.Equal(t, 1, s.noted(), "another parent's child still waits")
	require.EqualValues(t, 500, s.balance("wallet:1"))
}

// What is given up leaves no note.
func TestParkedChildWaitsNoLonger(t *testing.T) {
	s := newSystem(t, family)
	s.start()
	s.publish(refund("evt_refund", "r1", "p1", 400))
	s.decided("evt_refund", dedupe.Pending)
	s.decided("evt_refund", dedupe.Failed)
	require.Zero(t, s.noted())
}

// Many children of many parents, tried when those come; what that saves beside the
// delay of the retry.
func TestManyChildrenAreTriedAtOnce(t *testing.T) {
	const families = 100
	spent := func(t *testing.T, adjust func(*worker)) (least, median, most time.Duration) {
		s := newSystem(t, strings.NewReplacer("base: 50ms", "base: 2s", "cap: 100ms", "cap: 2s").Replace(patient))
		s.start(adjust)
		for n := range families {
			s.publish(refund(fmt.Sprint("evt_r", n), fmt.Sprint("r", n), fmt.Sprint("p", n), 10))
		}
		s.eventually(func() bool { return s.count(`SELECT count(*) FROM events WHERE state = 'pending'`) == families }, "they wait")
		for n := range families {
			s.publish(payment(fmt.Sprint("evt_p", n), fmt.Sprint("p", n), "bank", "wallet:1", 100))
		}
		s.settled()
		require.Zero(t, s.count(`SELECT count(*) FROM events WHERE state <> 'completed'`))
		require.EqualValues(t, 90*families, s.balance("wallet:1"))
		require.Equal(t, 3*families, s.transfers())
		rows, err := s.pool.Query(t.Context(), `
			SELECT EXTRACT(epoch FROM child.decided_at - parent.decided_at)::float8
			FROM events child
			JOIN events parent ON parent.event_id = replace(child.event_id, 'evt_r', 'evt_p')
			WHERE child.event_id LIKE 'evt_r%'`)
		require.NoError(t, err)
		var waits []time.Duration
		for rows.Next() {
			var seconds float64
			require.NoError(t, rows.Scan(&seconds))
			waits = append(waits, time.Duration(seconds*float64(time.Second)))
		}
		require.NoError(t, rows.Err())
		slices.Sort(waits)
		return waits[0], waits[len(waits)/2], waits[len(waits)-1]
	}
	var woken, delayed time.Duration
	t.Run("by their delay", func(t *testing.T) {
		var least, most time.Duration
		least, delayed, most = spent(t, func(w *worker) { w.woken = nil }) // nobody takes them
		t.Logf("from the parent's commit to the child's: %s, median %s, at most %s", least, delayed, most)
	})
	t.Run("at once", func(t *testing.T) {
		var least, most time.Duration
		least, woken, most = spent(t, func(*worker) {})
		t.Logf("from the parent's commit to the child's: %s, median %s, at most %s", least, woken, most)
	})
	require.Less(t, woken, delayed/4)
}
