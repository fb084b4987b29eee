package main

import (
	"math"
	"time"
)

// patience is how long a backlog is waited for: a limit that begins anew whenever
// it is smaller than ever before.
type patience struct {
	limit time.Duration
	until time.Time
	least uint64
}

func newPatience(limit time.Duration, now time.Time) *patience {
	return &patience{limit, now.Add(limit), math.MaxUint64}
}

// over notes the backlog, and reports whether the limit has passed.
func (p *patience) over(now time.Time, backlog uint64) bool {
	if backlog < p.least {
		p.least, p.until = backlog, now.Add(p.limit)
	}
	return !now.Before(p.until)
}
