package up_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/local"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/up"
)

// helperEnv makes this test binary run a system in the folder it names, as the
// command does.
const helperEnv = "UP_TEST_DATA"

func TestMain(m *testing.M) {
	local.Main()
	if dir := os.Getenv(helperEnv); dir != "" {
		err := up.Run(context.Background(), up.Options{
			Data: dir, Listen: os.Getenv("UP_TEST_LISTEN"), Workers: 1, Command: "onceledger", Out: os.Stdout, Env: os.LookupEnv,
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, "helper:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// running is a system that runs in this process.
type running struct {
	dir, listen string
	text        string // what it printed until it was ready
	stop        context.CancelFunc
	ended       chan struct{}
	err         error // once it has ended
}

func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "onceledger-up-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755)) // Postgres's user must pass through
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

var ports local.Ports

// freeAddress is an address that nobody listens on, below the ports of clients and
// of stacks.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := ports.Take(fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(10_000)))
	require.NoError(t, err)
	return address
}

// noEnv is an environment without anything of ours.
func noEnv(string) (string, bool) { return "", false }

// start runs a system and returns when it is ready.
func start(t *testing.T, o up.Options) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	if o.Listen == "" {
		o.Listen = freeAddress(t)
	}
	o.Workers, o.Command, o.Out, o.Env = 2, "onceledger", writer, noEnv
	r := &running{dir: o.Data, listen: o.Listen, stop: cancel, ended: make(chan struct{})}
	go func() {
		r.err = up.Run(ctx, o)
		close(r.ended)
		_ = writer.CloseWithError(io.EOF)
	}()
	t.Cleanup(func() { _ = r.wait(cancel) })

	lines := bufio.NewScanner(reader)
	ready := false
	for !ready && lines.Scan() {
		r.text += lines.Text() + "\n"
		ready = strings.HasPrefix(lines.Text(), "Ctrl-C") || o.JSON
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }() // ends with the writer
	if !ready {
		err := r.wait(cancel)
		if errors.Is(err, devstack.ErrMissing) && os.Getenv("CI") != "true" {
			t.Skip(err)
		}
		require.NoError(t, err)
	}
	return r
}

// wait returns how the system ended, after stop.
func (r *running) wait(stop func()) error {
	stop()
	<-r.ended
	return r.err
}

// end stops the system and requires that nothing of it is left.
func (r *running) end(t *testing.T) {
	t.Helper()
	require.NoError(t, r.wait(r.stop))
	requireNothingLeft(t, r.dir)
}

// requireNothingLeft looks for processes that have to do with dir.
func requireNothingLeft(t *testing.T, dir string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	require.Eventually(t, func() bool { return len(processesOf(dir)) == 0 }, 30*time.Second, 10*time.Millisecond)
	require.NoFileExists(t, filepath.Join(dir, "stack.json"))
}

func processesOf(dir string) []int {
	var pids []int
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		pid, _ := strconv.Atoi(filepath.Base(name))
		command, _ := os.ReadFile(filepath.Join(name, "cmdline"))
		environment, _ := os.ReadFile(filepath.Join(name, "environ"))
		if pid != os.Getpid() && bytes.Contains(append(command, environment...), []byte(dir)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// paste returns the commands that the system prints for a shell.
func (r *running) paste(t *testing.T) string {
	t.Helper()
	from := strings.Index(r.text, "  body=")
	to := strings.Index(r.text, "\nThen, in another terminal:")
	require.Positive(t, from, r.text)
	require.Greater(t, to, from)
	return r.text[from:to]
}

func (r *running) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	addresses, err := devstack.ReadAddresses(r.dir)
	require.NoError(t, err)
	conn, err := pgx.Connect(t.Context(), addresses.DatabaseURL)
	require.NoError(t, err)
	return conn
}

// balance waits for alice's first payment and returns what she has.
func (r *running) balance(t *testing.T) (credits int64, events int) {
	t.Helper()
	conn := r.connect(t)
	defer conn.Close(t.Context())
	require.Eventually(t, func() bool {
		return conn.QueryRow(t.Context(), `SELECT credits_posted FROM accounts WHERE name = 'wallet:alice'`).Scan(&credits) == nil
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM events`).Scan(&events))
	return credits, events
}

// requireEverySourceWorks sends a sample event to each source of the starter
// configuration and waits until each one has moved money.
func (r *running) requireEverySourceWorks(t *testing.T) {
	t.Helper()
	session := &operator.Session{Data: r.dir, JSON: true, Env: noEnv, Out: io.Discard}
	for _, source := range []string{"stripe", "github", "orders", "shop"} {
		require.NoError(t, operator.Send(t.Context(), session, nil, operator.Sending{Source: source, Repeat: 2}))
	}
	conn := r.connect(t)
	defer conn.Close(t.Context())
	require.Eventually(t, func() bool {
		var sources int
		err := conn.QueryRow(t.Context(), `SELECT count(DISTINCT source) FROM events WHERE outcome = 'applied'`).Scan(&sources)
		return err == nil && sources == 4
	}, 30*time.Second, 10*time.Millisecond)
}

func TestASystemLives(t *testing.T) {
	t.Parallel()
	r := start(t, up.Options{Data: dataDir(t)})
	for line := range strings.Lines(r.text) {
		if !strings.Contains(line, r.dir) { // a short folder makes a short line
			require.LessOrEqual(t, len(strings.TrimRight(line, "\n")), 80, line)
		}
	}

	// The text that was printed, in a shell, twice.
	for range 2 {
		out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", r.paste(t)).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "HTTP/1.1 200 OK")
	}
	credits, events := r.balance(t)
	require.EqualValues(t, 1250, credits)
	require.Equal(t, 1, events)

	// The same folder has one system only, and it says so.
	err := up.Run(t.Context(), up.Options{Data: r.dir, Listen: r.listen, Workers: 1, Out: io.Discard, Env: noEnv})
	require.ErrorIs(t, err, devstack.ErrInUse)
	require.ErrorContains(t, err, "--data")
	// Another folder needs another port.
	err = up.Run(t.Context(), up.Options{Data: dataDir(t), Listen: r.listen, Workers: 1, Out: io.Discard, Env: noEnv})
	require.ErrorContains(t, err, "--listen")
	configuration, err := os.ReadFile(filepath.Join(r.dir, "onceledger.yaml"))
	require.NoError(t, err)
	r.end(t)

	// A second run keeps everything.
	r = start(t, up.Options{Data: r.dir, JSON: true})
	var started up.Started
	require.NoError(t, json.Unmarshal([]byte(r.text), &started))
	require.Equal(t, "http://"+r.listen, started.ReceiverURL)
	require.Equal(t, "http://"+r.listen+"/webhooks/orders", started.Webhooks["orders"])
	require.Len(t, started.Metrics, 3)
	kept, err := os.ReadFile(filepath.Join(r.dir, "onceledger.yaml"))
	require.NoError(t, err)
	require.Equal(t, string(configuration), string(kept))
	credits, events = r.balance(t)
	require.EqualValues(t, 1250, credits)
	require.Equal(t, 1, events)

	r.requireEverySourceWorks(t)

	// What dies is not replaced in silence.
	for _, pid := range processesOf(r.dir) {
		command, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if bytes.Contains(command, []byte("\x00worker\x00")) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			break
		}
	}
	require.ErrorContains(t, r.wait(func() {}), "ended by itself (signal: killed)")
	requireNothingLeft(t, r.dir)
}

func TestARefusedStartLeavesTheFolderAlone(t *testing.T) {
	t.Parallel()
	elsewhere := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(elsewhere, []byte("sources: {s: {provider: stripe, secret: whsec_mine, rules: [{when: 'true', transfers: []}]}}\n"), 0o600))
	r := start(t, up.Options{Data: dataDir(t), Config: elsewhere, Listen: "127.0.0.1:0"})
	addresses, err := devstack.ReadAddresses(r.dir)
	require.NoError(t, err)
	require.Equal(t, elsewhere, addresses.Config, "for commands with --data")
	require.NotContains(t, r.text, ":0/", "it says which port was chosen")
	err = up.Run(t.Context(), up.Options{Data: r.dir, Listen: "127.0.0.1:0", Workers: 1, Out: io.Discard, Env: noEnv})
	require.ErrorIs(t, err, devstack.ErrInUse)
	require.NoFileExists(t, filepath.Join(r.dir, "onceledger.yaml"))
	r.end(t)
}

// All of them would like the admin ports of the configuration.
func TestSeveralSystemsStartAtOnce(t *testing.T) {
	t.Parallel()
	for range 3 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			r := start(t, up.Options{Data: dataDir(t), JSON: true})
			var started up.Started
			require.NoError(t, json.Unmarshal([]byte(r.text), &started))
			require.Len(t, started.Metrics, 3)
			r.end(t)
		})
	}
}

func TestASecondSignalLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+dir, "UP_TEST_LISTEN="+freeAddress(t))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	waitFor := func(prefix string) bool {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), prefix) {
				return true
			}
		}
		return false
	}
	if !waitFor("Ctrl-C") && os.Getenv("CI") != "true" {
		t.Skip("the system does not start here")
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.True(t, waitFor("Stopping"))
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, out)
	err = cmd.Wait()
	if err != nil { // it may have been faster than the second signal
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 128+int(syscall.SIGINT), exit.ExitCode())
	}
	if runtime.GOOS == "linux" {
		require.Eventually(t, func() bool { return len(processesOf(dir)) == 0 }, 30*time.Second, 10*time.Millisecond)
	}
}

func TestFaultsAreFoundBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	path := filepath.Join(dir, "mine.yaml")
	require.NoError(t, os.WriteFile(path, []byte("sources:\n  stripe: {provider: strpe, secret: x}\n"), 0o600))
	run := func(o up.Options) error {
		o.Data, o.Out, o.Env = filepath.Join(dir, "data"), io.Discard, noEnv
		return up.Run(t.Context(), o)
	}
	require.ErrorContains(t, run(up.Options{Config: path, Workers: 1}), "mine.yaml:2:")
	require.ErrorContains(t, run(up.Options{Workers: 0}), "--workers")
	require.ErrorContains(t, run(up.Options{Workers: 1, Listen: "127.0.0.1:nowhere"}), "nowhere")
	require.NoFileExists(t, filepath.Join(dir, "data", "devstack.json"))
}

func TestStarterConfigurationHasSecretsOfItsOwn(t *testing.T) {
	t.Parallel()
	secrets := map[string]bool{}
	for range 2 {
		dir := dataDir(t)
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer taken.Close()
		// It is written, and then the port is taken.
		err = up.Run(t.Context(), up.Options{Data: dir, Listen: taken.Addr().String(), Workers: 1, Out: io.Discard, Env: noEnv})
		require.ErrorIs(t, err, local.ErrPortTaken)

		path := filepath.Join(dir, "onceledger.yaml")
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		cat, err := catalog.Load(path, noEnv)
		require.NoError(t, err)
		require.Len(t, cat.Sources, 4)
		for _, source := range cat.Config.Sources {
			secret := source.Secrets[0].Reveal()
			require.GreaterOrEqual(t, len(secret), 26)
			require.False(t, secrets[secret])
			secrets[secret] = true
		}
	}
}
