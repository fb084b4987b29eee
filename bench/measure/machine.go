package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/onceledger/onceledger/bench/rig"
)

const (
	syncs     = 200
	syncBytes = 4096
	// unlikely is a sync that no disk is capable of.
	unlikely = 15 * time.Microsecond
)

// Machine is what the figures depend on.
type Machine struct {
	System   string  `json:"system"`
	CPU      string  `json:"cpu"`
	Cores    int     `json:"cores"`
	Go       string  `json:"go"`
	NATS     string  `json:"nats"`
	Postgres string  `json:"postgres"`
	Redis    string  `json:"redis"`
	SyncUS   float64 `json:"fsync_us"` // median of an append of 4 KiB and its fsync
}

// String is one line for a person.
func (m Machine) String() string {
	text := fmt.Sprintf("%s, %d cores of %s; fsync of 4 KiB %.0f µs; %s, nats-server %s, Postgres %s, Redis %s",
		m.System, m.Cores, m.CPU, m.SyncUS, m.Go, m.NATS, m.Postgres, m.Redis)
	if m.SyncUS < float64(unlikely/time.Microsecond) {
		text += "; this is memory, not a disk: choose another folder with -dir"
	}
	return text
}

func lookAtMachine(ctx context.Context, r *rig.Rig) (Machine, error) {
	m := Machine{System: runtime.GOOS + "/" + runtime.GOARCH, CPU: cpuModel(), Cores: runtime.NumCPU(), Go: runtime.Version()}
	versions, err := r.Versions(ctx)
	if err != nil {
		return m, err
	}
	m.NATS, m.Postgres, m.Redis = versions.NATS, versions.Postgres, versions.Redis
	sync, err := syncTime()
	m.SyncUS = float64(sync) / float64(time.Microsecond)
	return m, err
}

// cpuModel is what Linux calls the processor.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // elsewhere there is none
	for line := range bytes.Lines(text) {
		if name, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown model"
}

// syncTime measures the disk that the services write to.
func syncTime() (median time.Duration, err error) {
	f, err := os.CreateTemp("", "onceledger-bench-sync-")
	if err != nil {
		return 0, fmt.Errorf("measure fsync: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	var took []time.Duration
	block := make([]byte, syncBytes)
	for range syncs {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, fmt.Errorf("measure fsync: %w", err)
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("measure fsync: %w", err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
