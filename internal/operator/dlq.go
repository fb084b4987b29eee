package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dlq"
)

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
	// State is that of its event, and Standing how the letter stands to it:
	// parked, redriven, deciding, stale or orphaned.
	State    string `json:"state,omitempty"`
	Standing string `json:"standing"`
	Redrives int    `json:"redrives"`
	// The rest is shown for one letter alone.
	Stale    bool                `json:"stale,omitempty"`
	Header   map[string][]string `json:"header,omitempty"`
	BodyHash string              `json:"body_sha256,omitempty"`
	Body     *string             `json:"body,omitempty"`
	Base64   string              `json:"body_base64,omitempty"`
}

func letterOf(l letters.Lying) Letter {
	out := Letter{
		Seq: l.Seq, Parked: l.Parked.UTC(), Reason: string(l.Reason), Source: l.Source, EventID: l.EventID, Variant: l.Variant,
		Type: l.EventType(), Attempts: l.Attempts, Error: l.Error, Hint: l.Hint(), OriginSeq: l.OriginSeq, Size: len(l.Data),
		Standing: string(l.Standing), Stale: l.Standing == letters.Stale,
	}
	if !l.FirstSeen.IsZero() {
		seen := l.FirstSeen.UTC()
		out.FirstSeen = &seen
	}
	if l.Row != nil {
		out.State, out.Redrives = string(l.Row.State), l.Row.Redrives
	}
	return out
}

// letterStore opens both systems for as long as f runs, unless a source is named that
// is none.
func (s *Session) letterStore(ctx context.Context, source string, f func(letters.Store) error) error {
	cfg, err := s.settings()
	if err != nil {
		return err
	}
	pool, conn, err := s.both(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	defer conn.Close()
	if err := checkSource(ctx, source, cfg.Sources, pool, conn.JS); err != nil {
		return err
	}
	return noStream(f(letters.Store{Pool: pool, JS: conn.JS}))
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

// letterAt reads one letter. Where there is none it says whether there ever was one.
func letterAt(ctx context.Context, js jetstream.JetStream, seq uint64) (*dlq.Letter, error) {
	l, err := dlq.Get(ctx, js, seq)
	if !errors.Is(err, dlq.ErrNotFound) {
		return l, err
	}
	letters, failed := js.Stream(ctx, stream.DLQ)
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	switch last := letters.CachedInfo().State.LastSeq; {
	case last == 0:
		return nil, fmt.Errorf("%w; there has been no dead letter yet", err)
	case seq > last:
		return nil, fmt.Errorf("%w; there never was one: the newest was %d; see: onceledger dlq list", err, last)
	}
	return nil, fmt.Errorf("%w; its event was sent again, decided or discarded since: see onceledger event show", err)
}
