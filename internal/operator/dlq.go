package operator

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// lettersPage is how many letters are looked up in the ledger at a time.
const lettersPage = 500

// Letter is a dead letter. Its JSON names are part of the public interface.
type Letter struct {
	Seq       uint64     `json:"dlq_seq"`
	Parked    time.Time  `json:"parked_at"`
	Reason    string     `json:"reason"`
	Source    string     `json:"source"`
	EventID   string     `json:"event_id"`
	Variant   string     `json:"variant,omitempty"`
	Type      string     `json:"type,omitempty"`
	Attempts  int        `json:"attempts"`
	Error     string     `json:"error"`
	Hint      string     `json:"hint"`
	FirstSeen *time.Time `json:"first_seen,omitempty"`
	OriginSeq uint64     `json:"origin_seq"`
	Size      int        `json:"size"`
	// The rest is shown for one letter alone.
	State    string              `json:"state,omitempty"`
	Stale    bool                `json:"stale,omitempty"`
	Header   map[string][]string `json:"header,omitempty"`
	BodyHash string              `json:"body_sha256,omitempty"`
	Body     *string             `json:"body,omitempty"`
	Base64   string              `json:"body_base64,omitempty"`
}

func letterOf(l *dlq.Letter) Letter {
	out := Letter{
		Seq: l.Seq, Parked: l.Parked.UTC(), Reason: string(l.Reason), Source: l.Source, EventID: l.EventID, Variant: l.Variant,
		Type: l.EventType(), Attempts: l.Attempts, Error: l.Error, Hint: l.Hint(), OriginSeq: l.OriginSeq, Size: len(l.Data),
	}
	if !l.FirstSeen.IsZero() {
		seen := l.FirstSeen.UTC()
		out.FirstSeen = &seen
	}
	return out
}

// ListLetters prints the dead letters of events that are still failed, oldest
// first, of one reason and source or all.
func ListLetters(ctx context.Context, s *Session, filter dlq.Filter) error {
	if _, known := filter.Reason.Info(); filter.Reason != "" && !known {
		return exit.Usagef("--reason %q is unknown; there are %s", filter.Reason, strings.Join(dlq.Reasons(), ", "))
	}
	pool, conn, err := s.both(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	defer conn.Close()
	list := letterList{s: s, pool: pool, table: newTable(s.Out, "DLQ SEQ", "PARKED", "REASON", "SOURCE", "EVENT", "TYPE", "ATTEMPTS", "ERROR")}
	err = dlq.List(ctx, conn.JS, filter, func(l *dlq.Letter) error { return list.add(ctx, l) })
	if err != nil {
		return noStream(err)
	}
	if err := list.flush(ctx); err != nil {
		return err
	}
	if list.n == 0 && !s.JSON {
		fmt.Fprintln(s.Out, "no dead letters")
	}
	return nil
}

// letterList prints the letters that are not stale, a page at a time.
type letterList struct {
	s     *Session
	pool  *pgxpool.Pool
	table *table
	page  []*dlq.Letter
	n     int
}

func (p *letterList) add(ctx context.Context, l *dlq.Letter) error {
	if p.page = append(p.page, l); len(p.page) < lettersPage {
		return nil
	}
	return p.flush(ctx)
}

func (p *letterList) flush(ctx context.Context) error {
	letters, err := living(ctx, p.pool, p.page)
	if err != nil {
		return err
	}
	p.page = p.page[:0]
	p.n += len(letters)
	for _, l := range letters {
		if p.s.JSON {
			if err := p.s.object(letterOf(l)); err != nil {
				return err
			}
			continue
		}
		p.table.row(fmt.Sprint(l.Seq), when(l.Parked), string(l.Reason), l.Source, l.EventID, l.EventType(), fmt.Sprint(l.Attempts), cut(l.Error))
	}
	if p.s.JSON || p.n == 0 {
		return nil
	}
	return p.table.flush()
}

// both opens the ledger and the broker.
func (s *Session) both(ctx context.Context) (*pgxpool.Pool, *stream.Conn, error) {
	pool, err := s.Database(ctx)
	if err != nil {
		return nil, nil, err
	}
	conn, err := s.Stream(ctx)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return pool, conn, nil
}

// noStream says what to do where the streams were never made.
func noStream(err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("%w; run `onceledger migrate` first", err)
	}
	return err
}

// living returns the letters that are not stale.
func living(ctx context.Context, pool *pgxpool.Pool, letters []*dlq.Letter) ([]*dlq.Letter, error) {
	keys := make([]dedupe.Key, len(letters))
	for i, l := range letters {
		keys[i] = keyOf(l)
	}
	rows, err := dedupe.Read(ctx, pool, keys)
	if err != nil {
		return nil, err
	}
	var alive []*dlq.Letter
	for i, l := range letters {
		if !stale(l, rows[keys[i]]) {
			alive = append(alive, l)
		}
	}
	return alive, nil
}

func keyOf(l *dlq.Letter) dedupe.Key {
	return dedupe.Key{Source: l.Source, ID: l.EventID, Variant: l.Variant}
}

// stale reports whether a letter has been overtaken: its event is not failed any
// more, or has a newer letter. One without an event is shown: somebody has to
// find out whose it is.
func stale(l *dlq.Letter, row *dedupe.Row) bool {
	return row != nil && (row.State != dedupe.Failed || row.DLQSeq != 0 && row.DLQSeq != l.Seq)
}

// ShowLetter prints one dead letter with its headers and body; raw writes the
// body alone, exactly as it was received.
func ShowLetter(ctx context.Context, s *Session, seq uint64, raw bool) error {
	if raw {
		conn, err := s.Stream(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		l, err := dlq.Get(ctx, conn.JS, seq)
		if err != nil {
			return noStream(err)
		}
		if _, err := s.Out.Write(l.Data); err != nil {
			return fmt.Errorf("write body: %w", err)
		}
		return nil
	}
	pool, conn, err := s.both(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	defer conn.Close()
	l, err := dlq.Get(ctx, conn.JS, seq)
	if err != nil {
		return noStream(err)
	}
	rows, err := dedupe.Read(ctx, pool, []dedupe.Key{keyOf(l)})
	if err != nil {
		return err
	}
	letter := letterOf(l)
	row := rows[keyOf(l)]
	letter.Stale = stale(l, row)
	if row != nil {
		letter.State = string(row.State)
	}
	hash := sha256.Sum256(l.Data)
	letter.BodyHash, letter.Header = hex.EncodeToString(hash[:]), l.Header
	if s.JSON {
		if utf8.Valid(l.Data) {
			body := string(l.Data)
			letter.Body = &body
		} else {
			letter.Base64 = base64.StdEncoding.EncodeToString(l.Data)
		}
		return s.object(letter)
	}
	return letter.print(s, l)
}

// print writes the letter for a person.
func (l *Letter) print(s *Session, from *dlq.Letter) error {
	t := newTable(s.Out)
	t.row("dead letter", fmt.Sprintf("%d, parked %s", l.Seq, when(l.Parked)))
	t.row("event", fmt.Sprintf("%s of %s", l.EventID, l.Source))
	t.optional("variant", l.Variant)
	t.optional("type", l.Type)
	switch {
	case l.State == "":
		t.row("state", "no event has this id")
	case l.Stale:
		t.row("state", l.State+" (this letter is stale: the event was decided since, or has a newer letter)")
	default:
		t.row("state", l.State)
	}
	t.row("reason", l.Reason)
	t.optional("error", l.Error)
	t.row("hint", l.Hint)
	t.row("attempts", fmt.Sprint(l.Attempts))
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
	fmt.Fprintf(s.Out, "\nbody, %d bytes, sha256 %s (exact bytes: onceledger dlq show %d --raw)\n", l.Size, l.BodyHash, l.Seq)
	if !utf8.Valid(from.Data) {
		fmt.Fprint(s.Out, hex.Dump(from.Data))
		return nil
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(from.Data), "\n"), "\n") {
		fmt.Fprintln(s.Out, "  "+printable(strings.TrimSuffix(line, "\r")))
	}
	return nil
}

// cut keeps a table's line on a screen; `dlq show` has all of the text.
func cut(text string) string {
	const shown = 70
	if utf8.RuneCountInString(text) <= shown {
		return text
	}
	return string([]rune(text)[:shown]) + "…"
}
