package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/faultpoint"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// aliveShare is the part of the ack wait after which the broker is told that a
// batch is still in work: two such messages may be lost.
const aliveShare = 3

// loop works batch after batch. A worker runs two: while one waits for
// Postgres, the other decodes.
type loop struct {
	w       *worker
	name    string
	batches uint64
	numbers dedupe.Numbers
}

// run gathers and processes until the deliveries end.
func (l *loop) run(ctx context.Context) error {
	for {
		msgs := l.gather()
		if len(msgs) == 0 {
			return nil
		}
		if err := l.w.gate.wait(ctx); err != nil {
			l.giveBack(msgs)
			continue // drain what is buffered; the consumer is stopping
		}
		l.process(l.w.work, msgs)
	}
}

// gather waits for a delivery and lingers a moment for more: small batches cost
// several times as much an event. It returns none when the deliveries end.
func (l *loop) gather() []delivery {
	first, ok := <-l.w.deliveries
	if !ok {
		return nil
	}
	msgs := append(make([]delivery, 0, l.w.tuning.Batch), first)
	linger := time.NewTimer(l.w.tuning.Linger)
	defer linger.Stop()
	for len(msgs) < l.w.tuning.Batch {
		select {
		case msg, ok := <-l.w.deliveries:
			if !ok {
				return msgs
			}
			msgs = append(msgs, msg)
		case <-linger.C:
			return msgs
		}
	}
	return msgs
}

// process answers each delivery of a batch: it decides the events, and hands what
// is to be looked up first to the lanes.
func (l *loop) process(ctx context.Context, msgs []delivery) {
	began := time.Now()
	items := make([]*item, 0, len(msgs))
	for _, msg := range msgs {
		it, err := l.w.decode(msg)
		if err != nil {
			l.w.metrics.answersLost.Inc() // not a JetStream delivery: nobody waits for an answer
			continue
		}
		items = append(items, it)
	}
	items, late := l.divert(items)
	l.answer(late)
	if len(items) == 0 {
		l.w.gate.passed() // nothing to prove the database with
		return
	}
	l.conclude(ctx, items)
	l.w.metrics.batch.Observe(float64(len(msgs)))
	l.w.metrics.seconds.Observe(time.Since(began).Seconds())
	l.w.metrics.lag.Observe(time.Since(oldest(items)).Seconds())
}

// conclude decides events and answers their deliveries.
func (l *loop) conclude(ctx context.Context, items []*item) {
	slices.SortFunc(items, bySequence)
	endAlive := l.keepAlive(ctx, items)
	leaders, rest := fold(items)
	switch err := l.decide(ctx, leaders, rest); {
	case err == nil:
		l.w.gate.passed()
	case verdictOf(err) == unavailable:
		l.w.gate.close(err)
	default:
		l.w.gate.passed() // it lost its races, but the database is there
	}
	all := slices.Concat(leaders, rest)
	l.giveBackAttempts(ctx, all)
	faultpoint.Reach(faultpoint.Committed)
	if l.w.answering != nil {
		l.w.answering()
	}
	letters, others := partition(all, func(it *item) bool { return it.fate == parked })
	l.answer(others) // a dead-letter stream that hangs holds nobody else up
	l.park(ctx, letters)
	endAlive()
	l.answer(letters)
	l.remember(ctx, all)
}

// decide brings every item to its fate. On an error those not yet decided stay
// so and are given back.
func (l *loop) decide(ctx context.Context, leaders, rest []*item) error {
	l.batches++
	claimed, err := l.claim(ctx, leaders)
	if err != nil {
		return err
	}
	faultpoint.Reach(faultpoint.Claimed)
	waiting, others, err := l.markWaiting(ctx, claimed)
	if err != nil {
		return err
	}
	fresh, again := partition(others, func(it *item) bool { return it.delivered <= 1 })
	marked, err := l.mark(ctx, again)
	if err != nil {
		return err
	}
	marked = slices.SortedFunc(slices.Values(append(marked, waiting...)), bySequence)
	for _, batch := range [][]*item{fresh, marked} {
		l.w.understand(ctx, batch)
		plain, odd := partition(batch, func(it *item) bool { return it.fault == nil && !it.passes() })
		for _, it := range odd {
			it.fate = lonely // its row counts the attempts
		}
		if err := l.commit(ctx, plain); err != nil {
			return err
		}
	}
	for _, it := range rest {
		it.fate = lonely
	}
	for _, it := range slices.Concat(leaders, rest) {
		if it.fate != lonely {
			continue
		}
		it.fate = undecided
		if err := l.alone(ctx, it, nil); err != nil {
			return err
		}
	}
	return nil
}

func bySequence(a, b *item) int { return cmp.Compare(a.seq, b.seq) }

// partition splits items by a test, in their order.
func partition(items []*item, test func(*item) bool) (pass, fail []*item) {
	for _, it := range items {
		if test(it) {
			pass = append(pass, it)
		} else {
			fail = append(fail, it)
		}
	}
	return pass, fail
}

// claim asks Redis which events to leave alone, and returns those to decide
// now. Redis may lie: a held key is put off once, and a finished one is looked
// up in Postgres.
func (l *loop) claim(ctx context.Context, items []*item) ([]*item, error) {
	keys := make([]dedupe.Key, len(items))
	for i, it := range items {
		keys[i] = it.key
	}
	fresh := make([]*item, 0, len(items))
	var done []*item
	for i, claim := range l.w.claims.Take(ctx, l.token(), keys) {
		it := items[i]
		l.w.metrics.claims.WithLabelValues(claim.String()).Inc()
		switch {
		case claim == dedupe.Done:
			done = append(done, it)
		case claim == dedupe.Held && it.delivered <= 1:
			it.wait(jitter(heldDelay))
		default:
			fresh = append(fresh, it)
		}
	}
	lies, err := l.verify(ctx, done)
	l.w.lied(len(lies))
	return append(fresh, lies...), err
}

// verify looks up events that Redis calls finished, and returns those that are
// not, with their marks removed.
func (l *loop) verify(ctx context.Context, items []*item) (lies []*item, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	keys := make([]dedupe.Key, len(items))
	for i, it := range items {
		keys[i] = it.key
	}
	known, err := dedupe.Read(ctx, l.w.pool, keys)
	if err != nil {
		return nil, err
	}
	var forget []dedupe.Key
	for _, it := range items {
		row := known[it.key]
		switch {
		case row == nil || !row.Terminal():
			forget = append(forget, it.key)
			lies = append(lies, it)
		default:
			it.judge(row)
		}
	}
	l.w.claims.Forget(ctx, forget)
	return lies, nil
}

// token is new for each batch, so that a value found at a key is either this
// very claim or somebody else's.
func (l *loop) token() string {
	return fmt.Sprintf("%s/%d", l.name, l.batches)
}

// remember tells Redis, off the path, what is finished and what is free again.
func (l *loop) remember(ctx context.Context, items []*item) {
	var done, released []dedupe.Key
	for _, it := range items {
		switch it.fate {
		case acked, parked:
			done = append(done, it.key)
		default:
			released = append(released, it.key)
		}
	}
	select {
	case l.w.finished <- finished{l.token(), done, released}:
	default: // Redis is slow: the leases run out by themselves
		l.w.metrics.redis.WithLabelValues("skipped").Add(float64(len(items)))
	}
}

// finished is what Redis is to be told of one batch.
type finished struct {
	token          string
	done, released []dedupe.Key
}

// giveBackAttempts ends the attempts of items that stayed undecided, and readings
// whose end was not answered.
func (l *loop) giveBackAttempts(ctx context.Context, items []*item) {
	for _, it := range items {
		owed := l.w.debts.owe(it)
		it.owed = owed && it.fate == undecided
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout) // also after the drain limit
	defer cancel()
	if err := l.w.debts.pay(ctx); err != nil && verdictOf(err) == unavailable {
		l.w.gate.close(err) // paid when the gate opens
	}
}

// keepAlive tells the broker that items are in work, and Postgres that their
// attempts are, for as long as the batch lasts, so that neither takes this
// worker for dead.
func (l *loop) keepAlive(ctx context.Context, items []*item) (end func()) {
	done := make(chan struct{})
	var alive sync.WaitGroup
	alive.Go(func() {
		tick := time.NewTicker(l.w.ackWait / aliveShare)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.stayAlive(ctx, items)
			case <-done:
				return
			}
		}
	})
	return func() { close(done); alive.Wait() }
}

func (l *loop) stayAlive(ctx context.Context, items []*item) {
	var attempts []dedupe.Attempt
	var readings []dedupe.Reading
	for _, it := range items {
		if err := it.msg.InProgress(); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
			l.w.metrics.answersLost.Inc()
		}
		if attempt := it.lease.Load(); attempt != nil {
			attempts = append(attempts, *attempt)
		}
		if reading := it.reading.Load(); reading != nil {
			readings = append(readings, *reading)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.w.ackWait/aliveShare)
	defer cancel()
	// An outage shows in the batch itself.
	_ = dedupe.StayAlive(ctx, l.w.pool, attempts)
	_ = dedupe.KeepReadings(ctx, l.w.pool, readings)
}

// giveBack returns deliveries that nobody has looked at.
func (l *loop) giveBack(msgs []delivery) {
	for _, msg := range msgs {
		if err := msg.NakWithDelay(minDelay); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
			l.w.metrics.answersLost.Inc()
		}
	}
}

func oldest(items []*item) time.Time {
	at := time.Now()
	for _, it := range items {
		if it.stored.Before(at) {
			at = it.stored
		}
	}
	return at
}
