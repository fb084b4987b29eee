package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// killedWorkerEnv makes this test binary a worker that dies of an event whose
// id says so.
const killedWorkerEnv = "ONCELEDGER_TEST_KILLED_WORKER"

func runKilledWorker() int {
	cat, err := catalog.Load(os.Getenv(killedWorkerEnv), os.LookupEnv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	w := newWorker(cat, zerolog.New(os.Stderr), Tuning{})
	w.thinking = func(e *envelope.Event) {
		if strings.Contains(e.ID, "killer") {
			os.Exit(137)
		}
	}
	if err := w.run(context.Background()); err != nil {
		return 1
	}
	return 0
}

// twenty publishes twenty payments with one other id among them.
func twenty(s *system, other string) {
	for i := range 21 {
		id := fmt.Sprintf("evt_%02d", i)
		if i == 10 {
			id = other
		}
		s.publish(payment(id, "p_"+id, "bank", "wallet:1", 1))
	}
}

// killedWorker runs a worker as a process until it dies (1) or done holds (0).
func (s *system) killedWorker(done func() bool) (deaths int) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), killedWorkerEnv+"="+s.cat.Config.File, "DATABASE_URL="+s.url, "NATS_URL="+stack.NATSURL,
		"NATS_MONITOR_URL="+stack.NATSMonitorURL, "REDIS_URL="+stack.RedisURL, "WORKER_ADMIN=127.0.0.1:0")
	require.NoError(s.t, cmd.Start())
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	died := false
	s.eventually(func() bool {
		select {
		case <-ended:
			died = true
			return true
		default:
			return done()
		}
	}, "the worker dies, or is done")
	if died {
		require.Equal(s.t, 137, cmd.ProcessState.ExitCode())
		return 1
	}
	s.settled()
	require.NoError(s.t, cmd.Process.Kill())
	<-ended
	return 0
}

func TestEventThatKillsWorkers(t *testing.T) {
	s := newSystem(t, shop+"\nworker: {ack_wait: 1s}")
	twenty(s, "evt_killer")
	deaths := 0
	parked := func() bool { row := s.row("evt_killer"); return row != nil && row.State == dedupe.Failed }
	for !parked() {
		deaths += s.killedWorker(parked)
	}
	row := s.row("evt_killer")
	require.Equal(t, string(dlq.CrashBudget), row.Reason)
	require.Equal(t, crashBudget, row.Crashes)
	require.LessOrEqual(t, deaths, crashBudget+2)
	require.EqualValues(t, 20, s.balance("wallet:1"), "its neighbours complete")
	require.Len(t, s.letters(), 1)
}

func TestEventThatPanics(t *testing.T) {
	s := newSystem(t, shop)
	twenty(s, "evt_panic")
	s.start(func(w *worker) {
		w.thinking = func(e *envelope.Event) {
			if e.ID == "evt_panic" {
				panic("a fault of ours")
			}
		}
	})
	row := s.decided("evt_panic", dedupe.Failed)
	s.settled()
	require.Equal(t, string(dlq.RetryBudget), row.Reason)
	require.Equal(t, 3, row.Attempts)
	require.Contains(t, row.Error, "a fault of ours")
	require.EqualValues(t, 20, s.balance("wallet:1"))
}

// Decided alone, too, a duplicate notes what it gave way to.
func TestEventThatPanicsOnceGivesWay(t *testing.T) {
	s := newSystem(t, shop)
	s.publish(payment("evt_first", "p1", "bank", "wallet:1", 5))
	var panicked atomic.Bool
	s.start(func(w *worker) {
		w.thinking = func(e *envelope.Event) {
			if e.ID == "evt_again" && !panicked.Swap(true) {
				panic("a fault of ours")
			}
		}
	})
	s.decided("evt_first", dedupe.Completed)
	s.publish(payment("evt_again", "p1", "bank", "wallet:1", 5))
	row := s.decided("evt_again", dedupe.Completed)
	require.Equal(t, dedupe.DuplicateOperation, row.Outcome)
	require.Equal(t, ledger.OperationKey("shop", "", "", "payment", "p1"), row.Error)
	require.Equal(t, 1, row.Attempt, "it was tried alone")
}

func TestEventThatHangs(t *testing.T) {
	s := newSystem(t, strings.Replace(shop, "attempts: 3", "attempts: 1", 1))
	twenty(s, "evt_hangs")
	release := make(chan struct{})
	defer close(release)
	s.start(func(w *worker) {
		w.thinking = func(e *envelope.Event) {
			if e.ID == "evt_hangs" {
				<-release
			}
		}
	})
	row := s.decided("evt_hangs", dedupe.Failed)
	s.settled()
	require.Equal(t, string(dlq.RetryBudget), row.Reason)
	require.Contains(t, row.Error, "5s")
	require.EqualValues(t, 20, s.balance("wallet:1"))
}

func TestFence(t *testing.T) {
	s := newSystem(t, shop)
	s.publish(payment("evt_1", "p1", "bank", "wallet:1", 5))
	w := newWorker(s.cat, s.log, Tuning{})
	require.NoError(t, w.open(t.Context()))
	defer w.close()
	l := &loop{w: w, name: "late"}
	consumer, err := stream.WorkerConsumer(t.Context(), s.js, time.Minute)
	require.NoError(t, err)
	batch, err := consumer.Fetch(1)
	require.NoError(t, err)
	it, err := w.decode(delivery{<-batch.Messages(), w.incarnation()})
	require.NoError(t, err)
	require.NoError(t, l.begin(t.Context(), it))
	require.Equal(t, 1, it.row.Attempt)
	l.w.understand(t.Context(), []*item{it})

	// Somebody else takes over before this attempt writes.
	_, err = s.pool.Exec(t.Context(), `UPDATE events SET attempt = attempt + 1 WHERE event_id = 'evt_1'`)
	require.NoError(t, err)
	require.ErrorIs(t, l.try(t.Context(), it, nil), errFenced)
	require.Zero(t, s.transfers(), "what it would write does not count")
}

// The last worker that one content may kill has died, and a delivery of another
// content under the same id finds out.
func TestCrashBudgetIsOfOneContent(t *testing.T) {
	s := newSystem(t, shop)
	killer := payment("evt_1", "p1", "bank", "wallet:1", 5)
	s.publish(killer)
	s.publish(payment("evt_1", "p1", "bank", "wallet:1", 7))
	w := newWorker(s.cat, s.log, Tuning{})
	require.NoError(t, w.open(t.Context()))
	defer w.close()
	w.work, w.ackWait = t.Context(), time.Millisecond
	l := &loop{w: w, name: "test"}
	consumer, err := stream.WorkerConsumer(t.Context(), s.js, time.Minute)
	require.NoError(t, err)
	batch, err := consumer.Fetch(2)
	require.NoError(t, err)
	first, second := <-batch.Messages(), <-batch.Messages()
	it, err := w.decode(delivery{first, w.incarnation()})
	require.NoError(t, err)
	require.NoError(t, l.begin(t.Context(), it))
	_, err = s.pool.Exec(t.Context(), `UPDATE events SET crashes = $1`, crashBudget-1)
	require.NoError(t, err)

	it, err = w.decode(delivery{second, w.incarnation()})
	require.NoError(t, err)
	s.eventually(func() bool { // the attempt is dead after the ack wait
		it.fate = undecided
		require.NoError(t, l.alone(t.Context(), it, nil))
		return s.row("evt_1").State == dedupe.Failed
	}, "it is parked")
	require.Equal(t, string(dlq.CrashBudget), s.row("evt_1").Reason)
	require.Equal(t, delayed, it.fate, "it is decided on its merits")
	require.NoError(t, first.Nak())
	require.NoError(t, second.Nak())
	s.start()
	s.settled()
	require.Equal(t, dedupe.Applied, s.decided("evt_1", dedupe.Completed).Outcome)
	require.Equal(t, 1, s.transfers())
	letters := s.letters()
	require.Len(t, letters, 1)
	require.Equal(t, killer.Data, letters[0].Data)
}
