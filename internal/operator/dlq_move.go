package operator

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

const (
	// DefaultRate is how many letters a bulk command moves a second: what a
	// worker decides beside its live deliveries.
	DefaultRate = 500
	// MaxRate bounds it: past it the disks decide.
	MaxRate = 100_000
)

// LetterMove says which letters to redrive or discard, and how.
type LetterMove struct {
	// Seqs are the letters; or All of those that Query selects.
	Seqs  []uint64
	All   bool
	Query LetterQuery
	// Actor is who does it, default the user of this machine; Note is why.
	Actor, Note string
	// DryRun only previews. Yes asks nothing. Rate is the most letters a second.
	DryRun, Yes bool
	Rate        int
}

// RedriveLetters sends the events of dead letters again, to be judged by today's
// rules. Their stored bytes are not touched.
func RedriveLetters(ctx context.Context, s *Session, m LetterMove) error {
	return s.move(ctx, m, "redrive", "redriven", func(store letters.Store, page []*dlq.Letter, a dedupe.Action) ([]letters.Result, error) {
		a.Verb = dedupe.VerbRedrive
		return store.Redrive(ctx, page, a, nil)
	})
}

// DiscardLetters gives the events of dead letters up. The note is required; the
// events stay visible with it.
func DiscardLetters(ctx context.Context, s *Session, m LetterMove) error {
	if strings.TrimSpace(m.Note) == "" {
		return exit.Usagef("a discard needs --note: why is this event given up?")
	}
	return s.move(ctx, m, "discard", "discarded", func(store letters.Store, page []*dlq.Letter, a dedupe.Action) ([]letters.Result, error) {
		return store.Discard(ctx, page, a)
	})
}

type mover func(letters.Store, []*dlq.Letter, dedupe.Action) ([]letters.Result, error)

// move previews, asks, and moves page after page.
func (s *Session) move(ctx context.Context, m LetterMove, verb, done string, do mover) error {
	filter, err := m.check(time.Now())
	if err != nil {
		return err
	}
	action := dedupe.Action{Actor: cmp.Or(m.Actor, userName(s.Env)), Note: m.Note}
	return s.letterStore(ctx, m.Query.Source, func(store letters.Store) error {
		source, err := m.source(ctx, store, filter)
		if err != nil {
			return err
		}
		preview := newPreview(verb)
		if err := source(preview.add); err != nil {
			return err
		}
		if m.DryRun || m.All {
			if err := s.showPreview(preview, m.DryRun); err != nil {
				return err
			}
		}
		switch {
		case m.DryRun || preview.Letters == 0 && preview.Stale == 0:
			return nil
		case m.All && !m.Yes:
			if err := s.confirm(ctx, fmt.Sprintf("%s %s?", verb, count(preview.Letters, "dead letter"))); err != nil {
				return err
			}
		}
		// What is parked meanwhile was not previewed.
		filter.To = preview.last
		if source, err = m.source(ctx, store, filter); err != nil {
			return err
		}
		run := newRun(s, verb, done, preview.Letters+preview.Stale, m)
		err = source(func(page []letters.Lying) error {
			for _, l := range page {
				if err := run.add(ctx, l.Letter, func(list []*dlq.Letter) ([]letters.Result, error) { return do(store, list, action) }); err != nil {
					return err
				}
			}
			return run.flush(ctx, func(list []*dlq.Letter) ([]letters.Result, error) { return do(store, list, action) })
		})
		return run.end(err)
	})
}

// check reads the arguments.
func (m LetterMove) check(now time.Time) (dlq.Filter, error) {
	filter, err := m.Query.filter(now)
	switch {
	case err != nil:
		return filter, err
	case len(m.Seqs) > 0 && (m.All || m.Query != LetterQuery{}):
		return filter, exit.Usagef("give sequences, or --all with filters, not both")
	case len(m.Seqs) == 0 && !m.All:
		return filter, exit.Usagef("give the sequence of a dead letter, or --all for all that the filters select")
	case m.Rate < 1 || m.Rate > MaxRate:
		return filter, exit.Usagef("--rate must be from 1 to %d letters a second", MaxRate)
	}
	return filter, nil
}

// source returns what calls for pages of the letters that are meant.
func (m LetterMove) source(ctx context.Context, store letters.Store, filter dlq.Filter) (func(func([]letters.Lying) error) error, error) {
	if m.All {
		return func(f func([]letters.Lying) error) error { return store.Each(ctx, filter, f) }, nil
	}
	list := make([]*dlq.Letter, len(m.Seqs))
	for i, seq := range m.Seqs {
		var err error
		if list[i], err = letterAt(ctx, store.JS, seq); err != nil {
			return nil, err
		}
	}
	return func(f func([]letters.Lying) error) error {
		found, err := store.Look(ctx, list)
		if err != nil {
			return err
		}
		return f(found)
	}, nil
}

// confirm asks the person at the terminal; where there is none, it wants --yes.
func (s *Session) confirm(ctx context.Context, question string) error {
	if !s.Terminal || s.In == nil {
		return exit.Usagef("nobody is at a terminal to be asked; add --yes, or --dry-run to look first")
	}
	fmt.Fprintf(s.errors(), "%s [y/N] ", question)
	answered := make(chan string, 1)
	go func() { // a read cannot be cancelled; the process ends soon
		line, _ := bufio.NewReader(s.In).ReadString('\n')
		answered <- line
	}()
	select {
	case line := <-answered:
		if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
			return errors.New("nothing was done")
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// userName is who sits at this machine.
func userName(env func(string) (string, bool)) string {
	if sudo, _ := env("SUDO_USER"); sudo != "" {
		return sudo
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	name, _ := env("USER")
	return cmp.Or(name, fmt.Sprintf("uid %d", os.Getuid()))
}
