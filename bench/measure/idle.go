package measure

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/onceledger/onceledger/bench/rig"
)

// IdleSize is how long PartIdle takes: Settle before Measure.
type IdleSize struct{ Settle, Measure time.Duration }

// IdleCell is a program or a service with nothing to do.
type IdleCell struct {
	Name string `json:"name"`
	// CPU is the share of one core in per cent; Memory is in MiB, and 0 for services.
	CPU    float64 `json:"cpu_percent"`
	Memory float64 `json:"memory_mib"`
}

// idle lets a receiver and a worker wait for events.
func (s *session) idle(ctx context.Context) (cells []IdleCell, err error) {
	f, err := s.flow(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.stop(ctx)) }()
	if err := pause(ctx, s.Size.Idle.Settle); err != nil {
		return nil, err
	}
	programs := map[string]*rig.Program{"receiver": f.receiver, "worker": f.workers[0]}
	meter := s.rig.Meter(programs)
	if err := pause(ctx, s.Size.Idle.Measure); err != nil {
		return nil, err
	}
	cost := meter()
	for name, used := range cost.Of {
		c := IdleCell{Name: name, CPU: 100 * used.Seconds() / cost.Wall.Seconds()}
		if p := programs[name]; p != nil {
			c.Memory = inMiB(p.Memory())
		}
		cells = append(cells, c)
	}
	order := []string{"receiver", "worker", "nats", "postgres", "redis"}
	slices.SortFunc(cells, func(a, b IdleCell) int { return slices.Index(order, a.Name) - slices.Index(order, b.Name) })
	for _, c := range cells {
		s.say("%-9s %5.1f %% of a core   %5.1f MiB", c.Name, c.CPU, c.Memory)
	}
	return cells, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
