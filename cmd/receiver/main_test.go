package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/stream"
)

// asProgram makes the test binary the program itself.
const asProgram = "ONCELEDGER_TEST_RECEIVER"

var stack *devstack.Stack

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	stacktest.Main(m, &stack, devstack.NATS)
}

// child is the receiver as a process.
type child struct {
	*exec.Cmd
	out, err bytes.Buffer
}

func start(t *testing.T, env []string, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := &child{Cmd: exec.CommandContext(t.Context(), self, args...)}
	p.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	p.Stdout, p.Stderr = &p.out, &p.err
	require.NoError(t, p.Start())
	return p
}

// exit waits for the end and returns the exit code; -1 is a signal.
func (p *child) exit(t *testing.T) int {
	t.Helper()
	err := p.Wait()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return p.ProcessState.ExitCode()
}

// file writes a configuration with its own addresses and one source.
func file(t *testing.T, more string) (path, listen, admin string) {
	t.Helper()
	listen, admin = free(t), free(t)
	path = filepath.Join(t.TempDir(), "onceledger.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `receiver: {listen: %q, admin: %q}
nats: {url: %q, monitor_url: %q%s}
sources:
  stripe:
    provider: stripe
    secret: ${RECEIVER_TEST_SECRET}
`, listen, admin, stack.NATSURL, stack.NATSMonitorURL, more), 0o600))
	return path, listen, admin
}

// free returns an address nobody listens on, below the ports that the system gives
// to clients: one of those may be taken by whoever dials it before it is listened on.
func free(t *testing.T) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(10_000)))
		if err == nil {
			require.NoError(t, l.Close())
			return l.Addr().String()
		}
	}
}

var withSecret = []string{"RECEIVER_TEST_SECRET=whsec_test"}

func TestHelpSaysWhatANewcomerNeeds(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "--help")
	require.Zero(t, p.exit(t))
	for _, word := range []string{
		"/webhooks/{source}", "8080", "9080", "/readyz", "--config", "--version", "ONCELEDGER_CONFIG",
		"NATS_URL", "NATS_MONITOR_URL", "RECEIVER_LISTEN", "RECEIVER_ADMIN", "Exit codes", "curl",
	} {
		require.Contains(t, p.out.String(), word)
	}
	p = start(t, nil, "--version")
	require.Zero(t, p.exit(t))
	require.True(t, strings.HasPrefix(p.out.String(), "onceledger-receiver "))
}

func TestUsageAndConfigurationEndWith2(t *testing.T) {
	t.Parallel()
	path, _, _ := file(t, "")
	for name, p := range map[string]*child{
		"unknown flag":           start(t, nil, "--colour"),
		"no such file":           start(t, nil, "--config", path+".gone"),
		"secret not set":         start(t, nil, "--config", path), // case 46
		"secret is empty":        start(t, []string{"RECEIVER_TEST_SECRET="}, "--config", path),
		"file named by variable": start(t, []string{"ONCELEDGER_CONFIG=" + path}),
	} {
		require.Equal(t, 2, p.exit(t), name)
		require.NotEmpty(t, p.err.String(), name)
		if strings.Contains(name, "secret") {
			require.Contains(t, p.err.String(), path+":6:", name)
		}
	}
}

// All tests that need the one stream EVENTS.
func TestAProcess(t *testing.T) {
	t.Parallel()

	t.Run("drains on the first signal and ends with 0", func(t *testing.T) {
		path, _, admin := file(t, "")
		p := start(t, withSecret, "--config", path)
		waitReady(t, admin)
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		require.Zero(t, p.exit(t), p.err.String())
		require.Contains(t, p.err.String(), `"message":"drained"`)
		require.NotContains(t, p.err.String(), "whsec_test")
	})
	t.Run("ends at once on the second", func(t *testing.T) {
		path, listen, admin := file(t, "")
		p := start(t, withSecret, "--config", path)
		waitReady(t, admin)
		// A request that is not finished holds the drain up.
		conn, err := net.Dial("tcp", listen)
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, "POST /webhooks/stripe HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n")))
		require.NoError(t, err)

		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		status, reason := 0, ""
		require.Eventually(t, func() bool {
			status, reason = ready(admin)
			return status == http.StatusServiceUnavailable
		}, 10*time.Second, time.Millisecond)
		require.Contains(t, reason, "draining")
		require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		require.Equal(t, -1, p.exit(t), "it ended by the signal, and not with its drain")
	})
	t.Run("refuses what would lose money with 3 and says what to change", func(t *testing.T) {
		path, _, _ := file(t, ", events_max_bytes: 1MiB")
		p := start(t, withSecret, "--config", path)
		require.Equal(t, 3, p.exit(t))
		require.Contains(t, p.err.String(), "EVENTS max bytes: have ")
		require.Contains(t, p.err.String(), "nats stream edit EVENTS --max-bytes")

		conn, err := stream.Open(t.Context(), config.NATS{URL: stack.NATSURL}, t.Name(), zerolog.Nop())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.JS.Stream(t.Context(), stream.Events)
		require.NoError(t, err, "it changes nothing")
	})
	t.Run("ends with 1 where an address is taken", func(t *testing.T) {
		path, listen, _ := file(t, "")
		l, err := net.Listen("tcp", listen)
		require.NoError(t, err)
		defer l.Close()
		p := start(t, withSecret, "--config", path)
		require.Equal(t, 1, p.exit(t))
	})
}

func ready(admin string) (status int, body string) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + admin + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, errors.Join(errors.New(string(text)), err).Error()
}

func waitReady(t *testing.T, admin string) {
	t.Helper()
	require.Eventually(t, func() bool { status, _ := ready(admin); return status == http.StatusOK }, time.Minute, 5*time.Millisecond)
}
