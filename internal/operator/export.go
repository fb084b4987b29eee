package operator

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// Exported is one line of an export: the record to reconcile with.
type Exported struct {
	Source    string     `json:"source"`
	ID        string     `json:"id"`
	Variant   string     `json:"variant,omitempty"`
	Number    int64      `json:"event_no"`
	Type      string     `json:"type"`
	State     string     `json:"state"`
	Outcome   string     `json:"outcome,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	GaveWay   *GaveWay   `json:"gave_way_to,omitempty"`
	Transfers []Transfer `json:"transfers"`
	// Holds are those that it opened, as they stand, and its voids; Told its running
	// totals, and refunds that moved less than they say.
	Holds   []Hold    `json:"holds,omitempty"`
	Told    []Told    `json:"told,omitempty"`
	Seq     uint64    `json:"seq"`
	Decided time.Time `json:"decided_at"`
}

// ExportEvents prints every event decided since a time as JSON lines, in the
// order of event numbers. Memory is bounded by a page.
func ExportEvents(ctx context.Context, s *Session, since time.Time) error {
	pool, err := s.Database(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	out := bufio.NewWriter(s.Out)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for after := int64(-1); ; {
		rows, next, err := dedupe.Since(ctx, pool, since, after)
		if err != nil {
			return err
		}
		events, err := describe(ctx, pool, rows)
		if err != nil {
			return err
		}
		for _, e := range events {
			err := enc.Encode(Exported{
				Source: e.Source, ID: e.ID, Variant: e.Variant, Number: e.Number, Type: e.Type,
				State: e.State, Outcome: e.Outcome, Reason: e.Reason, GaveWay: e.GaveWay,
				Transfers: e.Transfers, Holds: e.Holds, Told: e.Told, Seq: e.Seq, Decided: e.Decided,
			})
			if err != nil {
				return fmt.Errorf("write events: %w", err)
			}
		}
		if err := out.Flush(); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
		if next < 0 {
			return nil
		}
		after = next
	}
}

// ParseSince reads a time (RFC 3339, or a date, in UTC), or a duration before
// now; empty is the beginning.
func ParseSince(text string, now time.Time) (time.Time, error) {
	return ParseTime("--since", text, now)
}

// ParseUntil is ParseSince for the end of a span; empty is now and later.
func ParseUntil(text string, now time.Time) (time.Time, error) {
	return ParseTime("--until", text, now)
}

// ParseTime is ParseSince for the flag that is named; empty is the zero time.
func ParseTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, exit.Usagef("%s %q is neither a time (2024-05-01T10:00:00Z, 2024-05-01) nor a duration (90m, 24h)", flag, text)
}
