package traffic

import (
	"fmt"
	"slices"
	"strings"
)

// ahead bounds how many draws Find looks ahead.
const ahead = 100_000

// Find returns an event that a run of this seed has written, writing the traffic
// again as far as needed.
func (s *Stream) Find(source, id string) (*Event, error) {
	if s.found == nil {
		s.found, s.seen = map[string]*Event{}, map[*Event]bool{}
	}
	key := source + " " + id
	for range ahead {
		if e := s.found[key]; e != nil {
			s.seen[e] = true
			return e, nil
		}
		known := len(s.Events)
		if strings.HasPrefix(id, "msg_deadly_") {
			s.Deadly()
		} else {
			s.write()
			s.due = s.due[:0] // nothing is sent
		}
		for _, e := range s.Events[known:] {
			s.found[e.Source+" "+e.ID] = e
		}
	}
	return nil, fmt.Errorf("event %s of %s is not of seed and rate", id, source)
}

// Keep leaves only the events that were asked for.
func (s *Stream) Keep() {
	s.Events = slices.DeleteFunc(s.Events, func(e *Event) bool { return !s.seen[e] })
	s.Purses = slices.DeleteFunc(s.Purses, func(p *Purse) bool { return !s.seen[p.Spends[0]] })
}
