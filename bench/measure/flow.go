package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/onceledger/onceledger/bench/load"
	"github.com/onceledger/onceledger/bench/rig"
)

const (
	// every is how often progress and memory are noted.
	every = 250 * time.Millisecond
	// catchUp bounds the wait for the ledger after the last answer.
	catchUp = 2 * time.Minute
	mib     = 1 << 20
)

// Moment is how far workers are at one time.
type Moment struct {
	// Second counts from the beginning of what is measured, and is negative before.
	Second float64 `json:"second"`
	// Done deliveries are acknowledged by workers.
	Done int `json:"done"`
	// Receiver and Worker are their memory in MiB, that of several workers the most
	// of one.
	Receiver float64 `json:"receiver_mib,omitempty"`
	Worker   float64 `json:"worker_mib,omitempty"`
}

// flow is a receiver under load, with workers or without.
type flow struct {
	*session
	receiver *rig.Program
	workers  []*rig.Program
	events   load.Events // so far
	failed   int
}

// flow starts the programs on empty services.
func (s *session) flow(ctx context.Context, workers int) (f *flow, err error) {
	if err := s.rig.Reset(ctx); err != nil {
		return nil, err
	}
	f = &flow{session: s}
	if f.receiver, err = s.rig.StartReceiver(ctx, rig.GroupCommit); err != nil {
		return nil, err
	}
	if workers > 0 {
		if f.workers, err = s.rig.StartWorkers(ctx, workers); err != nil {
			return nil, errors.Join(err, f.stop(ctx))
		}
	}
	return f, nil
}

func (f *flow) stop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	errs := []error{f.receiver.Stop(ctx)}
	for _, w := range f.workers {
		if w != nil {
			errs = append(errs, w.Stop(ctx))
		}
	}
	return errors.Join(errs...)
}

func (f *flow) programs() map[string]*rig.Program {
	all := map[string]*rig.Program{"receiver": f.receiver}
	for i, w := range f.workers {
		all[workerName(i)] = w
	}
	return all
}

// workerName keeps the CPU time of several workers apart until it is added up.
func workerName(i int) string { return fmt.Sprint("worker ", i+1) }

// addWorkers adds up what several workers cost.
func addWorkers(cost rig.Cost, workers int) rig.Cost {
	for i := range workers {
		if used, ok := cost.Of[workerName(i)]; ok {
			cost.Of["worker"] += used
			delete(cost.Of, workerName(i))
		}
	}
	return cost
}

// sent is what one load made of a flow.
type sent struct {
	*load.Result
	// rate is distinct events a second from the first request until the ledger had
	// the last of them, lag what passed between the last answer and that.
	rate    float64
	lag     time.Duration
	stored  int // deliveries that became messages of the stream
	cost    rig.Cost
	written rig.Written
	moments []Moment
}

// send puts the flow under load and waits until everything is in the ledger.
func (f *flow) send(ctx context.Context, plan load.Plan) (*sent, error) {
	plan.URL, plan.Config, plan.Source, plan.Tag = f.receiver.URL, f.rig.ConfigPath(), rig.Source, f.tag()
	before, err := f.rig.Written(ctx)
	if err != nil {
		return nil, err
	}
	first, err := f.stored(ctx)
	if err != nil {
		return nil, err
	}
	var got sent
	for _, p := range f.programs() {
		p.ForgetPeak()
	}
	meter := f.rig.Meter(f.programs())
	watched := f.watch(ctx)
	got.Result, err = load.Run(ctx, plan)
	var end rig.Progress
	if err == nil && len(f.workers) > 0 {
		end, err = f.complete(ctx)
	}
	moments, watchErr := watched()
	if err := errors.Join(err, watchErr); err != nil {
		return nil, err
	}
	got.cost = addWorkers(meter(), len(f.workers))
	got.cost.Of["load"] = got.CPU
	for _, m := range moments {
		got.moments = append(got.moments, m.since(got.From, first))
	}
	last, err := f.stored(ctx)
	if err != nil {
		return nil, err
	}
	got.stored = last - first
	done := got.Last
	if len(f.workers) > 0 {
		done = end.Until
		got.lag = max(done.Sub(got.Last), 0)
	}
	got.rate = float64(got.Events.Applied) / done.Sub(got.First).Seconds()
	f.events.Applied += got.Events.Applied
	f.events.Conflicts += got.Events.Conflicts
	f.events.Least += got.Events.Least
	f.events.Most += got.Events.Most
	f.failed += got.Failed()
	// What a load changed is on the disk in full only after a checkpoint.
	if err := f.rig.Checkpoint(ctx); err != nil {
		return nil, err
	}
	after, err := f.rig.Written(ctx)
	if err != nil {
		return nil, err
	}
	got.written = after.Since(before)
	return &got, nil
}

// stored is how many messages the stream has got so far.
func (f *flow) stored(ctx context.Context) (int, error) {
	if len(f.workers) == 0 {
		return f.rig.Messages(ctx)
	}
	p, err := f.rig.Progress(ctx)
	return p.Total, err
}

// complete waits until the workers are done with everything.
func (f *flow) complete(ctx context.Context) (rig.Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		p, err := f.rig.Progress(ctx)
		if err != nil || p.Done() {
			return p, err
		}
		select {
		case <-ctx.Done():
			return p, fmt.Errorf("wait for ledger: %d of %d are done: %w", p.Acked, p.Total, ctx.Err())
		case <-ticker.C:
		}
	}
}

// note is a moment that does not know yet when the measuring began.
type note struct {
	at time.Time
	Moment
}

func (n note) since(from time.Time, done int) Moment {
	n.Second = math.Round(n.at.Sub(from).Seconds()*1000) / 1000
	n.Done -= done
	return n.Moment
}

// watch notes the progress and the memory of the programs until the function that it
// returns is called.
func (f *flow) watch(ctx context.Context) (stop func() ([]note, error)) {
	ctx, cancel := context.WithCancel(ctx)
	var notes []note
	var err error
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			var n note
			if n, err = f.note(ctx); err != nil {
				if ctx.Err() != nil {
					err = nil
				}
				return
			}
			notes = append(notes, n)
		}
	})
	return func() ([]note, error) {
		cancel()
		watching.Wait()
		return notes, err
	}
}

func (f *flow) note(ctx context.Context) (n note, err error) {
	if len(f.workers) > 0 {
		p, err := f.rig.Progress(ctx)
		if err != nil {
			return n, err
		}
		n.Done = p.Acked
	}
	n.at = time.Now()
	if f.receiver != nil {
		n.Receiver = inMiB(f.receiver.Memory())
	}
	for _, w := range f.workers {
		n.Worker = max(n.Worker, inMiB(w.Memory()))
	}
	return n, nil
}

func inMiB(bytes int64) float64 { return math.Round(float64(bytes)/mib*10) / 10 }

// check holds stream and ledger against everything that was sent.
func (f *flow) check(ctx context.Context) error {
	if len(f.workers) == 0 {
		stored, err := f.rig.CountEvents(ctx)
		if err != nil {
			return err
		}
		n, failed := f.events.Applied, f.failed
		f.events, f.failed = load.Events{}, 0 // the stream is empty now
		if stored.Distinct < n || stored.Distinct > n+failed {
			return mismatch("%d events were accepted, %d deliveries failed, and the stream holds %d events", n, failed, stored.Distinct)
		}
		return nil
	}
	ledger, err := f.rig.CountLedger(ctx)
	if err != nil {
		return err
	}
	letters, err := f.rig.Letters(ctx)
	if err != nil {
		return err
	}
	return explain(f.events, f.failed, ledger, letters)
}

// explain compares a ledger with what was accepted. What failed may be there all the
// same, when only its answer was lost.
func explain(want load.Events, failed int, got rig.Ledger, letters int) error {
	switch {
	case got.Unbalanced != 0:
		return mismatch("%d accounts are not the sum of their transfers", got.Unbalanced)
	case got.Applied != got.Transfers:
		return mismatch("%d events are applied and have %d transfers", got.Applied, got.Transfers)
	case got.Others != letters:
		return mismatch("%d events are not applied, and there are %d dead letters", got.Others, letters)
	case got.Applied < want.Applied || got.Applied > want.Applied+failed:
		return mismatch("%d events were accepted, %d deliveries failed, and %d are applied", want.Applied, failed, got.Applied)
	case letters < want.Conflicts || letters > want.Conflicts+failed:
		return mismatch("%d conflicts were accepted, %d deliveries failed, and there are %d dead letters", want.Conflicts, failed, letters)
	case failed == 0 && (got.Amount < want.Least || got.Amount > want.Most):
		return mismatch("the transfers move %d, and must move %d to %d", got.Amount, want.Least, want.Most)
	}
	return nil
}
