package operator

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// ShowLetter prints one dead letter with its headers and body, and [secret] where
// the body repeats a secret of the configuration; raw writes the body alone, exactly
// as it was received.
func ShowLetter(ctx context.Context, s *Session, seq uint64, raw bool) error {
	if raw {
		conn, err := s.Stream(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		l, err := letterAt(ctx, conn.JS, seq)
		if err != nil {
			return noStream(err)
		}
		if _, err := s.Out.Write(l.Data); err != nil {
			return fmt.Errorf("write body: %w", err)
		}
		return nil
	}
	return s.letterStore(ctx, "", func(store letters.Store) error {
		l, err := letterAt(ctx, store.JS, seq)
		if err != nil {
			return err
		}
		found, err := store.Look(ctx, []*dlq.Letter{l})
		if err != nil {
			return err
		}
		return s.showLetter(found[0])
	})
}

func (s *Session) showLetter(l letters.Lying) error {
	cfg, err := s.settings()
	if err != nil {
		return err
	}
	letter := letterOf(l)
	hash := sha256.Sum256(l.Data)
	letter.BodyHash, letter.Header = hex.EncodeToString(hash[:]), l.Header
	body := secretsOf(cfg).Replace(string(l.Data)) // some providers send back what they were given
	if !s.JSON {
		return letter.print(s, body)
	}
	if utf8.ValidString(body) {
		letter.Body = &body
	} else {
		letter.Base64 = base64.StdEncoding.EncodeToString([]byte(body))
	}
	return s.object(letter)
}

// print writes the letter for a person.
func (l *Letter) print(s *Session, body string) error {
	t := newTable(s.Out)
	t.row("dead letter", fmt.Sprintf("%d, parked %s", l.Seq, when(l.Parked)))
	t.row("event", fmt.Sprintf("%s of %s", l.EventID, l.Source))
	t.optional("variant", l.Variant)
	t.optional("type", l.Type)
	t.row("state", l.state())
	t.row("reason", l.Reason)
	t.optional("error", l.Error)
	t.row("hint", l.Hint)
	t.row("attempts", fmt.Sprintf("%d failed, %s", l.Attempts, count(l.Redrives, "redrive")))
	if l.FirstSeen != nil {
		t.row("first seen", fmt.Sprintf("%s, message %d of EVENTS", when(*l.FirstSeen), l.OriginSeq))
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(s.Out, "\nheaders")
	for _, name := range slices.Sorted(maps.Keys(l.Header)) {
		fmt.Fprintf(s.Out, "  %s: %s\n", printable(name), printable(strings.Join(l.Header[name], ", ")))
	}
	fmt.Fprintf(s.Out, "\nbody, %d bytes, sha256 %s (exact bytes: %s dlq show %d --raw%s)\n", l.Size, l.BodyHash, s.command(), l.Seq, s.where())
	if !utf8.ValidString(body) {
		fmt.Fprint(s.Out, hex.Dump([]byte(body)))
		return nil
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(body, "\n"), "\n") {
		fmt.Fprintln(s.Out, "  "+printable(strings.TrimSuffix(line, "\r")))
	}
	return nil
}

// state is that of the event, with what it means for the letter.
func (l *Letter) state() string {
	switch letters.Standing(l.Standing) {
	case letters.Orphaned:
		return "no event has this id; a redrive lets a worker decide it"
	case letters.Stale:
		return l.State + " (this letter is stale: the event was decided since, or has a newer letter)"
	case letters.Redriven:
		return l.State + " (sent again, not decided yet; if it stays so, redrive it again)"
	case letters.Deciding:
		return l.State + " (sent again, a worker is at it)"
	}
	return l.State
}

// cut keeps a table's line on a screen; `dlq show` has all of the text.
func cut(text string) string {
	const shown = 70
	if utf8.RuneCountInString(text) <= shown {
		return text
	}
	return string([]rune(text)[:shown]) + "…"
}
