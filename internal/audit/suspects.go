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

// suspects are messages that had no term at first sight. Those that stand under
// another content may be explained by a dead letter of their own content; for
// the others only time can.
type suspects struct {
	n    int
	by   map[content][]*message
	rest []*message
}

// content is what a dead letter and a message have in common.
type content struct {
	key  dedupe.Key
	hash [32]byte
}

// suspect keeps m for a second look, without its body, while there is room.
func (a *auditor) suspect(m *message, c class) bool {
	s := &a.suspects
	if s.n >= maxSuspects {
		return false
	}
	a.read(m)
	s.n++
	if c.problem != OtherContent {
		s.rest = append(s.rest, m)
		return true
	}
	if s.by == nil {
		s.by = map[content][]*message{}
	}
	s.by[content{m.key, m.hash}] = append(s.by[content{m.key, m.hash}], m)
	return true
}

// explained counts the suspects with a content that was parked, by the message
// that first tells, and whose event another content has taken over since.
func (a *auditor) explained(c content, first func(*message) bool) {
	for _, m := range a.suspects.by[c] {
		term := duplicate
		if first(m) {
			term = parked
		}
		a.count(m, class{term: term})
		a.suspects.n--
	}
	delete(a.suspects.by, c)
}

// acquit counts the suspects that l explains.
func (a *auditor) acquit(l *dlq.Letter) {
	if len(a.suspects.by) == 0 || l.Variant != "" {
		return // a conflict has a row of its own
	}
	a.explained(content{dedupe.Key{Source: l.Source, ID: l.EventID}, sha256.Sum256(l.Data)}, func(m *message) bool {
		return m.seq == l.OriginSeq && m.stored.Equal(l.FirstSeen)
	})
}

// superseded counts the suspects whose letter was removed since.
func (a *auditor) superseded(ctx context.Context) error {
	asked := make([]dedupe.Superseded, 0, len(a.suspects.by))
	for c := range a.suspects.by {
		asked = append(asked, dedupe.Superseded{Key: c.key, BodyHash: c.hash})
	}
	for some := range slices.Chunk(asked, readBatch) {
		found, err := dedupe.FindSuperseded(ctx, a.Pool, some)
		if err != nil {
			return err
		}
		for _, s := range found {
			a.explained(content{s.Key, s.BodyHash}, func(m *message) bool {
				return m.seq == s.Seq && a.created.Equal(s.StreamCreated)
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
			a.count(m, class)
		}
	}
	return nil
}
