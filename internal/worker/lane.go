package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/fetch"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

const (
	// laneWorkers is how many questions one source has under way, and laneQueue how
	// many of its hints wait for one; what exceeds that comes again.
	laneWorkers = 4
	laneQueue   = 64
	// laneDelay bounds how long a hint is put off that finds its lane full or its
	// API away.
	laneDelay = 10 * time.Second
	// laneFirst and laneMost bound the wait between two questions to an API that is
	// away.
	laneFirst = 500 * time.Millisecond
	laneMost  = 30 * time.Second
)

// outcomes of hints, as the metrics spell them.
const (
	lookupFetched     = "fetched"
	lookupKnown       = "known"
	lookupUnmatched   = "unmatched"
	lookupRefused     = "refused"
	lookupUnavailable = "unavailable"
	lookupUnstored    = "unstored"
	lookupFull        = "full"
	lookupDeadly      = "deadly"
)

// lane looks up what the hints of one source are about, beside the batches, so
// that an API that is slow or away holds up nothing but its own hints.
//
// What the API tells is stored in EVENTS under its own keys, and decided there as
// any event is; then the hint's row says that it was fetched, and its delivery is
// acknowledged. Whoever dies in between leaves a hint that comes again, is looked
// up again, and brings what are duplicates.
type lane struct {
	w       *worker
	source  *catalog.Source
	breaker *breaker
	queue   chan *item
	delay   time.Duration // bounds how long a hint is put off
}

// newLanes makes a lane for each source whose hints are looked up.
func (w *worker) newLanes() {
	w.lanes = map[string]*lane{}
	for name, source := range w.cat.Sources {
		if source.Fetch == nil {
			continue
		}
		away := w.outage("fetch-"+name, "the API of source "+name+" is unavailable, what is to be looked up there waits and no attempt is counted",
			"the API of source "+name+" is back")
		away.Settle = laneDelay
		w.lanes[name] = &lane{
			w: w, source: source, queue: make(chan *item, laneQueue), delay: laneDelay,
			breaker: newBreaker(away, source.Fetch.Timeout(), laneFirst, laneMost),
		}
	}
}

// runLanes works until the returned end is called, when no loop hands over any
// more. Once ctx ends, hints that wait are given back.
func (w *worker) runLanes(ctx context.Context, name string) (end func()) {
	var working sync.WaitGroup
	for source, lane := range w.lanes {
		for i := range laneWorkers {
			l := &loop{w: w, name: fmt.Sprintf("%s/%s/%d", name, source, i)}
			working.Go(func() {
				for it := range lane.queue {
					lane.handle(ctx, l, it)
				}
			})
		}
	}
	return func() {
		for _, lane := range w.lanes {
			close(lane.queue)
		}
		working.Wait()
		for _, lane := range w.lanes {
			lane.source.Fetch.Close()
			lane.breaker.Close()
		}
	}
}

// divert takes the hints that are to be looked up out of a batch and hands them to
// their lanes. Those that find their lane full are late.
func (l *loop) divert(items []*item) (rest, late []*item) {
	for _, it := range items {
		lane := l.w.lanes[it.event.Source]
		if lane == nil || it.event.Fault != string(dlq.NeedsFetch) {
			rest = append(rest, it)
			continue
		}
		it.endAlive = l.keepAlive(l.w.work, []*item{it})
		select {
		case lane.queue <- it:
		default:
			it.endAlive()
			lane.count(lookupFull)
			it.wait(minDelay + jitter(lane.delay))
			late = append(late, it)
		}
	}
	return rest, late
}

// handle brings one hint to its end, or puts it off.
func (l *lane) handle(ctx context.Context, loop *loop, it *item) {
	defer it.endAlive()
	if ctx.Err() != nil || !l.w.gate.isOpen() {
		loop.answer([]*item{it}) // undecided: it comes again
		return
	}
	readable, err := loop.read(l.w.work, it, func() error { return l.lookUp(l.w.work, it) })
	found, version := l.w.cat.Decide(it.event) // that it was fetched
	switch {
	case err == nil && readable == dedupe.Busy:
		it.wait(minDelay + jitter(l.delay))
		l.putBack(loop, it)
		return
	case err == nil && readable == dedupe.Deadly:
		l.count(lookupDeadly)
		found.Ignored, found.Parked = "", dlq.CrashBudget
		found.Err = fmt.Errorf("%d times a worker ended while it looked this up", crashBudget)
	case err == nil:
	case errors.Is(err, fetch.ErrKind):
		l.count(lookupUnmatched)
		found.Ignored = dlq.Unmatched // as a type is that no rule matches
		if l.source.Config.Unmatched == "park" {
			found.Ignored, found.Parked, found.Err = "", dlq.NeedsFetch, err
		}
	case errors.Is(err, fetch.ErrRefused):
		l.count(lookupRefused)
		it.passing = true
		found.Ignored, found.Parked, found.Err = "", dlq.NeedsFetch, err
	case errors.Is(err, errPutOff), errors.Is(err, fetch.ErrUnavailable):
		l.count(lookupUnavailable)
		it.wait(minDelay + jitter(l.delay))
		l.putBack(loop, it)
		return
	default: // Postgres or the broker did not do its part
		l.count(lookupUnstored)
		l.putBack(loop, it)
		return
	}
	it.take(answer{decision: decision{found, version}})
	loop.conclude(l.w.work, []*item{it})
}

// putBack lets a hint come again, and ends what was begun of it.
func (l *lane) putBack(loop *loop, it *item) {
	loop.giveBackAttempts(l.w.work, []*item{it})
	loop.answer([]*item{it})
}

func (l *lane) count(outcome string) {
	l.w.metrics.lookups.WithLabelValues(l.source.Config.Name.Value, outcome).Inc()
}
