package worker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceledger/onceledger/internal/telemetry"
)

type metrics struct {
	deliveries  *prometheus.CounterVec
	parked      *prometheus.CounterVec
	conflicts   *prometheus.CounterVec
	overdrawn   prometheus.Counter
	frozen      prometheus.Counter
	uncovered   prometheus.Counter
	claims      *prometheus.CounterVec
	redis       *prometheus.CounterVec
	batch       prometheus.Histogram
	seconds     prometheus.Histogram
	lag         prometheus.Histogram
	again       prometheus.Counter
	bisected    prometheus.Counter
	answersLost prometheus.Counter
	away        *prometheus.GaugeVec
	woken       *prometheus.CounterVec
	lookups     *prometheus.CounterVec
	lookupTime  prometheus.Histogram
}

func newMetrics(reg *prometheus.Registry) *metrics {
	const subsystem = "worker"
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: telemetry.Namespace, Subsystem: subsystem, Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: telemetry.Namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: telemetry.Namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets})
		reg.MustRegister(h)
		return h
	}
	m := &metrics{
		deliveries:  counters("deliveries_total", "Deliveries, and tries of events whose parent has come, by what became of them: applied, ignored, duplicate_operation, duplicate, redelivered, parked, waiting, returned.", "source", "outcome"),
		parked:      counters("parked_total", "Events parked in the dead-letter stream, by reason.", "source", "reason"),
		conflicts:   counters("id_conflicts_total", "Deliveries whose content differs from the one that stands under their event id.", "source"),
		overdrawn:   counter("accounts_overdrawn_total", "Accounts that went past a limit which is only recorded."),
		frozen:      counter("accounts_frozen_total", "Accounts that were moved although they are frozen, by what their limit only records, a batch."),
		uncovered:   counter("captures_uncovered_total", "Captures that were posted as facts and that no hold covered in full."),
		claims:      counters("claims_total", "Keys by what Redis said of them: claimed, held, done, unknown.", "claim"),
		redis:       counters("redis_events_total", "Keys for which Redis did not answer (error), was left alone (skipped), held a claim without expiry (repaired), or called finished what is not (lie).", "event"),
		batch:       histogram("batch_size", "Deliveries gathered for one batch.", prometheus.ExponentialBuckets(1, 2, 10)),
		seconds:     histogram("batch_seconds", "Seconds from gathered to answered, a batch.", prometheus.ExponentialBuckets(0.001, 2, 14)),
		lag:         histogram("lag_seconds", "Seconds from stored in the stream to decided, of the oldest delivery of a batch.", prometheus.ExponentialBuckets(0.001, 3, 14)),
		again:       counter("transactions_again_total", "Transactions tried again after a lost race or a lock timeout."),
		bisected:    counter("batches_bisected_total", "Batches halved to find the event that is to blame."),
		answersLost: counter("answers_lost_total", "Answers that the broker did not get; they cost a redelivery."),
		woken:       counters("woken_total", "Events that waited for their parent when it came, by what was done: tried at once, or left until their delay is over.", "outcome"),
		lookups:     counters("lookups_total", "Notices that hint at something, by what came of asking the API: fetched, known (nothing new), unmatched (a kind that is not looked up), refused, unavailable, unstored (Postgres or the broker is away), full (too many wait), deadly (workers died of it).", "source", "outcome"),
		lookupTime:  histogram("lookup_seconds", "Seconds from asking an API to its answer.", prometheus.ExponentialBuckets(0.01, 2, 12)),
		away:        prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "service_unavailable", Help: "1 while a service is away: postgres, postgres_slow (statements time out), redis, redis_lying, events (no stream, consumer or leader), dlq (letters cannot be stored), fetch-SOURCE (the API of a source)."}, []string{"service"}),
	}
	reg.MustRegister(m.away)
	return m
}

// watch adds the gauge that is read when it is scraped.
func (m *metrics) watch(reg *prometheus.Registry, connected func() bool) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: telemetry.Namespace, Subsystem: "worker", Name: "stream_connected", Help: "1 while there is a connection to the broker.",
	}, func() float64 {
		if connected() {
			return 1
		}
		return 0
	}))
}
