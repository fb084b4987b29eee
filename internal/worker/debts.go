package worker

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/pkg/dedupe"
)

// holdLimit bounds how long the deliveries of an interrupted attempt are kept
// from other workers, who would take the attempt for one that killed its worker.
const holdLimit = 2 * time.Minute

// debts are attempts, and readings, that were interrupted by an outage or a stop, and are to
// be given back as soon as the database takes it: nobody is to be blamed. Until
// then their deliveries are kept in progress, since whoever got one meanwhile
// would see an attempt without an end and count a crash.
type debts struct {
	pool dedupe.Execer

	mu       sync.Mutex
	open     []debt
	readings []dedupe.Reading
}

type debt struct {
	attempt dedupe.Attempt
	since   time.Time
	held    []jetstream.Msg
}

// owe notes the attempt of an item that ended without a decision, and reports
// whether there is one. Its deliveries are answered once it is given back.
func (d *debts) owe(it *item) bool {
	attempt := it.perhaps
	if begun := it.lease.Load(); begun != nil {
		attempt = *begun
	}
	it.ended()
	it.perhaps = dedupe.Attempt{}
	if attempt.Number == 0 {
		return false
	}
	held := make([]jetstream.Msg, 0, 1+len(it.copies))
	for _, each := range append(it.copies, it) {
		held = append(held, each.msg)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = append(d.open, debt{attempt, time.Now(), held})
	return true
}

// oweReading notes a reading that is over, or whose begin was not answered.
func (d *debts) oweReading(r dedupe.Reading) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readings = append(d.readings, r)
}

// pay ends the readings and gives the attempts back, and their deliveries after them.
func (d *debts) pay(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.readings) > 0 {
		if err := dedupe.EndReadings(ctx, d.pool, d.readings); err != nil {
			return err
		}
		d.readings = d.readings[:0]
	}
	if len(d.open) == 0 {
		return nil
	}
	attempts := make([]dedupe.Attempt, len(d.open))
	for i, each := range d.open {
		attempts[i] = each.attempt
	}
	if err := dedupe.GiveBack(ctx, d.pool, attempts); err != nil {
		return err
	}
	for _, each := range d.open {
		for _, msg := range each.held {
			_ = msg.NakWithDelay(minDelay + jitter(outageDelay)) // a lost one comes again after the ack wait
		}
	}
	d.open = d.open[:0]
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

// settle pays what is owed at a stop, until ctx ends: who takes the events over
// must not take this worker for one that died of them.
func (d *debts) settle(ctx context.Context) {
	again := time.NewTicker(probeFirst)
	defer again.Stop()
	for d.pay(ctx) != nil {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}
