package receiver

import (
	"sync"
	"time"
)

// sampler lets one of many equal log lines through. Its keys are built from
// configured names, so that strangers cannot make it grow.
type sampler struct {
	mu   sync.Mutex
	last map[string]*sampled
}

type sampled struct {
	at      time.Time
	skipped int
}

// take reports whether to log now, and how many were skipped since the last one.
func (s *sampler) take(key string, now time.Time) (skipped int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, known := s.last[key]
	if known && now.Sub(e.at) < sampleEvery {
		e.skipped++
		return 0, false
	}
	if !known {
		e = &sampled{}
		if s.last == nil {
			s.last = map[string]*sampled{}
		}
		s.last[key] = e
	}
	skipped = e.skipped
	e.at, e.skipped = now, 0
	return skipped, true
}
