package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onceledger/onceledger/test/torture/breakage"
)

// The marks in a document between which the figures stand.
const beginMark, endMark = "<!-- torture:begin -->", "<!-- torture:end -->"

// Publish writes the figures of the runs whose reports lie in folder into the
// document, between its marks.
func Publish(document, folder string) error {
	runs, err := read(folder)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(document)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	head, rest, begun := strings.Cut(string(text), beginMark)
	_, tail, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return fmt.Errorf("publish: %s has no lines %s and %s", document, beginMark, endMark)
	}
	if err := os.WriteFile(document, []byte(head+beginMark+"\n"+markdown(runs)+endMark+tail), 0o644); err != nil { //nolint:gosec // a document for all
		return fmt.Errorf("publish: %w", err)
	}
	return nil
}

// read reads reports, the longest first.
func read(folder string) ([]*Report, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	var runs []*Report
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("publish: %w", err)
		}
		r := &Report{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("publish %s: %w", file, err)
		}
		runs = append(runs, r)
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("publish: there is no report in %s", folder)
	}
	slices.SortStableFunc(runs, func(a, b *Report) int { return int(b.Seconds - a.Seconds) })
	return runs, nil
}

func markdown(runs []*Report) string {
	var b strings.Builder
	b.WriteString("\n| plan | harm lasts | seed | deliveries | tries | kills | other harm | longest outage | lost | doubled | unexplained | verdict |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n")
	for _, r := range runs {
		if r.Broken != "" {
			continue
		}
		verdict := "held"
		if len(r.Faulty()) > 0 {
			verdict = "**broken**"
		}
		if r.Resumed {
			verdict += ", taken up again"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %d | %d | %.1f s | %d | %d | %d | %s |\n", r.Plan, length(r), r.Seed,
			number(r.Sent.Deliveries), number(r.Sent.Tries), r.Total(), r.others(), r.Sent.Outage.Seconds(),
			r.Verdict.Found.Lost, r.Verdict.Found.Doubled, r.Verdict.Found.Unexplained, verdict)
	}
	if longest := runs[0]; longest.Broken == "" {
		b.WriteString(details(longest))
	}
	b.WriteString(broken(runs))
	return b.String()
}

func length(r *Report) string { return time.Duration(r.Seconds * float64(time.Second)).String() }

// others counts the harm that is no kill.
func (r *Report) others() (n int) {
	for _, kinds := range r.Done {
		for kind, times := range kinds {
			if !strings.Contains(string(kind), "kill") && kind != "rollback" && kind != "deadly" {
				n += times
			}
		}
	}
	return n
}

// details shows one run whole.
func details(r *Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nThe longest run, of %s, on version `%s` (`make torture MINUTES=%g SEED=%d ARGS=\"-plan %s -rate %d\"`):\n\n| component | killed | harm done |\n|---|--:|---|\n",
		r.Started.Format(time.DateOnly), r.Version, r.Seconds/60, r.Seed, r.Plan, r.Rate)
	for _, component := range slices.Sorted(maps.Keys(r.Done)) {
		kinds := map[string]int{}
		for kind, n := range r.Done[component] {
			kinds[string(kind)] = n
		}
		fmt.Fprintf(&b, "| %s | %d | %s |\n", component, r.Kills[component], counts(kinds))
	}
	fmt.Fprintf(&b, "\n| died or froze at | |\n|---|--:|\n")
	for _, point := range slices.Sorted(maps.Keys(r.Points)) {
		fmt.Fprintf(&b, "| `%s` | %d |\n", point, r.Points[point])
	}
	fmt.Fprintf(&b, "\n| what became of the events | |\n|---|--:|\n")
	outcomes := r.Verdict.Outcomes
	for _, name := range slices.SortedFunc(maps.Keys(outcomes), func(a, b string) int { return outcomes[b] - outcomes[a] }) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, number(outcomes[name]))
	}
	fmt.Fprintf(&b, "\nParked before the letters were sent again: %s; %d letters were stale after it, and deleted.\n", counts(r.Parked), r.Stale)
	fmt.Fprintf(&b, "\n%s of the tries timed out, %s were asked to come again, %s found nobody. Everything was decided %.0f s after the last harm; "+
		"%s transfers, %s messages in `EVENTS`, %d deadlocks, %d panics, %d programs that ended by themselves, %d problems of the audit.\n",
		number(r.Sent.TimedOut), number(r.Sent.Refused), number(r.Sent.Unreachable), r.Rest.Seconds(),
		number(r.Verdict.Transfers), number(r.Messages), r.Deadlocks, r.Panics, len(r.Ended), r.Audit.Problems)
	return b.String()
}

// broken shows that what is broken on purpose is found.
func broken(runs []*Report) string {
	var b strings.Builder
	for _, r := range runs {
		if r.Broken == "" {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("\n| broken on purpose | harm lasts | seed | kills | found after, in all | by, among others |\n|---|--:|--:|--:|--:|---|\n")
		}
		what, hit := r.Broken, r.Hit
		if known := breakage.Named(r.Broken); known != nil {
			what = known.What
		}
		if hit == "" {
			hit = "**nothing**"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %.0f s | %s |\n", what, length(r), r.Seed, r.Total(), r.WallSeconds, strings.ReplaceAll(hit, "|", "\\|"))
	}
	return b.String()
}
