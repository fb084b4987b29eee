package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/pkg/dedupe"
)

// holdLimit bounds how long the deliveries of an interrupted attempt are kept
// from other workers, who would take the attempt for one that killed its worker.
const holdLimit = 2 * time.Minute

// debts are attempts and readings that were interrupted by an outage or a stop, and
// are to be given back as soon as the database takes it: nobody is to be blamed.
// Until then their deliveries are kept in progress, since whoever got one meanwhile
// would see an attempt without an end and count a crash.
type debts struct {
	pool  dedupe.Execer
	delay time.Duration // bounds how long what is given back is put off

	paying sync.Mutex // held by the one who pays; before mu
	mu     sync.Mutex
	open   []debt // only ever longer, but for who pays
}

// debt is an attempt, a reading, or both.
type debt struct {
	attempt dedupe.Attempt
	reading *dedupe.Reading
	since   time.Time
	held    []jetstream.Msg
}

// owe notes what an item has begun and not ended, and reports whether there is
// anything. Where nothing is decided, its deliveries are answered once it is paid.
func (d *debts) owe(it *item) bool {
	owed := debt{reading: it.reading.Swap(nil), since: time.Now()}
	if it.fate == undecided {
		owed.attempt = it.perhaps
		if begun := it.lease.Load(); begun != nil {
			owed.attempt = *begun
		}
		it.ended()
		it.perhaps = dedupe.Attempt{}
	}
	if owed.attempt.Number == 0 && owed.reading == nil {
		return false
	}
	if it.fate == undecided {
		for _, each := range append(it.copies, it) {
			owed.held = append(owed.held, each.msg)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = append(d.open, owed)
	return true
}

// pay gives the attempts back and ends the readings, and gives their deliveries back
// after them. It takes at most probeTimeout, and as long again for who pays already.
func (d *debts) pay(ctx context.Context) error {
	d.paying.Lock()
	defer d.paying.Unlock()
	d.mu.Lock()
	open := slices.Clone(d.open)
	d.mu.Unlock()
	if len(open) == 0 {
		return nil
	}
	var attempts []dedupe.Attempt
	var readings []dedupe.Reading
	for _, each := range open {
		if each.attempt.Number != 0 {
			attempts = append(attempts, each.attempt)
		}
		if each.reading != nil {
			readings = append(readings, *each.reading)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := errors.Join(dedupe.GiveBack(ctx, d.pool, attempts), dedupe.EndReadings(ctx, d.pool, readings)); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, each := range d.open[:len(open)] {
		for _, msg := range each.held {
			_ = msg.NakWithDelay(minDelay + jitter(d.delay)) // a lost one comes again after the ack wait
		}
	}
	d.open = slices.Delete(d.open, 0, len(open))
	return nil
}

// hold tells the broker that what is owed is still in work. What has been owed
// for too long is left to others.
func (d *debts) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, each := range d.open {
		if time.Since(each.since) > holdLimit {
			d.open[i].held = nil
			continue
		}
		for _, msg := range each.held {
			_ = msg.InProgress() // a lost one shortens its time
		}
	}
}

// settle pays what is owed at a stop, until ctx ends, and once if it has ended: who
// takes the events over must not take this worker for one that died of them.
func (d *debts) settle(ctx context.Context) {
	again := time.NewTicker(probeFirst)
	defer again.Stop()
	for d.pay(context.WithoutCancel(ctx)) != nil {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}
