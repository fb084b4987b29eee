package devstack_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
)

func TestProcessReportsAnEarlyExitWithItsLog(t *testing.T) {
	t.Parallel()
	_, err := devstack.StartProcess(t.Context(), devstack.Command{
		Name: "shell", Path: "/bin/sh", Args: []string{"-c", "echo out of tune >&2; exit 3"},
		LogFile: filepath.Join(t.TempDir(), "shell.log"),
		Ready:   func(context.Context) error { return errors.New("never") },
	})
	require.ErrorContains(t, err, "start shell: exited before it was ready (exit status 3)")
	require.ErrorContains(t, err, "out of tune")
}

// Whoever had the port may be gone before anybody could look.
func TestProcessSaysThatItsPortIsTaken(t *testing.T) {
	t.Parallel()
	try := func(script string, ready time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), ready)
		defer cancel()
		_, err := devstack.StartProcess(ctx, devstack.Command{
			Name: "shell", Path: "/bin/sh", Args: []string{"-c", script},
			LogFile: filepath.Join(t.TempDir(), "shell.log"),
			Ready:   func(context.Context) error { return errors.New("never") },
		})
		return err
	}
	const said = "echo 'listen tcp 127.0.0.1:1: bind: Address already in use' >&2; "
	require.ErrorIs(t, try(said+"exit 1", time.Minute), devstack.ErrPortTaken)
	require.NotErrorIs(t, try("exit 1", time.Minute), devstack.ErrPortTaken)
	require.NotErrorIs(t, try(said+"sleep 600", 50*time.Millisecond), devstack.ErrPortTaken, "it goes on")
}

func TestProcessThatNeverGetsReadyIsKilled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := devstack.StartProcess(ctx, devstack.Command{
		Name: "sleep", Path: "/bin/sleep", Args: []string{"600"},
		Ready: func(context.Context) error { return errors.New("door is shut") },
	})
	require.ErrorContains(t, err, "not ready: door is shut")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestProcessStops(t *testing.T) {
	t.Parallel()
	p, err := devstack.StartProcess(t.Context(), devstack.Command{Name: "sleep", Path: "/bin/sleep", Args: []string{"600"}})
	require.NoError(t, err)
	require.Equal(t, -1, p.ExitCode())
	require.NoError(t, p.Stop(t.Context()))
	<-p.Done()
	require.NoError(t, p.Stop(t.Context()), "one that has ended is no error")
}

func TestProcessThatIgnoresTheSignalIsKilled(t *testing.T) {
	t.Parallel()
	ready := filepath.Join(t.TempDir(), "ready")
	p, err := devstack.StartProcess(t.Context(), devstack.Command{
		Name: "stubborn", Path: "/bin/sh",
		Args:  []string{"-c", `trap '' TERM; touch "$0"; while :; do sleep 0.1; done`, ready},
		Ready: func(context.Context) error { _, err := os.Stat(ready); return err },
	})
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, p.Stop(ctx), "stop stubborn: killed, as it did not end in time")
	<-p.Done()
}

// These make this test binary another program: one that starts a child, or a
// stack in the folder given, says so and waits to be killed.
const (
	childEnv = "DEVSTACK_TEST_CHILD"
	stackEnv = "DEVSTACK_TEST_STACK"
)

func TestMain(m *testing.M) {
	devstack.Main()
	if os.Getenv(childEnv) != "" {
		startChild()
	}
	if dir := os.Getenv(stackEnv); dir != "" {
		startStack(dir)
	}
	stacktest.Main(m, &shared)
}

func startChild() {
	p, err := devstack.StartProcess(context.Background(), devstack.Command{Name: "sleep", Path: "/bin/sleep", Args: []string{"600"}})
	if err != nil {
		panic(err)
	}
	fmt.Println(p.PID())
	<-p.Done()
}

func startStack(dir string) {
	stack, err := devstack.Start(context.Background(), devstack.Options{Dir: dir, Small: true})
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	<-stack.NATS.Process().Done()
}

func TestChildrenDieWithTheirParent(t *testing.T) {
	t.Parallel()
	requireParentDeathSignal(t)
	parent, line := startSelf(t, childEnv+"=1")
	child, err := strconv.Atoi(line)
	require.NoError(t, err)
	// The kernel shows its command a moment after it has been started.
	require.Eventually(t, func() bool { return alive(child) }, 20*time.Second, time.Millisecond)

	kill(t, parent)
	require.Eventually(t, func() bool { return !alive(child) }, 20*time.Second, 5*time.Millisecond)
}

func TestStackOfAKilledProgramComesBack(t *testing.T) {
	t.Parallel()
	requireParentDeathSignal(t)
	dir := openDir(t)
	parent, line := startSelf(t, stackEnv+"="+dir)
	require.Equal(t, "ready", line)
	before, err := devstack.ReadAddresses(dir)
	require.NoError(t, err)
	write(t, &devstack.Stack{Addresses: before})
	kill(t, parent)

	after := start(t, devstack.Options{Dir: dir, Small: true})
	require.Equal(t, before, after.Addresses)
	requireWritten(t, after)
}

// requireParentDeathSignal skips where children outlive a killed parent.
func requireParentDeathSignal(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this system has no parent-death signal")
	}
}

// startSelf runs this test binary as another program and returns its first line.
func startSelf(t *testing.T, env string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	return cmd, lines.Text()
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
}

// alive reports whether pid runs; one that nobody has reaped yet does not.
func alive(pid int) bool {
	command, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && len(command) > 0
}
