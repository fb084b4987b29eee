// Package report is what a torture run found, for people and for programs.
package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onceledger/onceledger/test/torture/breakage"
	"github.com/onceledger/onceledger/test/torture/check"
	"github.com/onceledger/onceledger/test/torture/client"
	"github.com/onceledger/onceledger/test/torture/fault"
	"github.com/onceledger/onceledger/test/torture/stage"
)

// listed is how many findings of a kind a report has; findings.txt has all.
const listed = 20

// Write writes the report, and beside it every finding, into a folder.
func (r *Report) Write(folder string) error {
	if r.Verdict != nil {
		all := strings.Join(r.Verdict.Cut(listed), "\n")
		if err := os.WriteFile(filepath.Join(folder, "findings.txt"), []byte(all), 0o600); err != nil {
			return fmt.Errorf("write findings: %w", err)
		}
	}
	r.Audit.Findings = r.Audit.Findings[:min(listed, len(r.Audit.Findings))]
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "report.json"), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Report is one run. Its JSON is what docs/reliability.md is made from.
type Report struct {
	Seed    uint64 `json:"seed"`
	Plan    string `json:"plan"`
	Version string `json:"version"`
	// Broken is what was broken in the product on purpose, Hit the finding that shows it.
	Broken  string    `json:"broken,omitempty"`
	Hit     string    `json:"hit,omitempty"`
	Started time.Time `json:"started"`
	// Seconds is how long harm was done, WallSeconds how long the run took.
	Seconds float64 `json:"seconds"`
	// Rate is how many deliveries a second were planned.
	Rate        int     `json:"rate"`
	WallSeconds float64 `json:"wall_seconds"`

	// Faults are those planned; Done those done, by component and kind.
	Faults int                           `json:"faults"`
	Done   map[string]map[fault.Kind]int `json:"done"`
	// Points says how often a program ended or froze at each fault point.
	Points map[string]int `json:"points"`
	// Kills are processes that ended by SIGKILL, by component.
	Kills map[string]int `json:"kills"`
	// Ended are programs that ended by themselves: there should be none.
	Ended []string `json:"ended"`

	Sent     client.Result `json:"sent"`
	Messages int           `json:"messages"`
	// Rest is how long it took until nothing waited, once no more harm was done.
	Rest time.Duration `json:"rest_ns"`
	// Early is what was wrong before the dead letters were sent again.
	Early []string `json:"early"`
	// Parked counts the events that were parked then, by their reason.
	Parked map[string]int `json:"parked_at_first_rest"`
	Stuck  string         `json:"stuck"`

	Verdict *check.Verdict `json:"verdict"`
	// Stale are letters that deaths left behind, of events that have other ones: the
	// operator's command deletes what it meets of them, as the workers do each hour.
	Stale int `json:"stale"`
	// Swept are deliveries that were answered without an outcome, and sent again by
	// the sweep: none, unless an older database was restored.
	Swept     int   `json:"swept"`
	Deadlocks int   `json:"deadlocks"`
	Panics    int   `json:"panics"`
	Audit     Audit `json:"audit"`
}

// Audit is what `onceledger audit --json` says.
type Audit struct {
	Clean    bool `json:"clean"`
	Problems int  `json:"problems"`
	Sum      struct {
		Unaccounted int `json:"unaccounted"`
	} `json:"sum"`
	Findings []struct {
		Kind   string `json:"kind"`
		Detail string `json:"detail"`
	} `json:"findings"`
}

// Count takes over what was done and who died.
func (r *Report) Count(done map[string]map[fault.Kind]int, kills map[string]int, ends []stage.End) {
	r.Done, r.Kills = done, maps.Clone(kills)
	for _, end := range ends {
		component, _, _ := strings.Cut(end.Name, "-")
		if end.State == "signal: killed" { // at a fault point, or of a deadly event
			r.Kills[component]++
			continue
		}
		r.Ended = append(r.Ended, fmt.Sprintf("%s at %s: %s", end.Name, end.At.Format(time.TimeOnly), end.State))
	}
}

// Total is the number of kills.
func (r *Report) Total() (n int) {
	for _, kills := range r.Kills {
		n += kills
	}
	return n
}

// Find sets Hit to the first finding that a breakage is known by.
func (r *Report) Find(b *breakage.Breakage) {
	known := regexp.MustCompile(b.Finds)
	for _, each := range r.every() {
		if known.MatchString(each) {
			r.Hit = strings.TrimSpace(each)
			return
		}
	}
}

// every returns all findings, uncut.
func (r *Report) every() []string {
	if r.Verdict == nil {
		return r.Faulty()
	}
	return slices.Concat(r.Faulty(), r.Early, r.Verdict.Lost, r.Verdict.Doubled, r.Verdict.Unexplained)
}

// Faulty returns what is wrong, a line each; none means that every promise held.
func (r *Report) Faulty() []string {
	var wrong []string
	add := func(n int, format string, args ...any) {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	v := r.Verdict
	if v == nil {
		return []string{"the run did not come to its end"}
	}
	for _, group := range []struct {
		name string
		n    int
		list []string
	}{{"lost", v.Found.Lost, v.Lost}, {"doubled", v.Found.Doubled, v.Doubled}, {"unexplained", v.Found.Unexplained, v.Unexplained}} {
		add(group.n, "%d %s:", group.n, group.name)
		for _, each := range group.list[:min(len(group.list), listed)] {
			wrong = append(wrong, "  "+each)
		}
	}
	for _, group := range []struct {
		name string
		list []string
	}{{"wrong answers", r.Sent.Wrong}, {"wrong before the letters were sent again", r.Early}} {
		add(len(group.list), "%d %s:", len(group.list), group.name)
		for _, each := range group.list[:min(len(group.list), listed)] {
			wrong = append(wrong, "  "+each)
		}
	}
	add(len(r.Stuck), "it did not come to rest: %s", r.Stuck)
	if r.Plan != "restore" {
		add(r.Swept, "%d deliveries were answered without an outcome, before the sweep sent them again", r.Swept)
	}
	add(r.Deadlocks, "%d deadlocks in Postgres' log", r.Deadlocks)
	add(r.Panics, "%d panics or data races in the programs' logs", r.Panics)
	for _, each := range r.Ended {
		wrong = append(wrong, "ended by itself: "+each)
	}
	add(r.Audit.Problems, "the audit has %d problems, %d unaccounted:", r.Audit.Problems, r.Audit.Sum.Unaccounted)
	for _, each := range r.Audit.Findings[:min(len(r.Audit.Findings), listed)] {
		wrong = append(wrong, "  "+each.Kind+": "+each.Detail)
	}
	return wrong
}

// String is the report as a person reads it.
func (r *Report) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "\nTorture, %s plan, seed %d, %s, version %s\n\n", r.Plan, r.Seed, time.Duration(r.Seconds*float64(time.Second)), r.Version)
	if r.Broken != "" {
		line("broken", "%s, on purpose", r.Broken)
	}
	line("kills", "%d: %s", r.Total(), counts(r.Kills))
	for _, component := range slices.Sorted(maps.Keys(r.Done)) {
		kinds := map[string]int{}
		for kind, n := range r.Done[component] {
			kinds[string(kind)] = n
		}
		line(component, "%s", counts(kinds))
	}
	line("points", "%s", counts(r.Points))
	line("deliveries", "%s in %s tries: %s timed out, %s were asked to come again, %s found nobody",
		number(r.Sent.Deliveries), number(r.Sent.Tries), number(r.Sent.TimedOut), number(r.Sent.Refused), number(r.Sent.Unreachable))
	line("outage", "%.1f s was the longest time without an accepted delivery", r.Sent.Outage.Seconds())
	line("parked", "before they were sent again: %s", counts(r.Parked))
	line("rest", "everything was decided %.1f s after the last harm", r.Rest.Seconds())
	if v := r.Verdict; v != nil {
		line("outcomes", "%s", counts(v.Outcomes))
		line("ledger", "%s events, %s transfers; %s messages in EVENTS", number(v.Events), number(v.Transfers), number(r.Messages))
	}
	wrong := r.Faulty()
	if len(wrong) == 0 {
		line("verdict", "HELD: 0 lost, 0 doubled, 0 unexplained; the audit is clean")
		return b.String()
	}
	line("verdict", "BROKEN")
	for _, each := range wrong {
		fmt.Fprintf(&b, "    %s\n", each)
	}
	return b.String()
}

// counts lists numbers with their names, the largest first.
func counts(of map[string]int) string {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		if of[a] != of[b] {
			return of[b] - of[a]
		}
		return strings.Compare(a, b)
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %s", number(of[name]), name)
	}
	return strings.Join(names, ", ")
}

// number writes n with commas.
func number(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
