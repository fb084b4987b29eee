package report_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/bench/measure"
	"github.com/onceledger/onceledger/bench/report"
	"github.com/onceledger/onceledger/bench/rig"
)

func sample() *measure.Result {
	return &measure.Result{
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Seconds: 200,
		Machine: measure.Machine{System: "linux/amd64", CPU: "a CPU", Cores: 2, Go: "go1", NATS: "2.15.3", Postgres: "15", Redis: "7", SyncUS: 125},
		Receiver: []measure.ReceiverCell{
			{Publishing: rig.GroupCommit, Senders: 1000, AcksPerSecond: 20500, Rounds: []float64{20000, 21000}, P50: 11.3, P99: 20.04,
				Cost: measure.PerEvent{Of: map[string]float64{"receiver": 33.4, "nats": 20, "load": 10}, Foreign: 0.12}},
			{Publishing: rig.OneByOne, Senders: 1000, AcksPerSecond: 4100, Rounds: []float64{4000, 4200}, P50: 240, P99: 300},
		},
		Worker: []measure.DrainCell{{Name: measure.Batches, DebitsPerSecond: 999.6, DeliveriesPerSecond: 1999, Rounds: []float64{1000}, Measured: 1234567}},
		Ledger: []measure.LedgerCell{{
			Accounts: measure.Hot, Batch: 2000, PostedPerSecond: 60000, InsertedPerSecond: 80000, Posted: []float64{59000, 61000},
			Inserted: []float64{80000, 80000}, Cost: measure.PerEvent{Of: map[string]float64{"bench": 4.2, "postgres": 12}},
		}},
		Contenders: []measure.ContenderCell{
			{Work: measure.EndToEnd, Name: "River", Senders: 256, Rows: 1_000_000, EventsPerSecond: 1200.4, Rounds: []float64{1100, 1300}, AcksPerSecond: 2000,
				P50: 50, P99: 120.5, Refused: 3, Verdict: measure.Verdict{Posted: 9000, Lost: 2, Doubled: 1},
				Cost: measure.PerEvent{Of: map[string]float64{"contender": 400, "postgres": 700, "nats": 1, "load": 20}}},
			{Work: measure.Drain, Name: "onceledger", EventsPerSecond: 20000, Rounds: []float64{20000}},
		},
		Ratios: []measure.Ratio{
			{Name: "good", Value: 5, Lowest: 4.8, Highest: 5.25, Expected: 4},
			{Name: "bad", Value: 9.9, Lowest: 9, Highest: 11, Expected: 10},
			{Name: "half", Value: 0.4, Lowest: 0.3, Highest: 0.6, Expected: 0.5},
			{Name: "shown", Value: 0.8},
		},
	}
}

func TestMarkdownHoldsEveryFigure(t *testing.T) {
	t.Parallel()
	text := report.Markdown(sample())
	require.Contains(t, text, "| 1,000 | group commit | 20,500 | 20,000–21,000 | 11.30 | 20.04 | 5.0× | receiver 33, nats 20, load 10 | 0.1 |\n")
	require.Contains(t, text, "| 1,000 | one by one | 4,100 | 4,000–4,200 | 240.00 | 300.00 |  |  | 0.0 |\n")
	require.Contains(t, text, "| batches | 1,000 |  | 1,999 | 1,234,567 |  | 0.0 |\n")
	require.Contains(t, text, "| one hot account | 2,000 | 60,000 | 59,000–61,000 | 80,000 | 80,000–80,000 | 0.75× | bench 4, postgres 12 | 0.0 |\n")
	require.Contains(t, text, "| end to end | 256 | 1,000,000 | River | 1,200 | 1,100–1,300 | 2,000 | 50.00 | 120.50 | 3 | 2 lost, 1 doubled | "+
		"contender 400, nats 1, postgres 700, load 20 | 0.0 |\n")
	require.Contains(t, text, "| drain |  | 0 | onceledger | 20,000 |  |  |  |  |  | exact |  | 0.0 |\n")
	require.Contains(t, text, "Not so River: see there.\n")
	require.Contains(t, text, "| half | 0.40× | 0.30–0.60 | ≥ 0.5× | BELOW |\n")
	require.Contains(t, text, "| good | 5.00× | 4.80–5.25 | ≥ 4× | OK |\n")
	require.Contains(t, text, "| bad | 9.90× | 9.00–11.00 | ≥ 10× | BELOW |\n")
	require.Contains(t, text, "fsync of 4 KiB 125 µs")
}

func TestPrintShowsTheSameTables(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	report.Print(&out, sample())
	for _, want := range []string{"20,500", "BELOW", "2026-01-02, 200 s", "1,234,567"} {
		require.Contains(t, out.String(), want)
	}
}

func TestPrintWarnsOfOthersWork(t *testing.T) {
	t.Parallel()
	const warning = "Other work kept"
	require.NotContains(t, report.Markdown(sample()), warning)
	noisy := sample()
	noisy.Worker[0].Cost.Foreign = 2.28
	require.Contains(t, report.Markdown(noisy), warning+" 0.4 cores busy")
}

func TestUpdateMarkdownReplacesWhatStandsBetweenTheMarks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "performance.md")
	const head, tail = "# Performance\n\n<!-- bench:begin -->", "<!-- bench:end -->\nthe end\n"
	require.NoError(t, os.WriteFile(path, []byte(head+"old"+tail), 0o600))
	for range 2 {
		require.NoError(t, report.UpdateMarkdown(path, sample()))
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, head+"\n"+report.Markdown(sample())+tail, string(text))
	}
}

func TestUpdateMarkdownLeavesAFileWithoutMarksAlone(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"none": "# Performance\n", "no end": "<!-- bench:begin -->\n"} {
		path := filepath.Join(t.TempDir(), strings.ReplaceAll(name, " ", "-"))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.ErrorContains(t, report.UpdateMarkdown(path, sample()), "bench:begin")
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(left))
	}
}

func TestWriteJSONHasStableNames(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bench.json")
	require.NoError(t, report.WriteJSON(path, sample()))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, name := range []string{"acks_per_second", "p99_ms", "debits_per_second", "posted_per_second", "cpu_us", "foreign_cores", "fsync_us", "expected"} {
		require.Contains(t, string(text), `"`+name+`"`)
	}
}
