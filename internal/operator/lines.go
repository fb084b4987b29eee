package operator

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/internal/exit"
)

// form is what a list of one kind of line looks like.
type form struct {
	// columns are the table's, numbers among them are aligned at their right.
	columns []string
	numbers []int
	// header is that of the CSV.
	header []string
}

// line is one line of a list; its JSON is that of its type.
type line interface {
	cells() []string  // of the table, amounts in major units
	record() []string // of the CSV, amounts in both
}

// lines prints a list as it comes, in the form that was asked for: a table,
// aligned from flush to flush, JSON lines, or CSV (RFC 4180).
type lines struct {
	s       *Session
	form    form
	csv     *csv.Writer
	pending [][]string
	begun   bool
	n       int
}

// newLines begins a list; --json and --csv at once are a usage error.
func newLines(s *Session, f form) (*lines, error) {
	if s.JSON && s.CSV {
		return nil, exit.Usagef("--json and --csv do not go together; choose one")
	}
	l := &lines{s: s, form: f, csv: csv.NewWriter(s.Out)}
	l.csv.UseCRLF = true
	return l, nil
}

// listing begins a list of what the database has; the caller closes the pool.
func (s *Session) listing(ctx context.Context, f form) (*lines, *pgxpool.Pool, error) {
	out, err := newLines(s, f)
	if err != nil {
		return nil, nil, err
	}
	pool, err := s.Database(ctx)
	if err != nil {
		return nil, nil, err
	}
	return out, pool, nil
}

func (l *lines) print(v line) error {
	l.n++
	switch {
	case l.s.JSON:
		return l.s.object(v)
	case l.s.CSV:
		l.begin()
		_ = l.csv.Write(v.record()) // an error stays until flush
	default:
		l.begin()
		l.pending = append(l.pending, v.cells())
	}
	return nil
}

// begin prints the header in front of the first line.
func (l *lines) begin() {
	switch {
	case l.begun:
	case l.s.CSV:
		_ = l.csv.Write(l.form.header) // an error stays until flush
	default:
		l.pending = append(l.pending, slices.Clone(l.form.columns))
	}
	l.begun = true
}

// flush writes what is pending. A CSV without lines has its header.
func (l *lines) flush() error {
	switch {
	case l.s.JSON:
		return nil
	case l.s.CSV:
		l.begin()
		l.csv.Flush()
		if err := l.csv.Error(); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
		return nil
	}
	text := l.align()
	l.pending = nil
	if _, err := io.WriteString(l.s.Out, text); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// align sets the pending lines below each other. It is not a table's tabwriter,
// which knows neither numbers nor the column of a line that ends before it.
func (l *lines) align() string {
	widths := make([]int, len(l.form.columns))
	for _, cells := range l.pending {
		for i := range cells {
			cells[i] = printable(cells[i])
			widths[i] = max(widths[i], utf8.RuneCountInString(cells[i]))
		}
	}
	var text strings.Builder
	for _, cells := range l.pending {
		var line strings.Builder
		for i, cell := range cells {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if slices.Contains(l.form.numbers, i) {
				line.WriteString(space + cell + "  ")
			} else {
				line.WriteString(cell + space + "  ")
			}
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return text.String()
}

// table reports whether a person reads it.
func (l *lines) table() bool { return !l.s.JSON && !l.s.CSV }

// outside makes a cell of a CSV from text that a sender chose: no spreadsheet
// takes it for a formula, no terminal for commands.
func outside(text string) string {
	text = printable(text)
	if strings.IndexAny(text, "=+-@＝＋－＠") == 0 {
		return "'" + text
	}
	return text
}

// stamp is a time in a CSV; none is empty.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
