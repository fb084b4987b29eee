package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/telemetry"
)

const (
	// stopLimit is how long a program may take to drain.
	stopLimit = time.Minute
	// startTries bounds how often a program gets other addresses.
	startTries = 10
	// logShown is how much of a log a failed test prints.
	logShown = 16 << 10
)

// binaries builds the programs once, into the shared stack's folder, which goes
// away with it.
var binaries = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(shared.Dir(), "bin")
	args := []string{"build", "-o", dir + "/"}
	if raceEnabled {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "../../cmd/receiver", "../../cmd/worker", "../../cmd/onceledger")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build programs: %w\n%s", err, out)
	}
	return dir, nil
})

// binary returns the path of a program.
func (s *system) binary(name string) string {
	s.t.Helper()
	dir, err := binaries()
	require.NoError(s.t, err)
	return filepath.Join(dir, name)
}

// program is a running receiver or worker.
type program struct {
	*devstack.Process
	name string
	// url is where a receiver takes webhooks, admin where both say how they are.
	url, admin string
	log        string
}

// gauge is the full name of a metric that both programs have.
func (p *program) gauge(name string) string {
	kind, _, _ := strings.Cut(p.name, "-")
	return "onceledger_" + kind + "_" + name
}

// receiver starts a receiver and waits until it is ready. It is told of the
// broker alone: it needs nothing else.
func (s *system) receiver() *program {
	s.t.Helper()
	p := &program{name: fmt.Sprintf("receiver-%d", len(s.programs))}
	s.start(p, "receiver", func() []string {
		listen := freeAddress(s)
		p.url, p.admin = "http://"+listen, freeAddress(s)
		return []string{"RECEIVER_LISTEN=" + listen, "RECEIVER_ADMIN=" + p.admin, "NATS_URL=" + s.NATSURL, "NATS_MONITOR_URL=" + s.NATSMonitorURL}
	})
	return p
}

// worker starts a worker and waits until it is ready.
func (s *system) worker() *program {
	s.t.Helper()
	p := &program{name: fmt.Sprintf("worker-%d", len(s.programs))}
	s.start(p, "worker", func() []string {
		p.admin = freeAddress(s)
		return append(s.Env(), "WORKER_ADMIN="+p.admin)
	})
	return p
}

// start starts p at addresses that it is given in its environment. Where another
// program took one of them between its choice and the program's listening there, it
// is given others.
func (s *system) start(p *program, binary string, environment func() []string) {
	s.t.Helper()
	p.log = filepath.Join(s.dir, p.name+".log")
	for try := 1; ; try++ {
		answering := ""
		process, err := devstack.StartProcess(s.t.Context(), devstack.Command{
			Name: p.name, Path: s.binary(binary), Args: []string{"--config", s.cat.Config.File},
			Env: append(environment(), "HOME="+s.dir), LogFile: p.log,
			Ready: func(ctx context.Context) (err error) {
				answering, err = ready(ctx, p.admin)
				return err
			},
		})
		if err == nil && answering != strconv.Itoa(process.PID()) { // it has not noticed yet
			err = errors.Join(devstack.ErrPortTaken, process.Kill())
		}
		if errors.Is(err, devstack.ErrPortTaken) && try < startTries {
			continue
		}
		require.NoError(s.t, err)
		p.Process = process
		s.programs = append(s.programs, p)
		return
	}
}

// probe returns why the program at admin is not ready.
func probe(ctx context.Context, admin string) error {
	_, err := ready(ctx, admin)
	return err
}

// ready is probe that also returns which process answered.
func ready(ctx context.Context, admin string) (process string, err error) {
	status, header, _, err := get(ctx, "http://"+admin+"/readyz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("not ready: status %d", status)
	}
	return header.Get(telemetry.HeaderProcess), err
}

// isReady waits until p is ready: one look alone is given up after a moment.
func (s *system) isReady(p *program) {
	s.t.Helper()
	s.eventually(p.name+" is ready", func() bool { return probe(s.t.Context(), p.admin) == nil })
}

func get(ctx context.Context, url string) (status int, header http.Header, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, "", err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(text), err
}

// drain tells p to stop and wants it to end in order.
func (s *system) drain(p *program) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	require.NoError(s.t, p.Stop(ctx), p.name)
	require.Equal(s.t, 0, p.ExitCode(), "%s: %s", p.name, p.State())
}

// stopAll ends what runs and looks through the logs.
func (s *system) stopAll() {
	for _, p := range s.programs {
		select {
		case <-p.Done():
			continue
		default:
		}
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		err := p.Stop(ctx)
		cancel()
		if err != nil || p.ExitCode() != 0 {
			s.t.Errorf("%s did not drain: %s, %v", p.name, p.State(), err)
		}
	}
	for _, p := range s.programs {
		if bytes.Contains([]byte(s.read(p.log)), []byte("DATA RACE")) {
			s.t.Errorf("%s has a data race", p.name)
		}
	}
	if s.t.Failed() {
		for _, p := range s.programs {
			text := s.read(p.log)
			s.t.Logf("%s (%s):\n%s", p.name, p.State(), text[max(0, len(text)-logShown):])
		}
	}
}

func (s *system) read(file string) string {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.t.Errorf("read log: %v", err)
	}
	return string(text)
}

// logged counts the lines of a program's log that hold text.
func (s *system) logged(p *program, text string) int {
	return strings.Count(s.read(p.log), text)
}

// run runs a program to its end and returns its exit code and all it printed.
func (s *system) run(env []string, name string, args ...string) (code int, output string) {
	s.t.Helper()
	path := s.binary(name)
	ctx, cancel := context.WithTimeout(s.t.Context(), stopLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Dir = append(env, "HOME="+s.dir), s.dir
	out, err := cmd.CombinedOutput()
	require.NoError(s.t, ctx.Err(), "%s goes on:\n%s", name, out)
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		require.NoError(s.t, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// metric sums the samples of a program's metric whose labels hold all of these.
func (s *system) metric(p *program, name string, labels ...string) int {
	s.t.Helper()
	_, _, text, err := get(s.t.Context(), "http://"+p.admin+"/metrics")
	require.NoError(s.t, err)
	sum := 0.0
lines:
	for line := range strings.Lines(text) {
		sample, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if found, _, _ := strings.Cut(sample, "{"); !ok || found != name {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(sample, label) {
				continue lines
			}
		}
		n, err := strconv.ParseFloat(value, 64)
		require.NoError(s.t, err)
		sum += n
	}
	return int(sum)
}

// Ports lie below those that stacks choose, which lie below those of clients.
const minPort, maxPort = 10000, 20000

var taken sync.Map // ports that tests of this process use

// freeAddress returns an address to listen on that no other test was given.
func freeAddress(s *system) string {
	s.t.Helper()
	for {
		port := minPort + rand.IntN(maxPort-minPort)
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		require.NoError(s.t, l.Close())
		if _, used := taken.LoadOrStore(port, true); used {
			continue
		}
		s.t.Cleanup(func() { taken.Delete(port) })
		return address
	}
}
