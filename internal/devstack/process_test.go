package devstack_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/devstack"
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

// helperEnv makes this test binary a program that starts a child, prints its
// pid and waits to be killed.
const helperEnv = "DEVSTACK_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		orphanMaker()
	}
	mainWithStack(m)
}

func orphanMaker() {
	p, err := devstack.StartProcess(context.Background(), devstack.Command{Name: "sleep", Path: "/bin/sleep", Args: []string{"600"}})
	if err != nil {
		panic(err)
	}
	println(p.PID()) //nolint:forbidigo // standard error is the channel to the test
	<-p.Done()
}

func TestChildrenDieWithTheirParent(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("this system has no parent-death signal")
	}
	parent := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // itself
	parent.Env = append(os.Environ(), helperEnv+"=1")
	out, err := parent.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	child, err := strconv.Atoi(lines.Text())
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(child, 0))

	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait() // it was killed
	require.Eventually(t, func() bool { return !alive(child) }, 10*time.Second, 5*time.Millisecond)
}

// alive reports whether pid runs; one that nobody has reaped yet does not.
func alive(pid int) bool {
	command, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && len(command) > 0
}
