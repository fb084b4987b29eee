package dlq

import (
	"strings"
	"time"
)

// Filter selects letters by what they say; its zero value selects all.
type Filter struct {
	Reason Reason
	Source string
	// Type and EventID are whole values, or prefixes that end in *.
	Type, EventID string
	// From and To are the first and the last sequence; 0 leaves an end open.
	From, To uint64
	// Before and Since bound when the letter was stored; Since includes itself.
	Before, Since time.Time
}

// Selects reports whether l is among the letters of f.
func (f Filter) Selects(l *Letter) bool {
	return (f.Reason == "" || l.Reason == f.Reason) &&
		(f.Source == "" || l.Source == f.Source) &&
		Matches(f.EventID, l.EventID) &&
		(f.Type == "" || Matches(f.Type, l.EventType())) &&
		l.Seq >= f.From && (f.To == 0 || l.Seq <= f.To) &&
		(f.Before.IsZero() || l.Parked.Before(f.Before)) &&
		!l.Parked.Before(f.Since)
}

// subject is the narrowest that holds all selected letters; strangers may have
// published under any.
func (f Filter) subject() string {
	if f.Reason == "" && f.Source == "" {
		return "dlq.>"
	}
	return Subject(f.Reason, f.Source)
}

// Matches compares with a whole value, or with a prefix that ends in *; an empty
// pattern matches all.
func Matches(pattern, value string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(value, prefix)
	}
	return pattern == "" || pattern == value
}
