package devstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// addressFile is where a running stack says how to reach it.
const addressFile = "stack.json"

// Addresses says how to reach a stack. The URLs hold passwords.
type Addresses struct {
	NATSURL        string `json:"nats_url"`
	NATSMonitorURL string `json:"nats_monitor_url"`
	DatabaseURL    string `json:"database_url"`
	RedisURL       string `json:"redis_url"`
	// ReceiverURL is set by whoever runs a receiver on the stack.
	ReceiverURL string `json:"receiver_url,omitempty"`
	// Config is the configuration that whoever runs programs on the stack gave them,
	// absolute.
	Config string `json:"config,omitempty"`
}

// ReadAddresses reads the addresses of the stack that runs in dir.
func ReadAddresses(dir string) (Addresses, error) {
	var a Addresses
	text, err := os.ReadFile(filepath.Join(dir, addressFile))
	if errors.Is(err, os.ErrNotExist) {
		return a, fmt.Errorf("read addresses of %s: no stack runs there; start one with: onceledger up --data %s", dir, dir)
	}
	if err != nil {
		return a, fmt.Errorf("read addresses: %w", err)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("read addresses in %s: %w", addressFile, err)
	}
	return a, nil
}

// Env returns the addresses as the environment variables the programs read.
func (a Addresses) Env() []string {
	return []string{
		"NATS_URL=" + a.NATSURL,
		"NATS_MONITOR_URL=" + a.NATSMonitorURL,
		"DATABASE_URL=" + a.DatabaseURL,
		"REDIS_URL=" + a.RedisURL,
	}
}

func (a Addresses) write(dir string) error {
	if err := writeJSON(filepath.Join(dir, addressFile), a); err != nil {
		return fmt.Errorf("write addresses: %w", err)
	}
	return nil
}

// writeJSON replaces path in one step; only its owner may read it.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	next := path + ".new"
	if err := os.WriteFile(next, append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}
