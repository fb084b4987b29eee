package worker

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// childWorkerEnv makes this test binary a worker; childWorkerDies says where it
// dies, if at all, or that it is slow.
const (
	childWorkerEnv  = "ONCELEDGER_TEST_CHILD_WORKER"
	childWorkerDies = "ONCELEDGER_TEST_CHILD_WORKER_DIES"
)

func runChildWorker() int {
	cat, err := catalog.Load(os.Getenv(childWorkerEnv), os.LookupEnv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	w := newWorker(cat, zerolog.New(os.Stderr), Tuning{})
	die := func() { os.Exit(137) }
	switch os.Getenv(childWorkerDies) {
	case "between":
		w.between = die
	case "answering":
		w.answering = die
	case "waking":
		w.waking = die
	case "slow":
		w.tuning = Tuning{Batch: 20, Linger: 10 * time.Millisecond}
		w.thinking = func(*envelope.Event) { <-time.After(400 * time.Millisecond) }
	}
	if err := w.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child starts a worker as a process of its own.
func (s *system) child(dies string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childWorkerEnv+"="+s.cat.Config.File, childWorkerDies+"="+dies, "DATABASE_URL="+cmp.Or(s.env["DATABASE_URL"], s.url),
		"NATS_URL="+cmp.Or(s.env["NATS_URL"], stack.NATSURL), "NATS_MONITOR_URL="+stack.NATSMonitorURL, "REDIS_URL="+stack.RedisURL, "WORKER_ADMIN=127.0.0.1:0")
	cmd.Stderr = s.out
	require.NoError(s.t, cmd.Start())
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// A worker dies after the claim and before COMMIT, or after COMMIT and before
// the ack: either way each event is there once.
func TestWorkerThatDies(t *testing.T) {
	for _, where := range []string{"between", "answering"} {
		t.Run(where, func(t *testing.T) {
			s := newSystem(t, shop+"\nworker: {ack_wait: 4s}")
			s.payments(0, 100)
			cmd := s.child(where)
			require.Error(t, cmd.Wait())
			require.Equal(t, 137, cmd.ProcessState.ExitCode())
			require.Equal(t, where == "answering", s.transfers() > 0)
			s.start()
			s.settled()
			require.Equal(t, 100, s.transfers())
			require.EqualValues(t, 100, s.balance("wallet:1"))
			s.free()
		})
	}
}

// One of two workers is killed in the midst of a drain.
func TestKilledInADrain(t *testing.T) {
	const ackWait = 5 * time.Second
	n := 20_000
	if text := os.Getenv("ONCELEDGER_TEST_DRAIN"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	drain := func(t *testing.T, kill bool) time.Duration {
		s := newSystem(t, shop+"\nworker: {ack_wait: 5s}")
		s.payments(0, n)
		began := time.Now()
		first := s.child("")
		s.child("")
		if kill {
			s.reaches(n * 2 / 5)
			require.NoError(t, first.Process.Kill())
		}
		s.reaches(n)
		took := time.Since(began)
		s.settled()
		require.Equal(t, n, s.transfers())
		require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0 OR state <> 'completed'`))
		require.LessOrEqual(t, s.count(`SELECT COALESCE(max(crashes), 0) FROM events`), 1)
		return took
	}
	var undisturbed, disturbed time.Duration
	t.Run("undisturbed", func(t *testing.T) { undisturbed = drain(t, false) })
	t.Run("one worker is killed", func(t *testing.T) { disturbed = drain(t, true) })
	t.Logf("%d events: undisturbed %s, one of two workers killed %s", n, undisturbed.Round(time.Millisecond), disturbed.Round(time.Millisecond))
	// One worker does what two would have done, after the ack wait of what the other had;
	// either time is that of a machine which others may use, too.
	require.LessOrEqual(t, disturbed, 3*undisturbed+2*ackWait+time.Minute)
}

// reaches waits until n transfers are there; it looks seldom, not to disturb.
func (s *system) reaches(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.transfers() >= n }, 5*time.Minute, 100*time.Millisecond)
}
