package rig

import (
	"maps"
	"syscall"
	"time"

	"github.com/onceledger/onceledger/internal/devstack"
)

// Cost is the CPU time that was used between two looks.
type Cost struct {
	// Of are the programs and services, by name, with their children. Only on
	// Linux; empty elsewhere.
	Of map[string]time.Duration
	// Machine is that of everything on this machine, Wall what passed.
	Machine, Wall time.Duration
}

// Sum is what all that is ours used.
func (c Cost) Sum() time.Duration {
	var sum time.Duration
	for _, used := range c.Of {
		sum += used
	}
	return sum
}

// Foreign is how many cores were busy with what is not ours. Above a few
// tenths the rates say more about the neighbours.
func (c Cost) Foreign() float64 {
	if c.Wall <= 0 || len(c.Of) == 0 {
		return 0
	}
	return max(float64(c.Machine-c.Sum())/float64(c.Wall), 0)
}

// Add adds what another time cost, for a mean over rounds.
func (c *Cost) Add(other Cost) {
	if c.Of == nil {
		c.Of = map[string]time.Duration{}
	}
	for name, used := range other.Of {
		c.Of[name] += used
	}
	c.Machine += other.Machine
	c.Wall += other.Wall
}

// Meter begins a look at what the services and the given programs use, or, where
// nil is given, this one; the function it returns ends it.
func (r *Rig) Meter(programs map[string]*Program) func() Cost {
	pids := map[string]int{}
	for name, service := range map[string]*devstack.Service{
		"nats": r.stack.NATS, "postgres": r.stack.Postgres, "redis": r.stack.Redis,
	} {
		if p := service.Process(); p != nil {
			pids[name] = p.PID()
		}
	}
	for name, p := range programs {
		pids[name] = p.PID()
	}
	read := func() map[string]time.Duration {
		used := times(pids)
		if programs == nil && len(used) > 0 {
			used["bench"] = ownTime()
		}
		return used
	}
	began, machine, used := time.Now(), machineTime(), read()
	return func() Cost {
		now := read()
		maps.DeleteFunc(now, func(name string, _ time.Duration) bool { _, ok := used[name]; return !ok })
		for name := range now {
			now[name] -= used[name]
		}
		return Cost{Of: now, Machine: machineTime() - machine, Wall: time.Since(began)}
	}
}

// ownTime is the CPU time of this process without its children.
func ownTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
