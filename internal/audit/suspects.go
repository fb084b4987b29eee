package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// maxSuspects bounds the messages that are kept for a second look. Where more
// than that are unaccounted for, what a moment might explain no longer matters.
const maxSuspects = 100_000

// suspects are messages that had no term at first sight, by their content.
type suspects struct {
	n  int
	by map[content][]*message
}

// content is what a dead letter and a message have in common.
type content struct {
	key  dedupe.Key
	hash [32]byte
}

// suspect keeps m for a second look, without its body, while there is room.
func (a *auditor) suspect(m *message) bool {
	s := &a.suspects
	if s.n >= maxSuspects {
		return false
	}
	a.read(m)
	if s.by == nil {
		s.by = map[content][]*message{}
	}
	c := content{m.key, m.hash}
	s.by[c] = append(s.by[c], m)
	s.n++
	return true
}

// acquit counts the suspects that l explains: their content was parked, and
// another content took over the event's row since.
func (a *auditor) acquit(l *dlq.Letter) {
	if a.suspects.n == 0 || l.Variant != "" {
		return // a conflict has a row of its own
	}
	c := content{dedupe.Key{Source: l.Source, ID: l.EventID}, sha256.Sum256(l.Data)}
	for _, m := range a.suspects.by[c] {
		term := duplicate
		if m.seq == l.OriginSeq && m.stored.Equal(l.FirstSeen) {
			term = parked
		}
		a.count(m, class{term: term})
		a.suspects.n--
	}
	delete(a.suspects.by, c)
}

// again looks a second time at every suspect that no letter explains: its rows
// may have moved while they were read.
func (a *auditor) again(ctx context.Context) error {
	left := make([]*message, 0, a.suspects.n)
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
