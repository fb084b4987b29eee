package receiver

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/telemetry"
)

// What the receiver observes. Metrics are made of these, and tests wait for them.
type (
	// delivered is one answered request.
	delivered struct {
		answer
		source string // empty where the path names none
		remote string
		took   time.Duration
	}
	// committed is one commit of size messages, batched in an atomic batch.
	committed struct {
		batched bool
		size    int
		took    time.Duration
		err     error
	}
	// split is a rejected batch whose members go one by one.
	split struct{ size int }
	// linked is the state of the connection to the broker.
	linked struct{ up bool }
)

// metrics turns observations into numbers.
type metrics struct {
	deliveries *prometheus.CounterVec
	faults     *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	batch      prometheus.Histogram
	commit     prometheus.Histogram
	failures   prometheus.Counter
	splits     prometheus.Counter
	connected  prometheus.Gauge
	durability *prometheus.GaugeVec
	away       *prometheus.GaugeVec
}

const subsystem = "receiver"

func newMetrics(reg prometheus.Registerer) *metrics {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: telemetry.Namespace, Subsystem: subsystem, Name: name, Help: help}
	}
	histogram := func(name, help string, buckets []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Namespace: telemetry.Namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}
	}
	seconds := prometheus.ExponentialBuckets(0.0005, 2, 15) // 0.5 ms to 8 s
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts(opts("deliveries_total",
			"Requests by source and outcome; outcome coalesced: identical to one that is stored.")), []string{"source", "outcome"}),
		faults: prometheus.NewCounterVec(prometheus.CounterOpts(opts("unreadable_total",
			"Accepted deliveries that the worker will park, by reason.")), []string{"source", "reason"}),
		latency: prometheus.NewHistogramVec(histogram("ack_seconds",
			"Time from the request's header to its 2xx.", seconds), []string{"source"}),
		batch: prometheus.NewHistogram(histogram("batch_messages",
			"Messages stored by one commit.", prometheus.ExponentialBuckets(1, 2, 11))),
		commit: prometheus.NewHistogram(histogram("commit_seconds",
			"Time one commit took.", seconds)),
		failures: prometheus.NewCounter(prometheus.CounterOpts(opts("commit_failures_total",
			"Commits of which at least one message was not stored."))),
		splits: prometheus.NewCounter(prometheus.CounterOpts(opts("batch_splits_total",
			"Batches the broker rejected, whose members were then stored one by one."))),
		connected: prometheus.NewGauge(prometheus.GaugeOpts(opts("stream_connected",
			"1 while there is a connection to the broker."))),
		durability: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("stream_durability",
			"1 where the broker is known (verified) or said (assumed) to sync before it answers, 0 where nobody looked.")), []string{"proof"}),
		away: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("service_unavailable",
			"1 while the stream is missing, without a leader, or does not answer (events), or has no room (events_full).")), []string{"service"}),
	}
	reg.MustRegister(m.deliveries, m.faults, m.latency, m.batch, m.commit, m.failures, m.splits, m.connected, m.durability, m.away)
	return m
}

// watch adds the gauges that are read when they are scraped.
func (m *metrics) watch(reg prometheus.Registerer, p *publisher) {
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: telemetry.Namespace, Subsystem: subsystem, Name: name, Help: help}, read)
	}
	reg.MustRegister(
		gauge("queue_messages", "Messages that wait for the committer.", func() float64 { return float64(len(p.queue)) }),
		gauge("queue_bytes", "Their bytes.", func() float64 { return float64(p.queued.Load()) }),
	)
}

func (m *metrics) proof(p stream.Proof) {
	known := 1.0
	if p == stream.Unknown {
		known = 0
	}
	m.durability.WithLabelValues(string(p)).Set(known)
}

// observe is the one place that counts.
func (m *metrics) observe(what any) {
	switch o := what.(type) {
	case delivered:
		m.deliveries.WithLabelValues(o.source, string(o.outcome)).Inc()
		if o.outcome == accepted || o.outcome == coalesced {
			m.latency.WithLabelValues(o.source).Observe(o.took.Seconds())
		}
		for _, fault := range o.faults {
			m.faults.WithLabelValues(o.source, fault).Inc()
		}
	case committed:
		m.batch.Observe(float64(o.size))
		m.commit.Observe(o.took.Seconds())
		if o.err != nil {
			m.failures.Inc()
		}
	case split:
		m.splits.Inc()
	case linked:
		m.connected.Set(0)
		if o.up {
			m.connected.Set(1)
		}
	}
}
