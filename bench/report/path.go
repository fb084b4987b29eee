package report

import (
	"fmt"

	"github.com/onceledger/onceledger/bench/measure"
)

// paths shows the whole path: how fast, and what it took.
func paths(cells []measure.OpenCell) []table {
	speed := table{
		title:  "Whole path: how long an answer takes from when the webhook is due, and when the ledger has everything",
		header: []string{"load", "due/s", "acks/s", "p50 ms", "p99 ms", "p99.9 ms", "failed", "in the ledger/s", "lag s", "others' cores"},
	}
	cost := table{
		title:  "Whole path: what an event costs",
		header: []string{"load", "deliveries", "events", "CPU µs", "WAL B", "Postgres B", "NATS B", "WAL syncs", "disk flushes", "receiver MiB", "worker MiB"},
	}
	for _, c := range cells {
		due, rate, lag := "", "", ""
		if c.Offered > 0 {
			due = count(c.Offered)
		}
		if !c.Alone {
			rate, lag = count(c.EventsPerSecond), fmt.Sprintf("%.2f", c.Lag)
		}
		speed.rows = append(speed.rows, []string{
			c.Name, due, count(c.AcksPerSecond), fmt.Sprintf("%.1f", c.P50), fmt.Sprintf("%.1f", c.P99), fmt.Sprintf("%.1f", c.P999),
			count(float64(c.Failed + c.Unsent)), rate, lag, foreign(c.Cost),
		})
		row := []string{
			c.Name, count(float64(c.Accepted)), count(float64(c.Events)), spent(c.Cost),
			count(c.WAL), count(c.Postgres), count(c.NATS), often(c.Syncs), often(c.Flushes), memory(c.ReceiverPeak), memory(c.WorkerPeak),
		}
		if c.Alone {
			row[4], row[5], row[7], row[10] = "", "", "", ""
		}
		cost.rows = append(cost.rows, row)
	}
	return []table{speed, cost}
}

func spent(c measure.PerEvent) string {
	return cost(c, "receiver", "nats", "worker", "postgres", "redis", "load")
}

// often is how often something happens an event, or nothing where nobody counted.
func often(n float64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.3f", n)
}

func memory(mib float64) string {
	if mib == 0 {
		return ""
	}
	return count(mib)
}

func backlogs(cells []measure.BacklogCell) table {
	t := table{
		title:  "Backlog: workers that share it",
		header: []string{"workers", "backlog", "events/s", "s", "WAL B an event", "WAL syncs an event", "MiB a worker", "CPU µs an event", "others' cores"},
	}
	for _, c := range cells {
		t.rows = append(t.rows, []string{
			count(float64(c.Workers)), count(float64(c.Backlog)), count(c.EventsPerSecond), fmt.Sprintf("%.1f", c.Seconds), count(c.WAL), often(c.Syncs), memory(c.Peak),
			cost(c.Cost, "worker", "nats", "postgres", "redis"), foreign(c.Cost),
		})
	}
	return t
}

func growths(cells []measure.BacklogCell) table {
	t := table{
		title:  "Growth: a backlog on tables that are full already, from a checkpoint on",
		header: []string{"events there", "ids", "workers", "events/s", "kept", "measured", "WAL B an event", "Postgres B an event", "CPU µs an event", "others' cores"},
	}
	empty := map[string]float64{}
	for _, c := range cells {
		kept := ""
		if c.Rows == 0 {
			empty[c.IDs] = c.EventsPerSecond
		} else if first := empty[c.IDs]; first > 0 && c.Workers == 1 { // more are in no empty row
			kept = fmt.Sprintf("%.2f×", c.EventsPerSecond/first)
		}
		t.rows = append(t.rows, []string{
			count(float64(c.Rows)), c.IDs, count(float64(c.Workers)), count(c.EventsPerSecond), kept, count(float64(c.Measured)), count(c.WAL), count(c.Postgres),
			cost(c.Cost, "worker", "nats", "postgres", "redis"), foreign(c.Cost),
		})
	}
	return t
}

func idle(cells []measure.IdleCell) table {
	t := table{title: "Nothing to do", header: []string{"program", "% of a core", "MiB"}}
	for _, c := range cells {
		t.rows = append(t.rows, []string{c.Name, fmt.Sprintf("%.1f", c.CPU), memory(c.Memory)})
	}
	return t
}
