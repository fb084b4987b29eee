package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// maxSuspects bounds the messages that are kept for a second look. Where more
// than that are unaccounted for, what a moment might explain no longer matters.
const maxSuspects = 100_000

// suspects are messages that had no term at first sight. Those that stand under
// another content may be explained by what was parked under their key before
// that content came; for the others only time can.
type suspects struct {
	n    int
	by   map[dedupe.Key][]*message
	rest []*message
}

// suspect keeps m for a second look, without its body, while there is room.
func (a *auditor) suspect(m *message, c class) bool {
	s := &a.suspects
	if s.n >= maxSuspects {
		return false
	}
	a.read(m)
	s.n++
	if c.problem != OtherContent || c.owner {
		s.rest = append(s.rest, m)
		return true
	}
	if s.by == nil {
		s.by = map[dedupe.Key][]*message{}
	}
	s.by[m.key] = append(s.by[m.key], m)
	return true
}

// explain counts the suspects under a key for which says returns a term, and
// keeps the others.
func (s *suspects) explain(a *auditor, key dedupe.Key, says func(*message) (term, bool)) {
	var left []*message
	for _, m := range s.by[key] {
		if t, ok := says(m); ok {
			a.count(m, class{term: t})
			s.n--
		} else {
			left = append(left, m)
		}
	}
	if s.by[key] = left; len(left) == 0 {
		delete(s.by, key)
	}
}

// acquit counts the suspects that l explains: its message is parked, and another
// one with its bytes or its meaning is a duplicate, although the event's row
// has another content since.
func (a *auditor) acquit(l *dlq.Letter) {
	key := dedupe.Key{Source: l.Source, ID: l.EventID}
	if l.Variant != "" || a.suspects.by[key] == nil {
		return // a conflict has a row of its own
	}
	parcel := &message{hash: sha256.Sum256(l.Data)}
	if event, err := envelope.Decode(l.Header, l.Data); err == nil {
		parcel.event = event
	}
	meaning := a.read(parcel)
	a.suspects.explain(a, key, func(m *message) (term, bool) {
		switch mine := a.read(m); {
		case m.seq == l.OriginSeq && m.stored.Equal(l.FirstSeen):
			return parked, m.hash == parcel.hash
		case m.hash == parcel.hash:
			return duplicate, true
		default:
			return duplicate, mine != nil && meaning != nil && mine.Compare(*meaning) == dedupe.Same
		}
	})
}

// superseded counts the suspects whose letter was removed since. What only meant
// the same as the letter can no longer be compared with it; there an earlier
// run's word is taken.
func (a *auditor) superseded(ctx context.Context) error {
	for some := range slices.Chunk(slices.Collect(maps.Keys(a.suspects.by)), readBatch) {
		found, err := dedupe.FindSuperseded(ctx, a.Pool, some)
		if err != nil {
			return err
		}
		for _, s := range found {
			a.suspects.explain(a, s.Key, func(m *message) (term, bool) {
				switch {
				case m.hash != s.BodyHash:
					return duplicate, m.seq <= a.settled && !a.unsettled[m.seq]
				case m.seq == s.Seq && a.created.Equal(s.StreamCreated):
					return parked, true
				}
				return duplicate, true
			})
		}
	}
	return nil
}

// again looks a second time at every suspect that no letter explains: its rows
// may have moved while they were read.
func (a *auditor) again(ctx context.Context) error {
	left := a.suspects.rest
	for _, messages := range a.suspects.by {
		left = append(left, messages...)
	}
	slices.SortFunc(left, func(a, b *message) int { return cmp.Compare(a.seq, b.seq) })
	for batch := range slices.Chunk(left, readBatch) {
		found, err := a.lookUp(ctx, batch)
		if err != nil {
			return err
		}
		for _, m := range batch {
			class, err := a.classify(ctx, m, found)
			if err != nil {
				return err
			}
			if class.problem == OtherContent && !class.owner {
				class = a.waiting(m, class) // nobody may have come to park it yet
			}
			a.count(m, class)
		}
	}
	return nil
}
