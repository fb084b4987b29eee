package audit

import (
	"context"
	"maps"
	"slices"

	"github.com/onceledger/onceledger/pkg/dlq"
)

// maxSuspects bounds the messages that are kept for a second look. Where more
// than that are unaccounted for, what a moment might explain no longer matters.
const maxSuspects = 100_000

// suspects are messages that had no term at first sight, by sequence.
type suspects map[uint64]*message

// suspect keeps m for a second look, without its body, while there is room.
func (a *auditor) suspect(m *message) bool {
	if len(a.suspects) >= maxSuspects {
		return false
	}
	a.read(m)
	if a.suspects == nil {
		a.suspects = suspects{}
	}
	a.suspects[m.seq] = m
	return true
}

// parkedBy reports whether l is the letter of a suspect: it was parked before
// another content took over the event's row.
func (s suspects) parkedBy(l *dlq.Letter) (*message, bool) {
	m := s[l.OriginSeq]
	if m == nil || m.key.Source != l.Source || m.key.ID != l.EventID || !l.FirstSeen.Equal(m.stored) {
		return nil, false
	}
	return m, true
}

// again looks a second time at every suspect that no letter explains: its rows
// may have moved while they were read.
func (a *auditor) again(ctx context.Context) error {
	left := slices.Sorted(maps.Keys(a.suspects))
	for chunk := range slices.Chunk(left, readBatch) {
		batch := make([]*message, len(chunk))
		for i, seq := range chunk {
			batch[i] = a.suspects[seq]
		}
		found, err := a.lookUp(ctx, batch)
		if err != nil {
			return err
		}
		for _, m := range batch {
			class, err := a.classify(ctx, m, found)
			if err != nil {
				return err
			}
			a.count(m, class)
		}
	}
	return nil
}
