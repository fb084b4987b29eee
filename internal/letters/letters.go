// Package letters moves parked events on: it brings a dead letter and the row of
// its event, which live in two systems, from one state to the next.
//
// Guarantee: every step can be repeated after a crash in between. In the end an
// event has one letter or one outcome, and a letter is deleted only once its
// message is stored again, its event is decided, or its discard is committed.
//
//	store := letters.Store{Pool: pool, JS: js}
//	results, err := store.Redrive(ctx, page, dedupe.Action{Actor: "ada", Verb: dedupe.VerbRedrive}, nil)
package letters

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

const (
	// Page is how many letters are moved in one transaction.
	Page = 100
	// lookUp is how many rows are read at a time, and lookUpBytes bounds their
	// letters.
	lookUp      = 500
	lookUpBytes = 8 << 20
	// inFlight is how many letters of a page are published at a time.
	inFlight = 16
	// onItsWay is how long after a decision its letter is expected.
	onItsWay = time.Minute
)

// Store is both systems.
type Store struct {
	Pool *pgxpool.Pool
	JS   jetstream.JetStream
}

// Standing is how a letter stands to the row of its event.
type Standing string

// The standings.
const (
	// Parked: the event is failed, and this is its letter.
	Parked Standing = "parked"
	// Redriven: the event waits for a worker. A redrive has begun and has not
	// deleted the letter, or ended before it did: it may be repeated.
	Redriven Standing = "redriven"
	// Deciding: a worker is at the redriven event, or has just parked it again and is
	// about to store its new letter.
	Deciding Standing = "deciding"
	// Stale: the event was decided since, has a newer letter, or has another
	// content by now.
	Stale Standing = "stale"
	// Orphaned: no event has this key.
	Orphaned Standing = "orphaned"
)

// Stand tells how l stands to the row of its event, nil for none.
func Stand(l *dlq.Letter, row *dedupe.Row) Standing {
	switch {
	case row == nil:
		return Orphaned
	case row.State == dedupe.Failed && row.DLQSeq == l.Seq:
		return Parked
	case row.BodyHash != sha256.Sum256(l.Data):
		return Stale
	case row.State == dedupe.Failed && row.DLQSeq == 0:
		if l.Once != "" && l.Once != row.LetterName(row.BodyHash) && row.BegunFor < onItsWay {
			return Deciding // that one is of an earlier decision
		}
		return Parked // a worker has stored it, and is about to record it
	case row.State == dedupe.Pending:
		return Redriven
	case row.State == dedupe.Processing:
		return Deciding
	}
	return Stale
}

// KeyOf returns the key of the row that a letter belongs to.
func KeyOf(l *dlq.Letter) dedupe.Key {
	return dedupe.Key{Source: l.Source, ID: l.EventID, Variant: l.Variant}
}

// Lying is a letter with the row of its event, nil for none, and how it stands.
type Lying struct {
	*dlq.Letter
	Row      *dedupe.Row
	Standing Standing
}

// Look reads the rows of letters.
func (s Store) Look(ctx context.Context, list []*dlq.Letter) ([]Lying, error) {
	known, err := dedupe.Read(ctx, s.Pool, keys(list))
	if err != nil {
		return nil, err
	}
	found := make([]Lying, len(list))
	for i, l := range list {
		row := known[KeyOf(l)]
		found[i] = Lying{l, row, Stand(l, row)}
	}
	return found, nil
}

// Each calls f for pages of the letters that filter selects, oldest first, with
// their rows. Memory is bounded by a page.
func (s Store) Each(ctx context.Context, filter dlq.Filter, f func([]Lying) error) error {
	page, bytes := make([]*dlq.Letter, 0, lookUp), 0
	flush := func() error {
		if len(page) == 0 {
			return nil
		}
		found, err := s.Look(ctx, page)
		page, bytes = page[:0], 0
		if err != nil {
			return err
		}
		return f(found)
	}
	err := dlq.List(ctx, s.JS, filter, func(l *dlq.Letter) error {
		page, bytes = append(page, l), bytes+len(l.Data)
		if len(page) < lookUp && bytes < lookUpBytes {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

func keys(list []*dlq.Letter) []dedupe.Key {
	all := make([]dedupe.Key, len(list))
	for i, l := range list {
		all[i] = KeyOf(l)
	}
	return all
}

// Result is what became of one letter.
type Result struct {
	Letter *dlq.Letter
	// Row is its event's row as it is now; nil if there is none.
	Row *dedupe.Row
	// Was is how the letter stood, and Done whether what was asked was done.
	Was  Standing
	Done bool
	// Redrive numbers the message that was published, and Seq is its sequence
	// in EVENTS.
	Redrive int
	Seq     uint64
	// Err is why it was not done, or not to its end; nil for a letter that was
	// stale, which is deleted.
	Err error

	note dedupe.Superseded
}

// What keeps a letter where it is.
var (
	// ErrBusy means that the event is on its way already.
	ErrBusy = errors.New("the event was sent again and is not decided yet")
	// ErrRepeated means that another letter of the same event was taken.
	ErrRepeated = errors.New("another letter of the same event goes first")
)

// notes returns what the audit needs to know of letters that go for good: their
// contents, and the messages that brought them.
func (s Store) notes(ctx context.Context, list []*dlq.Letter) ([]dedupe.Superseded, error) {
	if len(list) == 0 {
		return nil, nil
	}
	created, err := s.incarnation(ctx)
	if err != nil {
		return nil, err
	}
	notes := make([]dedupe.Superseded, len(list))
	for i, l := range list {
		notes[i] = dedupe.Superseded{
			Key: dedupe.Key{Source: l.Source, ID: l.EventID}, BodyHash: sha256.Sum256(l.Data), Reason: string(l.Reason),
			Position: dedupe.Position{StreamCreated: created, Seq: l.OriginSeq},
		}
		if l.FirstSeen.Before(created) {
			notes[i].StreamCreated = time.Unix(0, 0) // a stream that is gone, and its messages with it
		}
	}
	return notes, nil
}

// incarnation is when EVENTS was created, in the database's resolution.
func (s Store) incarnation(ctx context.Context) (time.Time, error) {
	events, err := s.JS.Stream(ctx, stream.Events)
	if err != nil {
		return time.Time{}, fmt.Errorf("open stream %s: %w", stream.Events, err)
	}
	return stream.Incarnation(events.CachedInfo().Created), nil
}
