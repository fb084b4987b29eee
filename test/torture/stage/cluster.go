package stage

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/onceledger/onceledger/internal/devstack"
)

// nodes is how many servers a cluster has: the fewest that outlive the loss of one.
const nodes = 3

// node is one NATS server of a cluster.
type node struct {
	name    string
	command devstack.Command

	mu      sync.Mutex
	process *devstack.Process
}

// startCluster starts three servers that know each other, and returns the
// address of all.
func startCluster(ctx context.Context, out string) ([]*node, string, error) {
	ports, err := ports(3 * nodes)
	if err != nil {
		return nil, "", err
	}
	var routes, urls []string
	for i := range nodes {
		routes = append(routes, fmt.Sprintf("%q", "nats://"+ports[3*i+1]))
		urls = append(urls, "nats://"+ports[3*i])
	}
	self, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("find own executable: %w", err)
	}
	var list []*node
	for i := range nodes {
		n := &node{name: fmt.Sprintf("nats-%d", i+1)}
		dir := filepath.Join(out, n.name)
		conf := filepath.Join(out, n.name+".conf")
		text := fmt.Sprintf(`server_name: %s
listen: %q
http: %q
max_payload: 2097152
jetstream { store_dir: %q, sync_interval: always, max_file_store: 17179869184 }
cluster { name: torture, listen: %q, routes: [%s] }
`, n.name, ports[3*i], ports[3*i+2], dir, ports[3*i+1], strings.Join(routes, ", "))
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			return list, "", fmt.Errorf("write nats configuration: %w", err)
		}
		n.command = devstack.Command{
			Name: n.name, Path: self, Env: append(os.Environ(), devstack.NATSConfEnv+"="+conf), LogFile: filepath.Join(out, n.name+".log"),
		}
		list = append(list, n)
		if err := n.Start(ctx); err != nil {
			return list, "", err
		}
	}
	for i := range nodes {
		if err := healthy(ctx, "http://"+ports[3*i+2]+"/healthz"); err != nil {
			return list, "", err
		}
	}
	return list, strings.Join(urls, ","), nil
}

func healthy(ctx context.Context, url string) error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the cluster: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Start starts the server and does not wait for its peers.
func (n *node) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil && n.process.State() == "running" {
		return nil
	}
	process, err := devstack.StartProcess(ctx, n.command)
	if err != nil {
		return err
	}
	n.process = process
	return nil
}

func (n *node) with(act func(*devstack.Process) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return nil
	}
	return act(n.process)
}

// Stop ends the server in order.
func (n *node) Stop(ctx context.Context) error {
	return n.with(func(p *devstack.Process) error { return p.Stop(ctx) })
}

// Kill ends it with SIGKILL.
func (n *node) Kill() error { return n.with((*devstack.Process).Kill) }

// Pause freezes it.
func (n *node) Pause() error { return n.with((*devstack.Process).Pause) }

// Resume lets it go on.
func (n *node) Resume() error { return n.with((*devstack.Process).Resume) }
