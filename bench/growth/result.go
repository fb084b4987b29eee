package growth

import "slices"

// What works on one batch at a time, and so is never idle under load: it takes
// larger batches instead.
const (
	committers  = "stream's write path"
	workerLoops = "workers, waiting for answers"
)

// usage is the time that everything has been used so far.
type usage struct {
	cpu       map[string]float64 // by program
	resources map[string]float64 // machines by their share of cores
}

func (m *model) usage() usage {
	u := usage{map[string]float64{}, map[string]float64{
		committers:          m.broker.write.Busy(),
		workerLoops:         m.looping / float64(max(loops*m.Workers, 1)),
		"stream's consumer": m.broker.sender.Used(),
		"broker's disk":     m.broker.disk.Busy(),
		"Postgres' WAL":     m.database.disk.Busy(),
		"shared account":    m.database.shared.Busy(),
	}}
	for name, programs := range m.programs {
		for _, p := range programs {
			u.cpu[name] += p.Used()
		}
	}
	for name, machines := range m.machines {
		for _, machine := range machines {
			u.resources[name+" cores"] += machine.Used() / machine.Cores() / float64(len(machines))
		}
	}
	return u
}

// result is what came of the time since before was taken.
func (m *model) result(before usage) Result {
	now, seconds := m.usage(), m.Seconds
	if m.drained != nil {
		now, seconds = *m.drained, m.ended-m.WarmUp
	}
	r := Result{
		Acked: float64(m.acked) / seconds, Done: float64(m.done) / seconds, Refused: float64(m.refused) / seconds,
		AckP50: quantile(m.acks, 0.5), AckP99: quantile(m.acks, 0.99),
		LagP50: quantile(m.lags, 0.5), LagP99: quantile(m.lags, 0.99),
		CPU: map[string]float64{}, Busy: map[string]float64{},
	}
	if m.commits > 0 {
		r.AckBatch = float64(m.acked) / float64(m.commits)
	}
	if m.batches > 0 {
		r.DoneBatch = float64(m.done) / float64(m.batches)
	}
	for name, used := range now.cpu {
		if events := max(m.acked, m.done); events > 0 {
			r.CPU[name] = (used - before.cpu[name]) / float64(events) * 1e6
		}
	}
	for name, used := range now.resources {
		r.Busy[name] = (used - before.resources[name]) / seconds
	}
	return r
}

// quantile of unsorted times; 0 of none.
func quantile(times []float64, q float64) float64 {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
