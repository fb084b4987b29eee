package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// pausedWorkerEnv makes this test binary a worker that stops itself with
// SIGSTOP between the two round trips of its first batch.
const pausedWorkerEnv = "ONCELEDGER_TEST_PAUSED_WORKER"

const pausedBatch = 20

func runPausedWorker() int {
	cat, err := catalog.Load(os.Getenv(pausedWorkerEnv), os.LookupEnv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	// It takes all events into its first batch, and holds few more than those.
	w := newWorker(cat, zerolog.New(os.Stderr), Tuning{Batch: pausedBatch, Linger: time.Second})
	var pause sync.Once // both loops wait in it: nothing commits before the stop
	w.between = func() {
		pause.Do(func() {
			goes := make(chan os.Signal, 1)
			signal.Notify(goes, syscall.SIGCONT)
			fmt.Println("between")
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			<-goes // this thread may run on for a moment before the stop reaches it
		})
	}
	if err := w.run(context.Background()); err != nil {
		return 1
	}
	return 0
}

func TestPausedWorker(t *testing.T) {
	s := newSystem(t, shop+"\nworker: {ack_wait: 1m}")
	var events []string
	for i := range pausedBatch {
		id := fmt.Sprintf("evt_%d", i)
		events = append(events, id)
		s.publish(payment(id, "p_"+id, "bank", "wallet:1", 100))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	paused := exec.CommandContext(ctx, os.Args[0])
	paused.Env = append(os.Environ(),
		pausedWorkerEnv+"="+s.cat.Config.File, "DATABASE_URL="+s.url, "NATS_URL="+stack.NATSURL,
		"NATS_MONITOR_URL="+stack.NATSMonitorURL, "REDIS_URL="+stack.RedisURL, "WORKER_ADMIN=127.0.0.1:0")
	var out lockedBuffer
	paused.Stdout, paused.Stderr = &out, &out
	require.NoError(t, paused.Start())
	s.eventually(func() bool { return strings.Contains(out.String(), "between\n") }, "the worker stops between its round trips")
	require.Zero(t, s.transfers(), "nothing is committed yet")

	// Copies of the very events it holds locked arrive at another worker; in
	// rounds, since the broker goes on to fill the paused one's open request.
	s.start()
	began := time.Now()
	for range 4 {
		for _, id := range events {
			s.publish(payment(id, "p_"+id, "bank", "wallet:1", 100))
		}
	}
	for _, id := range events {
		s.decided(id, dedupe.Completed)
	}
	require.Less(t, time.Since(began), 45*time.Second, "others are not held up: they did not wait for the ack wait")
	require.EqualValues(t, 2000, s.balance("wallet:1"))

	require.NoError(t, paused.Process.Signal(syscall.SIGCONT))
	t.Cleanup(func() { t.Log(out.String()) })
	s.settled()
	require.Equal(t, pausedBatch, s.transfers(), "the one that woke up posts nothing")
	require.EqualValues(t, 2000, s.balance("wallet:1"))
	require.NoError(t, paused.Process.Signal(syscall.SIGKILL))
	require.Error(t, paused.Wait())
}
