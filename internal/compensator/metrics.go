package compensator

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

type metrics struct {
	redriven *prometheus.CounterVec
	failed   *prometheus.GaugeVec
	stale    prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	const subsystem = "compensator"
	m := &metrics{
		redriven: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "redriven_total",
			Help: "Parked events that were sent again without a person, by why they were parked."}, []string{"source", "reason"}),
		failed: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "canaries_failed",
			Help: "How often in a row an event was sent again ahead of its group in vain; absent where the last one was completed."}, []string{"source", "reason"}),
		stale: prometheus.NewCounter(prometheus.CounterOpts{Namespace: telemetry.Namespace, Subsystem: subsystem, Name: "stale_letters_deleted_total",
			Help: "Dead letters deleted because their events were decided since."}),
	}
	reg.MustRegister(m.redriven, m.failed, m.stale)
	return m
}

// show sets which groups' last canary failed.
func (m *metrics) show(canaries map[dedupe.Group]dedupe.Canary) {
	m.failed.Reset()
	for group, last := range canaries {
		if last.State == dedupe.Failed {
			m.failed.WithLabelValues(group.Source, group.Reason).Set(float64(last.FailedBefore + 1))
		}
	}
}
