package devstack

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

const (
	stateFile = "devstack.json"

	// Ports are taken below the ranges from which systems serve outgoing
	// connections (Linux 32768, macOS 49152), so that none is lost to a client
	// while its server is down.
	minPort, maxPort = 20000, 32000
)

// state is what a data folder keeps between runs besides the services' data.
type state struct {
	NATSPort     int    `json:"nats_port"`
	MonitorPort  int    `json:"monitor_port"`
	PostgresPort int    `json:"postgres_port"`
	RedisPort    int    `json:"redis_port"`
	Password     string `json:"password"`
	// PostgresDir is set where Postgres's user cannot reach the data folder.
	PostgresDir string `json:"postgres_dir,omitempty"`
}

// openState reads the state of dir, or makes a new one with a password.
func openState(dir string) (*state, error) {
	s := &state{Password: rand.Text()}
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return s, s.save(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read state in %s: %w", stateFile, err)
	}
	return s, nil
}

func (s *state) save(dir string) error {
	if err := writeJSON(filepath.Join(dir, stateFile), s); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}

func (s *state) ports() []*int {
	return []*int{&s.NATSPort, &s.MonitorPort, &s.PostgresPort, &s.RedisPort}
}

// claimPort keeps *port where it is free and picks another one where not.
func claimPort(port *int) {
	for *port == 0 || !portFree(*port) {
		*port = minPort + mathrand.IntN(maxPort-minPort) //nolint:gosec // a port is no secret
	}
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
