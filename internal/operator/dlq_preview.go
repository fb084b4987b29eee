package operator

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/onceledger/onceledger/internal/letters"
)

// LetterPreview is what a command would do. Its JSON names are part of the
// public interface.
type LetterPreview struct {
	Action  string        `json:"action"`
	Letters int           `json:"letters"`
	Groups  []LetterGroup `json:"groups"`
	// Stale letters are deleted on the way: their events are decided.
	Stale int `json:"stale"`
	// Unreadable letters hold no event, and can only be discarded.
	Unreadable int `json:"unreadable"`

	groups map[[2]string]*LetterGroup
	last   uint64
}

// LetterGroup counts the letters of one reason and source.
type LetterGroup struct {
	Reason  string    `json:"reason"`
	Source  string    `json:"source"`
	Letters int       `json:"letters"`
	Oldest  time.Time `json:"oldest"`
	Newest  time.Time `json:"newest"`
}

func newPreview(action string) *LetterPreview {
	return &LetterPreview{Action: action, Groups: []LetterGroup{}, groups: map[[2]string]*LetterGroup{}}
}

// add counts a page of letters, oldest first.
func (p *LetterPreview) add(page []letters.Lying) error {
	for _, l := range page {
		p.last = max(p.last, l.Seq)
		if l.Standing == letters.Stale {
			p.Stale++
			continue
		}
		p.Letters++
		if _, err := l.Message(1); err != nil {
			p.Unreadable++
		}
		key := [2]string{string(l.Reason), l.Source}
		g := p.groups[key]
		if g == nil {
			g = &LetterGroup{Reason: key[0], Source: key[1], Oldest: l.Parked.UTC()}
			p.groups[key] = g
		}
		g.Letters++
		g.Newest = l.Parked.UTC()
	}
	return nil
}

// showPreview prints the counts; beside JSON results they go where errors go.
func (s *Session) showPreview(p *LetterPreview, dryRun bool) error {
	for _, g := range p.groups {
		p.Groups = append(p.Groups, *g)
	}
	slices.SortFunc(p.Groups, func(a, b LetterGroup) int {
		return cmp.Or(cmp.Compare(b.Letters, a.Letters), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Source, b.Source))
	})
	if s.JSON && dryRun {
		return s.object(p)
	}
	out := s.Out
	if s.JSON {
		out = s.errors()
	}
	if p.Letters == 0 && p.Stale == 0 {
		fmt.Fprintln(out, "no dead letters match")
		return nil
	}
	t := newTable(out, "LETTERS", "REASON", "SOURCE", "OLDEST", "NEWEST")
	for _, g := range p.Groups {
		t.row(fmt.Sprint(g.Letters), g.Reason, g.Source, when(g.Oldest), when(g.Newest))
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s to %s\n", count(p.Letters, "dead letter"), p.Action)
	if p.Stale > 0 {
		fmt.Fprintf(out, "%s, whose events are decided, to be deleted on the way\n", count(p.Stale, "stale letter"))
	}
	if p.Unreadable > 0 && p.Action == "redrive" {
		fmt.Fprintf(out, "of them %d hold no event: they stay, and only a discard can end them\n", p.Unreadable)
	}
	return nil
}

// errors is where what is no result goes.
func (s *Session) errors() io.Writer {
	if s.Err == nil {
		return io.Discard
	}
	return s.Err
}
