// Package fault says what is done to a system in a torture run, and does it.
//
//	plan := fault.NewPlan(seed, fault.Options{Length: 90 * time.Second})
//	fmt.Print(plan)                                   // what will be done
//	injector := &fault.Injector{Stage: s, Say: say}
//	injector.Run(ctx, plan)                           // does it, and heals all
package fault

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/faultpoint"
)

// Kind is a kind of harm.
type Kind string

// The kinds.
const (
	// Kill is SIGKILL at a random moment; the target is away for the time given.
	Kill Kind = "kill"
	// KillAt is SIGKILL at a fault point, when the target comes there.
	KillAt Kind = "kill at"
	// Freeze is SIGSTOP for the time given.
	Freeze Kind = "freeze"
	// FreezeAt is SIGSTOP at a fault point.
	FreezeAt Kind = "freeze at"
	// Restart is SIGTERM, and a start after the time given.
	Restart Kind = "restart"
	// Cut ends the connections of a cable, and keeps it cut.
	Cut Kind = "cut"
	// Delay lets answers come late.
	Delay Kind = "delay"
	// Swallow lets no answer through, and keeps the connections.
	Swallow Kind = "swallow"
	// Flush empties Redis.
	Flush Kind = "flush"
	// Snapshot saves Redis: what it starts with from now on, after whatever end.
	Snapshot Kind = "snapshot"
	// Rollback kills Redis and starts it with its last snapshot.
	Rollback Kind = "rollback"
	// Redrive sends all dead letters again, with the operator's command.
	Redrive Kind = "redrive"
	// Deadly lets an event arrive that kills every worker that judges it.
	Deadly Kind = "deadly"
	// Leader kills the server that leads EVENTS; for clusters.
	Leader Kind = "kill leader"
	// Backup copies the database, Restore puts the copy back in its place.
	Backup  Kind = "backup"
	Restore Kind = "restore"
)

// Fault is one harm.
type Fault struct {
	At     time.Duration
	Kind   Kind
	Target string
	// Point is where, for KillAt, FreezeAt and a Redrive that dies.
	Point string
	// For is how long it lasts.
	For time.Duration
	// Size is the milliseconds of a Delay.
	Size int
	// Certain waits for its target where others are left out because that is harmed
	// already: it is what the plan is made for.
	Certain bool
}

// String is a line of a plan.
func (f Fault) String() string {
	s := fmt.Sprintf("%8.2fs  %-11s %-16s", f.At.Seconds(), f.Kind, f.Target)
	if f.Point != "" {
		s += " " + f.Point
	}
	if f.Size > 0 {
		s += fmt.Sprintf(" %d ms", f.Size)
	}
	if f.For > 0 {
		s += fmt.Sprintf(" for %.1fs", f.For.Seconds())
	}
	return strings.TrimRight(s, " ")
}

// Plan is what is done, in order.
type Plan []Fault

// String lists the plan.
func (p Plan) String() string {
	var b strings.Builder
	for _, f := range p {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}

// Options shapes a plan.
type Options struct {
	// Length is how long harm is done.
	Length             time.Duration
	Receivers, Workers int
	// Cluster replaces the harm to one NATS server by harm to one of three.
	Cluster bool
	// Restore adds a backup of Postgres and its return.
	Restore bool
	// Certain is in every plan, spread over it, whatever is drawn beside.
	Certain []Fault
}

// gap is the mean time between two faults.
const gap = 2500 * time.Millisecond

// NewPlan returns the plan of a seed.
func NewPlan(seed uint64, o Options) Plan {
	w := &writer{Options: o, rng: rand.New(rand.NewPCG(seed, 0x6661_756c))} //nolint:gosec // a plan is no secret
	// The first moments let the system come to work.
	for at := 2 * time.Second; at < o.Length; at += gap/4 + time.Duration(w.rng.Int64N(int64(3*gap/2))) {
		f := w.fault()
		f.At = at
		w.plan = append(w.plan, f)
	}
	if o.Restore {
		w.insert(Fault{At: o.Length * 2 / 5, Kind: Backup, Target: "postgres", Certain: true})
		w.insert(Fault{At: o.Length * 4 / 5, Kind: Restore, Target: "postgres", Certain: true})
	}
	for i, f := range o.Certain {
		f.Certain = true
		f.At = o.Length * time.Duration(i+1) / time.Duration(len(o.Certain)+1)
		w.insert(f)
	}
	return w.plan
}

type writer struct {
	Options
	rng  *rand.Rand
	plan Plan
}

func (w *writer) insert(f Fault) {
	for i, each := range w.plan {
		if each.At > f.At {
			w.plan = append(w.plan[:i], append(Plan{f}, w.plan[i:]...)...)
			return
		}
	}
	w.plan = append(w.plan, f)
}

// fault draws one harm.
func (w *writer) fault() Fault {
	switch n := w.rng.IntN(100); {
	case n < 36:
		return w.program("worker", w.Workers)
	case n < 50:
		return w.program("receiver", w.Receivers)
	case n < 62:
		return w.nats()
	case n < 71:
		return w.service("postgres")
	case n < 77:
		return w.service("redis")
	case n < 81:
		return Fault{Kind: pick(w, Flush, Snapshot, Rollback, Rollback), Target: "redis"}
	case n < 89:
		return w.cable()
	case n < 92:
		// Every second one for long enough that its event spends its crash budget.
		return Fault{Kind: Deadly, Target: "worker", For: pick(w, w.between(6, 12), w.between(28, 36))}
	}
	f := Fault{Kind: Redrive, Target: "redrive"}
	if w.rng.IntN(3) > 0 {
		f.Point = pick(w, faultpoint.All["redrive"]...)
	}
	return f
}

// program harms one of n programs: most of all at a chosen moment.
func (w *writer) program(kind string, n int) Fault {
	f := Fault{Target: fmt.Sprintf("%s-%d", kind, 1+w.rng.IntN(n))}
	switch n := w.rng.IntN(10); {
	case n < 3:
		f.Kind = Kill
	case n < 7:
		f.Kind, f.Point = KillAt, pick(w, faultpoint.All[kind]...)
	case n < 8:
		f.Kind, f.Point, f.For = FreezeAt, pick(w, faultpoint.All[kind]...), w.sleep()
	case n < 9:
		f.Kind, f.For = Freeze, w.sleep()
	default:
		f.Kind = Restart
	}
	return f
}

// sleep is short, or longer than ack wait and lease.
func (w *writer) sleep() time.Duration {
	if w.rng.IntN(2) == 0 {
		return w.between(1, 3)
	}
	return w.between(8, 14)
}

func (w *writer) service(name string) Fault {
	f := Fault{Target: name, Kind: pick(w, Kill, Kill, Kill, Freeze, Restart), For: w.between(0, 3)}
	if f.Kind == Freeze {
		f.For = w.between(1, 7) // longer than a publish, a statement or a claim may take
	}
	if w.rng.IntN(8) == 0 {
		f.For = w.between(5, 10)
	}
	return f
}

func (w *writer) nats() Fault {
	if !w.Cluster {
		return w.service("nats")
	}
	if w.rng.IntN(2) == 0 {
		return Fault{Kind: Leader, Target: "nats", For: w.between(1, 5)}
	}
	return w.service(fmt.Sprintf("nats-%d", 1+w.rng.IntN(3)))
}

func (w *writer) cable() Fault {
	cables := []string{"worker-postgres", "worker-redis"}
	if !w.Cluster {
		cables = append(cables, "worker-nats", "receiver-nats")
	}
	f := Fault{Target: pick(w, cables...), Kind: pick(w, Cut, Delay, Swallow), For: w.between(0, 7)}
	if f.Kind == Delay {
		f.Size = 50 + w.rng.IntN(500)
	}
	return f
}

// between is a time between so many seconds.
func (w *writer) between(from, to int) time.Duration {
	return time.Duration(from)*time.Second + time.Duration(w.rng.IntN((to-from)*1000))*time.Millisecond
}

func pick[T any](w *writer, list ...T) T { return list[w.rng.IntN(len(list))] }
