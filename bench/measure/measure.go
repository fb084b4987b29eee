// Package measure decides what a run of the benchmark measures, in which order,
// and what must hold afterwards. What is compared takes turns within each
// round, so that a noisy machine is noisy for both.
//
//	result, err := measure.Run(ctx, measure.Options{Size: measure.Full, Print: print})
//
// An error means that something was lost, doubled or broken. Being slow is none.
package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onceledger/onceledger/bench/rig"
)

// ErrMismatch is a stream or a ledger that does not hold what it must.
var ErrMismatch = errors.New("mismatch")

// Size is how much a run measures.
type Size struct {
	// Rounds is how often each receiver cell is measured, Drains the same for
	// each worker cell.
	Rounds, Drains int
	// Senders are the numbers of concurrent senders.
	Senders []int
	// WarmUp goes before each Measure of a receiver cell.
	WarmUp, Measure time.Duration
	// BodySize is that of an event in bytes.
	BodySize int
	// Backlog is how many deliveries a worker is given.
	Backlog int
	// Bound ends the measured part of a drain; what it left is then applied in
	// batches, so that the recount covers the whole backlog all the same.
	Bound time.Duration
	// Batches are the batch sizes of the ledger's cells, and Ledger is how long each
	// is measured.
	Batches []int
	Ledger  time.Duration
	// Window is how far apart the two copies of a resent event are at most.
	Window int
	// Contention is how much of the contenders is measured.
	Contention Contention
	// Open, Backlogs, Growth and Idle are those of the other parts.
	Open     OpenSize
	Backlogs BacklogSize
	Growth   GrowthSize
	Idle     IdleSize
	// Judge says that the ratios are compared with what is expected of them.
	Judge bool
}

// Options configures Run.
type Options struct {
	Size Size
	// Only is one part to measure alone; empty: all.
	Only string
	Rig  rig.Options
	// Print is told each figure as it comes.
	Print func(line string)
}

// Result is everything a run found.
type Result struct {
	Started  time.Time      `json:"started"`
	Seconds  float64        `json:"seconds"`
	Machine  Machine        `json:"machine"`
	Size     Size           `json:"size"`
	Receiver []ReceiverCell `json:"receiver,omitempty"`
	Bare     []BareCell     `json:"bare,omitempty"`
	Worker   []DrainCell    `json:"worker,omitempty"`
	Ledger   []LedgerCell   `json:"ledger,omitempty"`
	// Contenders are other ways to do the same.
	Contenders []ContenderCell `json:"contenders,omitempty"`
	Open       []OpenCell      `json:"open,omitempty"`
	Backlogs   []BacklogCell   `json:"backlogs,omitempty"`
	Growth     []BacklogCell   `json:"growth,omitempty"`
	Idle       []IdleCell      `json:"idle,omitempty"`
	Ratios     []Ratio         `json:"ratios"`
}

// Run measures. It leaves nothing behind.
func Run(ctx context.Context, options Options) (result *Result, err error) {
	result = &Result{Started: time.Now().UTC(), Size: options.Size}
	s := &session{Options: options}
	parts, err := s.parts(result)
	if err != nil {
		return nil, err
	}
	s.sayPlan(parts)
	r, err := rig.Start(ctx, options.Rig)
	if err != nil {
		return nil, err
	}
	defer func() {
		stopped := r.Stop(context.WithoutCancel(ctx))
		if err == nil && stopped != nil { // a service that had to be killed spoils no figure
			options.Print(stopped.Error())
			return
		}
		err = errors.Join(err, stopped)
	}()
	if result.Machine, err = lookAtMachine(ctx, r); err != nil {
		return nil, err
	}
	options.Print(result.Machine.String())

	s.rig = r
	for _, p := range parts {
		if err := p.measure(ctx); err != nil {
			return nil, fmt.Errorf("measure %s: %w", p.name, err)
		}
	}

	result.Ratios = ratios(result)
	result.Seconds = time.Since(result.Started).Seconds()
	return result, nil
}

// session is what the parts share.
type session struct {
	Options
	rig  *rig.Rig
	tags int
}

// tag is new for each use, so that no event id is ever used twice.
func (s *session) tag() string {
	s.tags++
	return fmt.Sprintf("r%d", s.tags)
}

func (s *session) say(format string, args ...any) { s.Print(fmt.Sprintf(format, args...)) }

func mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMismatch, fmt.Sprintf(format, args...))
}
