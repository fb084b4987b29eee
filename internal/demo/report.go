package demo

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/onceledger/onceledger/internal/audit"
)

// shownDifferences bounds the differences that the table lists; JSON has all.
const shownDifferences = 20

// Report is what a run has shown. Its JSON names are part of the public interface.
type Report struct {
	Seed       uint64 `json:"seed"`
	Deliveries int    `json:"deliveries"`
	Events     int    `json:"events"`

	// Accepted deliveries were answered with 2xx, Refused ones, forged, with 401.
	Accepted int `json:"accepted"`
	Refused  int `json:"refused"`
	// Retried counts tries that had to be repeated, as the receiver was busy.
	Retried int `json:"retried"`
	// Stored is what EVENTS holds: resends that met on their way share one message.
	Stored int `json:"stored"`

	// The rows of the ledger: every accepted delivery has one or is a duplicate.
	Applied            int            `json:"applied"`
	Ignored            int            `json:"ignored"`
	DuplicateOperation int            `json:"duplicate_operation"`
	Parked             int            `json:"parked"`
	ParkedByReason     map[string]int `json:"parked_by_reason"`
	Duplicates         int            `json:"duplicates"`
	Transfers          int            `json:"transfers"`
	Accounts           int            `json:"accounts"`
	// Balances are more than accounts: one for each asset.
	Balances int `json:"balances"`

	// Killed says how many deliveries were unanswered, by all workers, when one
	// was killed; Redelivered counts those handed out again, that or any time.
	Killed struct {
		Unanswered int `json:"unanswered"`
	} `json:"killed_worker"`
	Redelivered int `json:"redelivered"`

	SendSeconds         float64 `json:"send_seconds"`
	DeliveriesPerSecond float64 `json:"deliveries_per_second"`
	AckP50Millis        float64 `json:"ack_p50_ms"`
	AckP99Millis        float64 `json:"ack_p99_ms"`
	AckMaxMillis        float64 `json:"ack_max_ms"`
	DrainSeconds        float64 `json:"drain_seconds"`
	WallSeconds         float64 `json:"wall_seconds"`

	// Equal says that the ledger is what the model expects, to the cent.
	Equal       bool          `json:"equal"`
	Differences []string      `json:"differences"`
	Audit       *audit.Report `json:"audit,omitempty"`
	// Kept is the folder of a run that failed.
	Kept string `json:"kept,omitempty"`
}

func newReport(seed uint64, p *plan) *Report {
	return &Report{
		Seed: seed, Deliveries: len(p.deliveries), Events: len(p.events),
		ParkedByReason: map[string]int{}, Differences: []string{},
	}
}

// sent takes what the sender has measured.
func (r *Report) sent(took time.Duration, s *sender) {
	acks := slices.DeleteFunc(slices.Clone(s.acks), func(d time.Duration) bool { return d == 0 })
	slices.Sort(acks)
	r.Accepted, r.Refused = len(acks), int(s.refused.Load())
	for _, n := range s.retries {
		r.Retried += n
	}
	r.SendSeconds = took.Seconds()
	r.DeliveriesPerSecond = float64(r.Accepted+r.Refused) / took.Seconds()
	r.AckP50Millis, r.AckP99Millis = percentile(acks, 50), percentile(acks, 99)
	r.AckMaxMillis = percentile(acks, 100)
}

// percentile returns the smallest of the sorted values that p percent of them do
// not exceed, in milliseconds.
func percentile(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return float64(sorted[max(rank, 1)-1].Microseconds()) / 1000
}

func (r *Report) drained(p progress, took time.Duration) {
	r.Stored, r.Redelivered = p.stored, p.deliveries-p.stored
	r.DrainSeconds = took.Seconds()
}

// compared takes what the ledger holds and how that differs from the model.
func (r *Report) compared(f *found, differences []string) {
	for _, have := range f.rows {
		switch {
		case have.state == "failed":
			r.Parked++
		case have.outcome == "applied":
			r.Applied++
		case have.outcome == "ignored":
			r.Ignored++
		case have.outcome == "duplicate_operation":
			r.DuplicateOperation++
		}
	}
	r.ParkedByReason = countReasons(f)
	r.Duplicates = r.Accepted - len(f.rows)
	for _, moves := range f.moves {
		r.Transfers += len(moves)
	}
	names := map[string]bool{}
	for a := range f.balances {
		names[a.name] = true
	}
	r.Accounts, r.Balances = len(names), len(f.balances)
	r.Equal = len(differences) == 0
	r.Differences = append(r.Differences, differences...)
}

// countReasons counts the parked events, by reason.
func countReasons(f *found) map[string]int {
	count := map[string]int{}
	for _, have := range f.rows {
		if have.state == "failed" {
			count[have.reason]++
		}
	}
	return count
}

// WriteTable prints the report for a person.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	line := func(indent int, name string, n int, note string) {
		name = strings.Repeat("  ", indent) + name
		fmt.Fprintf(&b, "%s\n", strings.TrimRight(fmt.Sprintf("  %-26s %9s   %s", name, thousands(n), note), " "))
	}
	b.WriteByte('\n')
	line(0, "deliveries", r.Deliveries, "")
	line(1, "accepted", r.Accepted, fmt.Sprintf("stored as %s messages", thousands(r.Stored)))
	line(1, "refused", r.Refused, "forged: answered with 401")
	line(0, "events", r.Applied+r.Ignored+r.DuplicateOperation+r.Parked, "")
	line(1, "applied", r.Applied, fmt.Sprintf("%s transfers, %s accounts", thousands(r.Transfers), thousands(r.Accounts)))
	line(1, "ignored", r.Ignored, "no rule matches, or test mode")
	line(1, "duplicate operation", r.DuplicateOperation, "one payment, two event ids")
	line(1, "parked", r.Parked, "")
	for _, reason := range slices.Sorted(maps.Keys(r.ParkedByReason)) {
		line(2, reason, r.ParkedByReason[reason], "")
	}
	line(0, "duplicates", r.Duplicates, "accepted, and nothing moved")

	b.WriteByte('\n')
	fact := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	fact("throughput", "%s deliveries/s, signed, verified and synced to disk", thousands(int(r.DeliveriesPerSecond)))
	fact("ack", "p50 %.1f ms, p99 %.1f ms, slowest %.1f ms", r.AckP50Millis, r.AckP99Millis, r.AckMaxMillis)
	fact("killed worker", "left %s deliveries unanswered; %s were handed out again", thousands(r.Killed.Unanswered), thousands(r.Redelivered))
	fact("wall time", "%.1f s", r.WallSeconds)
	r.writeVerdict(&b)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (r *Report) writeVerdict(b *strings.Builder) {
	b.WriteByte('\n')
	if r.Equal {
		fmt.Fprintf(b, "  %-14s EQUAL to the cent: %s balances, %s transfers\n", "ledger", thousands(r.Balances), thousands(r.Transfers))
	} else {
		fmt.Fprintf(b, "  %-14s WRONG: %s differences\n", "ledger", thousands(len(r.Differences)))
		for _, d := range r.Differences[:min(len(r.Differences), shownDifferences)] {
			fmt.Fprintf(b, "    %s\n", d)
		}
		if more := len(r.Differences) - shownDifferences; more > 0 {
			fmt.Fprintf(b, "    and %s more; --json lists all\n", thousands(more))
		}
	}
	if r.Audit != nil {
		fmt.Fprintf(b, "  %-14s %s: %s messages, %d unaccounted\n", "audit", r.Audit.Verdict(), thousands(r.Audit.Sum.Messages), r.Audit.Sum.Unaccounted)
		for _, f := range r.Audit.Findings[:min(len(r.Audit.Findings), shownDifferences)] {
			fmt.Fprintf(b, "    %s: %s\n", f.Kind, f.Detail)
		}
	}
}

// thousands writes n with separators.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// counter counts answers, and closes reached at one of them.
type counter struct {
	bar     *progressbar.ProgressBar
	at      int
	reached chan<- struct{}

	mu sync.Mutex
	n  int
}

func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n == c.at {
		close(c.reached)
	}
	_ = c.bar.Add(1) // a progress bar that cannot be drawn is no error
}
