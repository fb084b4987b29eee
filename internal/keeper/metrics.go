package keeper

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/telemetry"
)

// metrics are those of the process that leads. A gauge that only the leader
// knows is absent elsewhere, so that nobody adds up what two processes say.
type metrics struct {
	leader  prometheus.Gauge
	gauges  map[string]*prometheus.GaugeVec
	sweeps  *prometheus.CounterVec
	trimmed prometheus.Counter
}

// gauges by name, with their help.
var gauges = map[string]string{
	"audit_accounted_sequence":             "Last message of EVENTS up to which everything is accounted for or known to be open.",
	"audit_unaccounted":                    "Messages that were answered and have no outcome, or are gone; must be 0.",
	"audit_in_flight":                      "Messages that are still to be decided.",
	"audit_parked":                         "Events that are parked.",
	"audit_money_differences":              "Findings about the ledger; must be 0.",
	"audit_problems":                       "All findings; must be 0.",
	"audit_last_success_timestamp_seconds": "When the incremental audit last ended.",
	"audit_seconds":                        "How long it took.",
	"events_fill_ratio":                    "Bytes of EVENTS as a share of its limit.",
	"backlog_age_seconds":                  "Age of the oldest message that is not answered; 0 if there is none.",
	"alert_events_filling":                 "1 while EVENTS is filled to 80 % or more.",
	"alert_backlog_age":                    "1 while the oldest message that is not answered is older than keeper.backlog_alert.",
	"sweep_unrepairable":                   "Findings of the last round that the sweep cannot mend, since nothing has the bytes any more or a person has to look.",
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		leader: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: telemetry.Namespace, Name: "keeper_leader", Help: "1 while this worker does the upkeep."}),
		gauges: make(map[string]*prometheus.GaugeVec, len(gauges)),
		sweeps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: telemetry.Namespace, Name: "sweep_repairs_total",
			Help: "Repairs by kind: lost (sent again, no row), other_content (sent again), undecided (sent again, row waits), letter (dead letter stored again), unreadable (parked).",
		}, []string{"kind"}),
		trimmed: prometheus.NewCounter(prometheus.CounterOpts{Namespace: telemetry.Namespace, Name: "trimmed_messages_total", Help: "Accounted messages removed from EVENTS."}),
	}
	reg.MustRegister(m.leader, m.sweeps, m.trimmed)
	for name, help := range gauges {
		m.gauges[name] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: telemetry.Namespace, Name: name, Help: help}, nil)
		reg.MustRegister(m.gauges[name])
	}
	return m
}

func (m *metrics) set(name string, value float64) { m.gauges[name].WithLabelValues().Set(value) }

func (m *metrics) show(p *audit.Progress) {
	unaccounted := p.Sum.Unaccounted
	for _, f := range p.Findings {
		if f.Kind == audit.Gone {
			unaccounted++
		}
	}
	m.set("audit_accounted_sequence", float64(p.Accounted))
	m.set("audit_unaccounted", float64(unaccounted))
	m.set("audit_in_flight", float64(p.Sum.InFlight))
	m.set("audit_parked", float64(p.Parked))
	m.set("audit_money_differences", float64(p.MoneyDifferences))
	m.set("audit_problems", float64(p.Problems))
	m.set("audit_last_success_timestamp_seconds", float64(time.Now().Unix()))
	m.set("audit_seconds", p.Seconds)
}

// retire forgets what only a leader knows.
func (m *metrics) retire() {
	m.leader.Set(0)
	for _, g := range m.gauges {
		g.Reset()
	}
}

// flag is 1 or 0.
func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
