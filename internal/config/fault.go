package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	// Pos is where the file is wrong; its zero value means that no place in the
	// file is to blame, as for a value from the environment.
	Pos Pos
	// Path names the key, for example sources.stripe.rules[0].when.
	Path string
	// Message says what is wrong and what would be right. It never holds a secret.
	Message string
	// File is the configuration file; Faults.In sets it.
	File string
}

// String returns the fault as file:line:column: path: message, without the
// parts that are unknown.
func (f Fault) String() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File + ":")
	}
	if f.Pos != (Pos{}) {
		fmt.Fprintf(&b, "%d:%d:", f.Pos.Line, f.Pos.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults are all faults of one configuration, reported at once.
type Faults []Fault

// Error returns one line a fault, ordered by place.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f.sorted() {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// In returns the faults as an error about file, ordered by place, and nil
// where there are none.
func (f Faults) In(file string) error {
	if len(f) == 0 {
		return nil
	}
	sorted := f.sorted()
	for i := range sorted {
		sorted[i].File = file
	}
	return sorted
}

func (f Faults) sorted() Faults {
	sorted := slices.Clone(f)
	slices.SortStableFunc(sorted, func(a, b Fault) int {
		return cmp.Or(
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column),
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return sorted
}
