package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/pkg/envelope"
)

// ErrFenced means that another process has moved the marks since: this one no
// longer leads and must stop.
var ErrFenced = errors.New("audit: another process audits")

// mark is how far the incremental audit has come in one incarnation of EVENTS.
type mark struct {
	created time.Time
	// seq is accounted for, with everything before it, apart from what is open.
	seq uint64
	// sum says what the messages were when they were accounted for.
	sum Sum
	// gone counts those that left the stream before that.
	gone uint64
	// version is 0 for a mark that is not stored yet.
	version int64
	// last is the last message that was read: a stream that holds another one in
	// its place is an older copy of itself, and goneBack is set.
	last     place
	goneBack bool
	// restored is when that was last noticed; zero for never.
	restored time.Time
	// acknowledged of gone a person has taken note of, last at acknowledgedAt.
	acknowledged   uint64
	acknowledgedAt time.Time
}

// place is where and when a message was stored.
type place struct {
	Seq    uint64    `json:"last_seq,omitempty"`
	Stored time.Time `json:"last_stored,omitzero"`
}

// marked is what a mark's column sum holds.
type marked struct {
	Sum
	place
	Restored time.Time `json:"restored,omitzero"`
}

// readMark returns the mark of this incarnation, one at the beginning of the
// stream if there is none.
func (a *auditor) readMark(ctx context.Context) (mark, error) {
	m := mark{created: a.created, seq: max(a.report.Stream.First, 1) - 1}
	var seq, gone, acknowledged int64
	var sum []byte
	err := a.Pool.QueryRow(ctx, `
		SELECT seq, sum, gone, version, acknowledged, COALESCE(acknowledged_at, 'epoch')
		FROM audit_marks
		WHERE stream_created = $1`, a.created).Scan(&seq, &sum, &gone, &m.version, &acknowledged, &m.acknowledgedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return m, nil
	}
	var found marked
	if err == nil {
		err = json.Unmarshal(sum, &found)
	}
	if err != nil {
		return m, fmt.Errorf("read mark: %w", err)
	}
	m.acknowledged = uint64(acknowledged) //nolint:gosec // checked by the table
	before := m
	m.sum, m.last, m.restored = found.Sum, found.place, found.Restored
	m.seq, m.gone = uint64(seq), uint64(gone) //nolint:gosec // checked by the table
	if before.goneBack, err = a.goneBack(ctx, m); err != nil || before.goneBack {
		before.acknowledged, before.restored = 0, time.Now().UTC()
		return before, err
	}
	if before := max(a.report.Stream.First, 1) - 1; before > m.seq {
		m.gone += before - m.seq
		m.seq = before
	}
	return m, nil
}

// goneBack reports whether the stream no longer has what was accounted for: its
// store was restored from an older copy, under the same name and time, and its
// sequences begin to mean other messages.
func (a *auditor) goneBack(ctx context.Context, m mark) (bool, error) {
	if m.seq > a.report.Stream.Last { // or was stored since its end was read
		info, err := a.events.Info(ctx)
		if err != nil {
			return false, err
		}
		if m.seq > info.State.LastSeq {
			return true, nil
		}
	}
	if m.last.Seq == 0 || m.last.Seq != m.seq {
		return false, nil
	}
	now, err := a.fetch(ctx, m.last.Seq)
	if errors.Is(err, envelope.ErrNotStored) {
		return false, nil // trimmed
	}
	if err != nil {
		return false, err
	}
	return !now.Time.Equal(m.last.Stored), nil
}

// remember lets a full audit know what the incremental ones have seen leave, and
// what they have accounted for.
func (a *auditor) remember(ctx context.Context) error {
	m, err := a.readMark(ctx)
	if err != nil {
		return err
	}
	if err := a.missed(ctx, &m); err != nil {
		return err
	}
	a.settled, a.wentBack = m.seq, m.restored
	a.unsettled = make(map[uint64]bool)
	if m.goneBack {
		return nil
	}
	open, err := a.readOpen(ctx)
	if err != nil {
		return err
	}
	for _, o := range open {
		a.unsettled[o.seq] = true
	}
	return nil
}

// readOpen returns the carried messages, by sequence.
func (a *auditor) readOpen(ctx context.Context) ([]*message, error) {
	found, err := a.Pool.Query(ctx, `
		SELECT seq, source, event_id, body_hash, stored_at, redrive
		FROM audit_open
		WHERE stream_created = $1
		ORDER BY seq`, a.created)
	if err != nil {
		return nil, fmt.Errorf("read open messages: %w", err)
	}
	open, err := pgx.CollectRows(found, func(r pgx.CollectableRow) (*message, error) {
		m := &message{carried: true, open: true}
		var seq int64
		var hash []byte
		err := r.Scan(&seq, &m.key.Source, &m.key.ID, &hash, &m.stored, &m.redrive)
		copy(m.hash[:], hash)
		m.seq = uint64(seq) //nolint:gosec // sequences are positive
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("read open messages: %w", err)
	}
	return open, nil
}

// save stores the mark with what is open, in one transaction, unless another
// process has stored one since.
func (s *step) save(ctx context.Context, a *auditor) error {
	sum, err := json.Marshal(marked{s.mark.sum, s.mark.last, s.mark.restored})
	if err != nil {
		return fmt.Errorf("store mark: %w", err)
	}
	return pgx.BeginFunc(ctx, a.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			INSERT INTO audit_marks AS m (stream_created, seq, sum, gone, version)
			SELECT $1, $2, $3, $4, 1
			WHERE $5 = 0::bigint OR EXISTS (SELECT FROM audit_marks WHERE stream_created = $1)
			ON CONFLICT (stream_created) DO UPDATE
			SET seq = excluded.seq, sum = excluded.sum, gone = excluded.gone, acknowledged = LEAST(m.acknowledged, excluded.gone), version = m.version + 1, at = now()
			WHERE m.version = $5`, a.created, int64(s.mark.seq), sum, int64(s.mark.gone), s.mark.version) //nolint:gosec // sequences stay far below 2⁶³
		if err != nil {
			return fmt.Errorf("store mark: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("store mark: %w", ErrFenced)
		}
		s.mark.version++
		if err := s.saveOpen(ctx, tx, a.created); err != nil {
			return err
		}
		return forgetCopies(ctx, tx, a.created, a.report.Stream.AckFloor)
	})
}

func (s *step) saveOpen(ctx context.Context, tx pgx.Tx, created time.Time) error {
	if s.mark.goneBack { // what was open, or sent again, belongs to a stream that is no more
		_, err := tx.Exec(ctx, `
			UPDATE audit_open
			SET stream_created = stream_created - $2 * interval '1 microsecond'
			WHERE stream_created = $1`, created, float64(s.mark.version))
		if err != nil {
			return fmt.Errorf("move open messages: %w", err)
		}
		if _, err := tx.Exec(ctx, `DELETE FROM audit_copies WHERE stream_created = $1`, created); err != nil {
			return fmt.Errorf("forget copies: %w", err)
		}
	}
	if _, err := tx.Exec(ctx, `DELETE FROM audit_open WHERE stream_created = $1 AND seq = ANY($2)`, created, s.closed); err != nil {
		return fmt.Errorf("store open messages: %w", err)
	}
	var fresh []*message
	for _, m := range s.open {
		if !m.open {
			fresh = append(fresh, m)
		}
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"audit_open"},
		[]string{"stream_created", "seq", "source", "event_id", "body_hash", "stored_at", "redrive"},
		pgx.CopyFromSlice(len(fresh), func(i int) ([]any, error) {
			m := fresh[i]
			return []any{created, int64(m.seq), m.key.Source, m.key.ID, m.hash[:], m.stored, m.redrive}, nil //nolint:gosec // as above
		}))
	if err != nil {
		return fmt.Errorf("store open messages: %w", err)
	}
	return nil
}
