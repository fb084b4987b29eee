package report

import (
	"fmt"

	"github.com/onceledger/onceledger/bench/measure"
)

func contenders(cells []measure.ContenderCell) table {
	t := table{
		title: "Contenders: signed webhooks turned into debits, the same for all, one account in every event",
		header: []string{
			"work", "senders", "there already", "system", "events/s", "rounds", "acks/s", "p50 ms", "p99 ms", "refused", "recount", "CPU µs an event", "others' cores",
		},
	}
	for _, c := range cells {
		row := []string{string(c.Work), "", count(float64(c.Rows)), c.Name, count(c.EventsPerSecond), spread(c.Rounds), "", "", "", ""}
		if c.Senders > 0 {
			row[1], row[6], row[9] = count(float64(c.Senders)), count(c.AcksPerSecond), count(float64(c.Refused))
			row[7], row[8] = fmt.Sprintf("%.2f", c.P50), fmt.Sprintf("%.2f", c.P99)
		}
		t.rows = append(t.rows, append(row, c.Verdict.String(),
			cost(c.Cost, "receiver", "worker", "contender", "nats", "postgres", "redis", "load"), foreign(c.Cost)))
	}
	return t
}
