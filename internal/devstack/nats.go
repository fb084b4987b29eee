package devstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	// NATSConfEnv makes a binary that calls Main the NATS server of this file.
	NATSConfEnv = "ONCELEDGER_DEVSTACK_NATS"

	// natsStore bounds what all streams together may hold. It is no reservation
	// on the disk; the two streams' default limits, 8 and 2 GiB, fit well within,
	// so that a full EVENTS leaves DLQ its room.
	natsStore = 16 << 30
	// natsSmallStore lets many tests make streams of their own.
	natsSmallStore = 1 << 40
	// natsPayload is twice the largest message a receiver publishes: a dead
	// letter carries the event and what is said about it.
	natsPayload = 2 << 20
)

// Main serves NATS and exits if this process was started for that. Call it
// first in main and in TestMain: a stack's NATS server is the running binary,
// executed again, so that it needs no installation and can be killed.
func Main() {
	conf, ok := os.LookupEnv(NATSConfEnv)
	if !ok {
		return
	}
	if err := serveNATS(conf); err != nil {
		fmt.Fprintln(os.Stderr, "serve nats:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serveNATS(conf string) error {
	opts, err := server.ProcessConfigFile(conf)
	if err != nil {
		return err
	}
	opts.NoSigs = true // its own handler exits with 1 on SIGTERM
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.ConfigureLogger()

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	s.Start()
	go func() {
		<-stop
		s.Shutdown()
	}()
	s.WaitForShutdown()
	return nil
}

// startNATS writes the server's configuration and starts it.
func (s *Stack) startNATS(ctx context.Context) error {
	dir := filepath.Join(s.dir, "nats")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make nats folder: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own executable: %w", err)
	}
	conf := filepath.Join(dir, "nats.conf")

	s.NATS, err = s.launch(ctx, func() (Command, error) {
		if err := os.WriteFile(conf, []byte(s.natsConf(dir)), 0o600); err != nil {
			return Command{}, fmt.Errorf("write nats configuration: %w", err)
		}
		health := fmt.Sprintf("http://%s:%d/healthz", loopback, s.state.MonitorPort)
		return Command{
			Name:    "nats",
			Path:    self,
			Env:     append(os.Environ(), NATSConfEnv+"="+conf),
			LogFile: filepath.Join(s.dir, "logs", "nats.log"),
			Ready:   func(ctx context.Context) error { return errors.Join(probeHTTP(ctx, health), s.probeNATS()) },
			lock:    s.lockPath(NATS),
		}, nil
	}, &s.state.NATSPort, &s.state.MonitorPort)
	if err != nil {
		return err
	}
	s.NATSURL = s.natsURL()
	s.NATSMonitorURL = fmt.Sprintf("http://%s:%d", loopback, s.state.MonitorPort)
	return nil
}

func (s *Stack) natsURL() string {
	return fmt.Sprintf("nats://%s:%s@%s:%d", userName, s.state.Password, loopback, s.state.NATSPort)
}

// probeNATS connects with the password of this stack. Its health page alone does not
// say whose it is: where another stack has taken the port, that one's answers, for as
// long as the server of this stack has not noticed.
func (s *Stack) probeNATS() error {
	conn, err := nats.Connect(s.natsURL(), nats.NoReconnect())
	if err != nil {
		return fmt.Errorf("connect to nats: %w", err)
	}
	conn.Close()
	return nil
}

func (s *Stack) natsConf(dir string) string {
	store := int64(natsStore)
	if s.options.Small {
		store = natsSmallStore
	}
	return fmt.Sprintf(`# Written at every start.
server_name: onceledger
listen: "%[1]s:%[2]d"
http: "%[1]s:%[3]d"
max_payload: %[4]d
authorization { user: %[5]q, password: %[6]q }
jetstream {
  store_dir: %[7]q
  sync_interval: always
  max_file_store: %[8]d
}
`, loopback, s.state.NATSPort, s.state.MonitorPort, natsPayload, userName, s.state.Password, dir, store)
}

func probeHTTP(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("probe %s: %s", url, response.Status)
	}
	return nil
}
