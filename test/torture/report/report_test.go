package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/test/torture/breakage"
	"github.com/onceledger/onceledger/test/torture/check"
	"github.com/onceledger/onceledger/test/torture/client"
	"github.com/onceledger/onceledger/test/torture/fault"
	"github.com/onceledger/onceledger/test/torture/stage"
)

// held is the report of a run in which nothing went wrong.
func held() *Report {
	r := &Report{
		Seed: 7, Plan: "mixed", Version: "v", Seconds: 90, Faults: 3, Messages: 12,
		Sent:    client.Result{Deliveries: 1234567, Tries: 1234570, Outage: 3 * time.Second},
		Verdict: &check.Verdict{Outcomes: map[string]int{"completed applied": 10, "failed bad_json": 2}, Events: 12, Transfers: 10},
	}
	r.Audit.Clean = true
	r.Count(map[string]map[fault.Kind]int{"worker": {fault.Kill: 1, fault.KillAt: 2}, "redis": {fault.Flush: 1}}, map[string]int{"worker": 1},
		[]stage.End{{Name: "worker-1", State: "signal: killed"}, {Name: "worker-2", State: "signal: killed"}})
	return r
}

func TestReportOfARunThatHeld(t *testing.T) {
	r := held()
	require.Empty(t, r.Faulty())
	require.Equal(t, 3, r.Total(), "those at fault points are kills, too")
	require.Contains(t, r.String(), "1,234,567 in 1,234,570 tries")
	require.Contains(t, r.String(), "HELD")
}

func TestEveryFaultBreaksTheVerdict(t *testing.T) {
	for name, harm := range map[string]func(*Report){
		"lost":        func(r *Report) { r.Verdict.Lost, r.Verdict.Found.Lost = []string{"x"}, 1 },
		"doubled":     func(r *Report) { r.Verdict.Doubled, r.Verdict.Found.Doubled = []string{"x"}, 1 },
		"unexplained": func(r *Report) { r.Verdict.Unexplained, r.Verdict.Found.Unexplained = []string{"x"}, 1 },
		"early":       func(r *Report) { r.Early = []string{"x"} },
		"answer":      func(r *Report) { r.Sent.Wrong = []string{"x"} },
		"stuck":       func(r *Report) { r.Stuck = "x" },
		"swept":       func(r *Report) { r.Swept = 1 },
		"deadlock":    func(r *Report) { r.Deadlocks = 1 },
		"panic":       func(r *Report) { r.Panics = 1 },
		"audit":       func(r *Report) { r.Audit.Problems = 1 },
		"end": func(r *Report) {
			r.Count(nil, map[string]int{}, []stage.End{{Name: "worker-1", State: "exit status 1"}})
		},
		"no verdict": func(r *Report) { r.Verdict = nil },
	} {
		t.Run(name, func(t *testing.T) {
			r := held()
			harm(r)
			require.NotEmpty(t, r.Faulty())
			require.Contains(t, r.String(), "BROKEN")
		})
	}
	r := held()
	r.Plan, r.Swept = "restore", 5
	require.Empty(t, r.Faulty(), "after a restore the sweep has work")
}

func TestPublish(t *testing.T) {
	dir := t.TempDir()
	broken := held()
	broken.Broken, broken.Verdict.Lost, broken.Verdict.Found.Lost = "ack-first", []string{"x", "event a|b: accepted, and has no row"}, 2
	broken.Find(breakage.Named("ack-first"))
	broken.WallSeconds = 99
	for name, r := range map[string]*Report{"a.json": held(), "b.json": broken} {
		text, err := json.Marshal(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	document := filepath.Join(dir, "doc.md")
	require.NoError(t, os.WriteFile(document, []byte("before\n"+beginMark+"\nold\n"+endMark+"\nafter\n"), 0o600))
	require.NoError(t, Publish(document, dir))
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	require.Contains(t, string(text), "before\n")
	require.Contains(t, string(text), "\nafter\n")
	require.NotContains(t, string(text), "old")
	require.Contains(t, string(text), "| mixed | 1m30s | 7 | 1,234,567 | 1,234,570 | 3 | 1 | 3.0 s | 0 | 0 | 0 | held |")
	require.Contains(t, string(text), `| a delivery is acknowledged before its transaction commits | 1m30s | 7 | 3 | 99 s | event a\|b: accepted, and has no row |`)

	require.NoError(t, os.WriteFile(document, []byte("no marks"), 0o600))
	require.ErrorContains(t, Publish(document, dir), "has no lines")
	require.ErrorContains(t, Publish(document, t.TempDir()), "no report")
}
