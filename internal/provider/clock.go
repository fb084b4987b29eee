package provider

import (
	"strconv"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

// earliest and ahead bound what is believed of an occurred-at; milliseconds
// begins where seconds would be past the year 5000.
var earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// zones of providers that write local times. China has had no summer time since 1991.
var zones = map[string]*time.Location{"": nil, "UTC": time.UTC, "China": time.FixedZone("CST", 8*60*60), "Pacific": time.UTC}

// pacific are the two times in which PayPal writes.
var pacific = strings.NewReplacer(" PST", " -0800", " PDT", " -0700")

const (
	ahead        = 24 * time.Hour
	milliseconds = 100_000_000_000
)

// time returns when the event occurred, and now where the request does not
// say, or says what cannot be. zone is of times that have none; nil: such a
// time does not say when.
func (r *reading) time(l locator, zone *time.Location, now time.Time) time.Time {
	at, ok := parseTime(r.find(l), zone)
	if !ok || at.Before(earliest) || at.After(now.Add(ahead)) {
		at = now
	}
	return at.UTC().Round(0)
}

// layouts without a zone, as providers in one country write them.
var layouts = [...]string{time.DateTime, "2006-01-02T15:04:05", "20060102150405", "15:04:05 Jan 02, 2006 -0700"}

// parseTime reads ISO 8601 with a zone, or unix seconds or milliseconds as a
// number or a string, whose fraction is dropped.
func parseTime(value any, zone *time.Location) (time.Time, bool) {
	var text string
	switch v := value.(type) {
	case int64:
		return unixTime(v), true
	case jsondoc.Number:
		text = string(v)
	case string:
		text = v
	default:
		return time.Time{}, false
	}

	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, true
	}
	if zone != nil {
		for _, layout := range layouts {
			if at, err := time.ParseInLocation(layout, pacific.Replace(text), zone); err == nil {
				return at, true
			}
		}
	}
	whole, _, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	return unixTime(n), true
}

func unixTime(n int64) time.Time {
	if n >= milliseconds {
		return time.UnixMilli(n)
	}
	return time.Unix(n, 0)
}
