// Package report shows what a run found: tables on a terminal, the same as
// Markdown in a document, and everything as JSON.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/onceledger/onceledger/bench/measure"
)

// The lines between which UpdateMarkdown replaces what it finds.
const (
	beginMark = "<!-- bench:begin -->"
	endMark   = "<!-- bench:end -->"
)

// Print writes the tables for a person at a terminal.
func Print(w io.Writer, result *measure.Result) {
	for _, t := range tables(result) {
		fmt.Fprintf(w, "\n%s\n\n", t.title)
		out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, row := range append([][]string{t.header}, t.rows...) {
			fmt.Fprintln(out, strings.Join(row, "\t")+"\t")
		}
		_ = out.Flush() // as fmt.Fprintln
	}
	fmt.Fprintf(w, "\n%s\n", summary(result))
}

// Markdown returns the tables for a document.
func Markdown(result *measure.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", summary(result))
	for _, t := range tables(result) {
		fmt.Fprintf(&b, "\n**%s**\n\n", t.title)
		line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
		line(t.header)
		rule := make([]string, len(t.header))
		for i := range rule {
			rule[i] = "---:"
		}
		rule[0] = ":---"
		line(rule)
		for _, row := range t.rows {
			line(row)
		}
	}
	return b.String()
}

// UpdateMarkdown replaces what stands between the two marks of the file at path.
func UpdateMarkdown(path string, result *measure.Result) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("update tables: %w", err)
	}
	head, rest, begun := strings.Cut(string(text), beginMark)
	_, tail, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return fmt.Errorf("update tables: %s has no lines %s and %s", path, beginMark, endMark)
	}
	next := head + beginMark + "\n" + Markdown(result) + endMark + tail
	if err := os.WriteFile(path, []byte(next), 0o644); err != nil { //nolint:gosec // a document for all
		return fmt.Errorf("update tables: %w", err)
	}
	return nil
}

// WriteJSON writes the whole result to the file at path.
func WriteJSON(path string, result *measure.Result) error {
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil { //nolint:gosec // figures are no secret
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}

// busy is from how many cores of others' work on a reader is warned.
const busy = 0.3

func summary(result *measure.Result) string {
	text := fmt.Sprintf("%s, %.0f s. Everything that was accepted was found in the stream, each backlog in the ledger to the cent.\n%s.",
		result.Started.Format("2006-01-02"), result.Seconds, result.Machine)
	var wrong []string
	for _, c := range result.Contenders {
		if c.Verdict.Wrong() && !slices.Contains(wrong, c.Name) {
			wrong = append(wrong, c.Name)
		}
	}
	if len(wrong) > 0 {
		text += fmt.Sprintf("\nNot so %s: see its row.", strings.Join(wrong, ", "))
	}
	var costs []measure.PerEvent
	for _, c := range result.Receiver {
		costs = append(costs, c.Cost)
	}
	for _, c := range result.Worker {
		costs = append(costs, c.Cost)
	}
	for _, c := range result.Contenders {
		costs = append(costs, c.Cost)
	}
	for _, c := range result.Ledger {
		costs = append(costs, c.Cost)
	}
	var others float64
	for _, c := range costs {
		others += c.Foreign / float64(len(costs))
	}
	if others >= busy {
		text += fmt.Sprintf("\nOther work kept %.1f cores busy meanwhile: the rates are too low, and the ratios uncertain.", others)
	}
	return text
}
