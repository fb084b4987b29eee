package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onceledger/onceledger/bench/measure"
	"github.com/onceledger/onceledger/bench/rig"
)

type table struct {
	title  string
	header []string
	rows   [][]string
}

func tables(result *measure.Result) []table {
	var all []table
	if len(result.Receiver) > 0 {
		all = append(all, receivers(result.Receiver))
	}
	if len(result.Bare) > 0 {
		all = append(all, bare(result.Bare))
	}
	if len(result.Worker) > 0 {
		all = append(all, drains(result.Worker))
	}
	if len(result.Ledger) > 0 {
		all = append(all, ledgers(result.Ledger))
	}
	if len(result.Contenders) > 0 {
		all = append(all, contenders(result.Contenders))
	}
	if len(result.Open) > 0 {
		all = append(all, paths(result.Open)...)
	}
	if len(result.Backlogs) > 0 {
		all = append(all, backlogs(result.Backlogs))
	}
	if len(result.Growth) > 0 {
		all = append(all, growths(result.Growth))
	}
	if len(result.Idle) > 0 {
		all = append(all, idle(result.Idle))
	}
	if len(result.Ratios) > 0 {
		all = append(all, ratios(result.Ratios))
	}
	return all
}

func receivers(cells []measure.ReceiverCell) table {
	t := table{
		title:  "Receiver: webhooks answered 2xx, each synced to disk before its answer",
		header: []string{"senders", "publishing", "acks/s", "rounds", "p50 ms", "p99 ms", "gain", "CPU µs an ack", "others' cores"},
	}
	alone := map[int]float64{}
	for _, c := range cells {
		if c.Publishing == rig.OneByOne {
			alone[c.Senders] = c.AcksPerSecond
		}
	}
	for _, c := range cells {
		gain := ""
		if other := alone[c.Senders]; other > 0 && c.Publishing == rig.GroupCommit {
			gain = fmt.Sprintf("%.1f×", c.AcksPerSecond/other)
		}
		t.rows = append(t.rows, []string{
			count(float64(c.Senders)), string(c.Publishing), count(c.AcksPerSecond), spread(c.Rounds),
			fmt.Sprintf("%.2f", c.P50), fmt.Sprintf("%.2f", c.P99), gain,
			cost(c.Cost, "receiver", "nats", "load"), foreign(c.Cost),
		})
	}
	return t
}

func bare(cells []measure.BareCell) table {
	t := table{
		title:  "The broker alone: batches of ready messages, one after the other",
		header: []string{"a batch", "as of senders", "messages/s", "rounds", "CPU µs a message", "others' cores"},
	}
	for _, c := range cells {
		t.rows = append(t.rows, []string{
			count(float64(c.Batch)), count(float64(c.Senders)), count(c.MessagesPerSecond), spread(c.Rounds), cost(c.Cost, "nats"), foreign(c.Cost),
		})
	}
	return t
}

func drains(cells []measure.DrainCell) table {
	t := table{
		title:  "Worker: a backlog turned into debits, one worker",
		header: []string{"backlog", "debits/s", "rounds", "deliveries/s", "measured", "CPU µs a delivery", "others' cores"},
	}
	for _, c := range cells {
		t.rows = append(t.rows, []string{
			c.Name, count(c.DebitsPerSecond), spread(c.Rounds), count(c.DeliveriesPerSecond), count(float64(c.Measured)),
			cost(c.Cost, "worker", "nats", "postgres", "redis"), foreign(c.Cost),
		})
	}
	return t
}

func ledgers(cells []measure.LedgerCell) table {
	t := table{
		title:  "Ledger: transfers of events with one each, over one connection",
		header: []string{"accounts", "batch", "posted/s", "rounds", "merely inserted/s", "rounds", "kept", "CPU µs a posted transfer", "others' cores"},
	}
	for _, c := range cells {
		kept := ""
		if c.InsertedPerSecond > 0 {
			kept = fmt.Sprintf("%.2f×", c.PostedPerSecond/c.InsertedPerSecond)
		}
		t.rows = append(t.rows, []string{
			c.Accounts, count(float64(c.Batch)), count(c.PostedPerSecond), spread(c.Posted), count(c.InsertedPerSecond), spread(c.Inserted), kept,
			cost(c.Cost, "bench", "postgres"), foreign(c.Cost),
		})
	}
	return t
}

func ratios(found []measure.Ratio) table {
	t := table{title: "Ratios", header: []string{"what", "ratio", "rounds", "expected", ""}}
	for _, r := range found {
		expected := ""
		if r.Expected > 0 {
			expected = fmt.Sprintf("≥ %g×", r.Expected)
		}
		t.rows = append(t.rows, []string{
			r.Name, fmt.Sprintf("%.2f×", r.Value), fmt.Sprintf("%.2f–%.2f", r.Lowest, r.Highest), expected, r.Verdict(),
		})
	}
	return t
}

// count writes a whole number with separators: 12,345.
func count(v float64) string {
	text := fmt.Sprintf("%.0f", v)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func spread(rounds []float64) string {
	if len(rounds) < 2 {
		return ""
	}
	return count(slices.Min(rounds)) + "–" + count(slices.Max(rounds))
}

// cost names the programs in their order, those that are known.
func cost(c measure.PerEvent, names ...string) string {
	var parts []string
	for _, name := range names {
		if used, ok := c.Of[name]; ok {
			parts = append(parts, fmt.Sprintf("%s %.0f", name, used))
		}
	}
	return strings.Join(parts, ", ")
}

func foreign(c measure.PerEvent) string { return fmt.Sprintf("%.1f", c.Foreign) }
