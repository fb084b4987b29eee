package dedupe

import "time"

// SetNow replaces the clock that says when Redis is asked again.
func (c *Claims) SetNow(now func() time.Time) { c.now = now }
