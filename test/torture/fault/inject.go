package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/onceledger/onceledger/internal/faultpoint"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/test/torture/stage"
)

const (
	// orderLimit is how long a program may take to come to the point of an order.
	orderLimit = 15 * time.Second
	// redriveLimit bounds one run of the operator's command.
	redriveLimit = 40 * time.Second
	// startTries is how often the start of a service is tried.
	startTries = 3
	// stopLimit bounds the end of a member that is told to stop.
	stopLimit = 90 * time.Second
)

// errSkipped is a fault whose target is harmed already, or did not come to its
// point.
var errSkipped = errors.New("not done")

// Injector does what a plan says.
type Injector struct {
	Stage *stage.Stage
	Say   func(format string, args ...any)
	// Deadly lets a deadly event arrive.
	Deadly func()

	mu     sync.Mutex
	busy   map[string]bool
	counts map[string]map[Kind]int // by component
	kills  map[string]int          // of the harness's own SIGKILL, by component
	points map[string]int
	err    error
	redis  bool // there is a snapshot
	orders int
}

// Done says what was done, by component: receiver, worker, nats, postgres,
// redis, cable, redrive.
func (i *Injector) Done() map[string]map[Kind]int { return i.counts }

// Kills says how often a component was killed, other than at fault points.
func (i *Injector) Kills() map[string]int { return i.kills }

// Points says how often a program died or froze at each fault point.
func (i *Injector) Points() map[string]int { return i.points }

func (i *Injector) killed(target string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kills[component(target)]++
}

// Run does what the plan says, each fault beside those that still last, and
// returns when all of them are over. An error is one of the harness.
func (i *Injector) Run(ctx context.Context, plan Plan) error {
	i.busy, i.counts, i.kills = map[string]bool{}, map[string]map[Kind]int{}, map[string]int{}
	i.points = map[string]int{}
	began := time.Now()
	var running sync.WaitGroup
	for _, f := range plan {
		select {
		case <-time.After(time.Until(began.Add(f.At))):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() { i.one(ctx, f) })
	}
	running.Wait()
	return errors.Join(i.err, ctx.Err())
}

// one does a fault, and what ends it.
func (i *Injector) one(ctx context.Context, f Fault) {
	for !i.take(f.Target) {
		if !f.Certain {
			i.Say("%s: is harmed already, left out", f)
			return
		}
		sleep(ctx, 100*time.Millisecond)
	}
	defer i.release(f.Target)
	i.Say("%s", f)
	err := i.do(ctx, f)
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case errors.Is(err, errSkipped), errors.Is(err, stage.ErrNotRunning):
		i.Say("%s: %v", f, err)
	case err != nil && ctx.Err() == nil:
		i.err = errors.Join(i.err, fmt.Errorf("%s: %w", f, err))
	default:
		component := component(f.Target)
		if i.counts[component] == nil {
			i.counts[component] = map[Kind]int{}
		}
		i.counts[component][f.Kind]++
		if f.Point != "" {
			i.points[f.Point]++
		}
	}
}

// component is the kind of a target: "worker" of worker-3, "cable" of a proxy.
func component(target string) string {
	name, rest, _ := strings.Cut(target, "-")
	if rest != "" && strings.Trim(rest, "0123456789") != "" {
		return "cable"
	}
	return name
}

func (i *Injector) take(target string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.busy[target] {
		return false
	}
	i.busy[target] = true
	return true
}

func (i *Injector) release(target string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.busy, target)
}

func (i *Injector) do(ctx context.Context, f Fault) error {
	member, cable := i.Stage.Members[f.Target], i.Stage.Proxies[f.Target]
	switch f.Kind {
	case Kill:
		if err := member.Kill(); err != nil {
			return err
		}
		i.killed(f.Target)
		sleep(ctx, f.For)
		return start(ctx, member)
	case Restart:
		if err := stop(ctx, member); err != nil {
			return err
		}
		sleep(ctx, f.For)
		return start(ctx, member)
	case Freeze:
		if err := member.Pause(); err != nil {
			return err
		}
		sleep(ctx, f.For)
		return member.Resume()
	case KillAt:
		return i.order(ctx, f.Target, f.Point+" kill")
	case FreezeAt:
		if err := i.order(ctx, f.Target, f.Point+" stop"); err != nil {
			return err
		}
		sleep(ctx, f.For)
		return member.Resume()
	case Cut:
		cable.Cut()
		sleep(ctx, f.For)
		return cable.Mend(context.WithoutCancel(ctx))
	case Delay, Swallow:
		harm := cable.Swallow
		if f.Kind == Delay {
			harm = func() error { return cable.Delay(f.Size) }
		}
		if err := harm(); err != nil {
			return err
		}
		sleep(ctx, f.For)
		return cable.Mend(context.WithoutCancel(ctx))
	case Deadly:
		return i.deadly(ctx, f)
	case Redrive:
		return i.redrive(ctx, f)
	case Leader:
		return i.killLeader(ctx, f)
	case Backup, Restore:
		return i.database(ctx, f.Kind)
	}
	return i.cache(ctx, f.Kind)
}

// start starts a member again; a database that recovers on a busy machine may need
// longer than one start waits.
func start(ctx context.Context, member stage.Member) error {
	ctx = context.WithoutCancel(ctx)
	var err error
	for range startTries {
		if err = member.Start(ctx); err == nil {
			return nil
		}
	}
	return err
}

// stop ends a member in order, within a bound.
func stop(ctx context.Context, member stage.Member) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	return member.Stop(ctx)
}

// order lets a program die or freeze where it comes to a point, and waits until
// it has.
func (i *Injector) order(ctx context.Context, name, order string) error {
	file := i.Stage.Order(name)
	if err := os.WriteFile(file+".new", []byte(order), 0o600); err != nil {
		return fmt.Errorf("write order: %w", err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("write order: %w", err)
	}
	for until := time.Now().Add(orderLimit); time.Now().Before(until) && ctx.Err() == nil; sleep(ctx, 20*time.Millisecond) {
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			return nil
		}
	}
	if err := os.Remove(file); errors.Is(err, os.ErrNotExist) {
		return nil // in the last moment
	}
	return fmt.Errorf("%w: nobody came to the point in %s", errSkipped, orderLimit)
}

// deadly lets every worker die of an event for a while.
func (i *Injector) deadly(ctx context.Context, f Fault) error {
	var files []string
	for name := range i.Stage.Members {
		if component(name) == "worker" {
			files = append(files, i.Stage.Order(name)+faultpoint.Deadly)
		}
	}
	for _, file := range files {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return fmt.Errorf("write order: %w", err)
		}
	}
	i.Deadly()
	sleep(ctx, f.For)
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("remove order: %w", err)
		}
	}
	return nil
}

// redrive runs the operator's command, which may die on its way.
func (i *Injector) redrive(ctx context.Context, f Fault) error {
	i.mu.Lock()
	i.orders++
	name := fmt.Sprintf("redrive-%d", i.orders)
	i.mu.Unlock()
	if f.Point != "" {
		if err := os.WriteFile(i.Stage.Order(name), []byte(f.Point+" kill"), 0o600); err != nil {
			return fmt.Errorf("write order: %w", err)
		}
		defer func() { _ = os.Remove(i.Stage.Order(name)) }() // it is gone where it was obeyed
	}
	ctx, cancel := context.WithTimeout(ctx, redriveLimit)
	defer cancel()
	out, err := i.Stage.Command(ctx, name, "dlq", "redrive", "--all", "--yes", "--rate", "2000", "--note", "torture").CombinedOutput()
	last := strings.TrimSpace(string(out))
	if n := strings.LastIndexByte(last, '\n'); n >= 0 {
		last = last[n+1:]
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("run redrive: %w", err)
	}
	if exit != nil && exit.ExitCode() == -1 && ctx.Err() == nil {
		i.killed(f.Target)
	}
	i.Say("          redrive: %v, %s", err, last) // a service may be away: then it is for the next one
	return nil
}

func (i *Injector) killLeader(ctx context.Context, f Fault) error {
	asking, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	events, err := i.Stage.JS().Stream(asking, stream.Events)
	if err != nil || events.CachedInfo().Cluster == nil {
		return fmt.Errorf("%w: nobody says who leads: %w", errSkipped, err)
	}
	leader := events.CachedInfo().Cluster.Leader
	if i.Stage.Members[leader] == nil || !i.take(leader) {
		return fmt.Errorf("%w: leader %q is harmed already", errSkipped, leader)
	}
	defer i.release(leader)
	i.Say("          %s leads", leader)
	f.Kind, f.Target = Kill, leader
	return i.do(ctx, f) // counts the kill
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
