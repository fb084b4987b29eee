package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/telemetry"
)

const (
	// slowSettle is longer than a batch waits before it is given back and comes
	// again, so that a lock that somebody holds for minutes is one outage.
	slowSettle = 15 * time.Second
	// lyingSettle is how long Redis must tell no lie before it counts as honest.
	lyingSettle = 15 * time.Second
	// redisSettle is how long Redis must answer before it counts as back.
	redisSettle = 5 * time.Second
)

// outages makes what the worker says of each service that it may have to do
// without. Each is one line at its start, one at its end, and a gauge between.
func (w *worker) outages() {
	outage := w.outage
	w.gate = newGate(outage("postgres", "postgres is unavailable, nothing is lost and no attempt is counted", "postgres is back"), w.resume)
	w.slow = outage("postgres_slow", "postgres is slow, batches that wait for it are tried again and no attempt is counted", "postgres is no longer slow")
	w.slow.Settle = slowSettle
	w.claiming = outage("redis", "redis is unavailable, duplicates are found in postgres alone", "redis is back")
	w.claiming.Settle = redisSettle
	w.lying = outage("redis_lying", "redis calls events finished that are not, postgres decides and the marks are deleted", "redis no longer calls events finished that are not")
	w.lying.Settle = lyingSettle
	w.fetching = outage("events", "fetching from "+stream.Events+" is unavailable, deliveries wait there", "fetching from "+stream.Events+" is back")
	letters := outage("dlq", "storing in "+stream.DLQ+" is unavailable, parked events wait for their letters and the others go on", "storing in "+stream.DLQ+" is back")
	letters.Settle = letterDelay
	w.letters = newBreaker(letters, parkTimeout, probeFirst, probeMost)
}

// outage makes what the worker says of one service.
func (w *worker) outage(service, lost, back string) *telemetry.Outage {
	gauge := w.metrics.away.WithLabelValues(service)
	gauge.Set(0)
	return &telemetry.Outage{Lost: lost, Back: back, Log: w.log, Gauge: gauge}
}

// lied notes how many events of a batch Redis called finished that were not.
func (w *worker) lied(n int) {
	if n == 0 {
		w.lying.Up()
		return
	}
	w.metrics.redis.WithLabelValues("lie").Add(float64(n))
	w.lying.Down(fmt.Errorf("%d events of a batch", n))
}

// holdDebts keeps what is owed from other workers, and pays it as soon as it can.
func (w *worker) holdDebts(ctx context.Context) error {
	tick := time.NewTicker(w.ackWait / aliveShare)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		w.debts.hold()
		bounded, cancel := context.WithTimeout(ctx, probeTimeout)
		_ = w.debts.pay(bounded) // if not, then with the next batch, or when the gate opens
		cancel()
	}
}
