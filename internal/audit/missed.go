package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// maxEarlier bounds the earlier streams that are reported.
const maxEarlier = 10

// missed reports what went away before it was accounted for, as long as nobody
// has acknowledged it: messages of this stream, those of earlier ones that were
// in flight, and what earlier ones may have held that nobody had looked at.
func (a *auditor) missed(ctx context.Context, m *mark) error {
	r := a.report
	if m.gone > m.acknowledged {
		r.add(Finding{Kind: Gone, Detail: fmt.Sprintf(
			"%s before message %d left the stream and this database never accounted for them", messages(m.gone-m.acknowledged), r.Stream.First)})
	}
	if m.restored.After(m.acknowledgedAt) {
		r.add(Finding{Kind: Gone, Detail: fmt.Sprintf(
			"%s was restored from an older copy, which was noticed at %s: what it held since that copy is missing, and it is accounted for anew from its beginning",
			stream.Events, at(m.restored))})
	}
	if err := a.earlier(ctx); err != nil {
		return err
	}
	var n int
	err := a.Pool.QueryRow(ctx, `
		SELECT count(*)
		FROM audit_open o
		LEFT JOIN events e ON e.source = o.source AND e.event_id = o.event_id AND e.variant = ''
		WHERE o.stream_created <> $1 AND (e.no IS NULL OR e.state IN ('pending', 'processing'))`, a.created).Scan(&n)
	if err != nil {
		return fmt.Errorf("read open messages of earlier streams: %w", err)
	}
	if n > 0 {
		r.add(Finding{Kind: Gone, Detail: fmt.Sprintf(
			"%s of an earlier stream had no decision when it went away, and nothing has brought one since", messages(uint64(n)))})
	}
	return nil
}

// earlier reports the streams that this one took the place of. What they held
// beyond their marks nobody can know any more.
func (a *auditor) earlier(ctx context.Context) error {
	found, err := a.Pool.Query(ctx, `
		SELECT stream_created, seq, at
		FROM audit_marks
		WHERE stream_created <> $1 AND NOT closed
		ORDER BY stream_created DESC
		LIMIT $2`, a.created, maxEarlier)
	if err != nil {
		return fmt.Errorf("read marks of earlier streams: %w", err)
	}
	var created, looked time.Time
	var seq int64
	_, err = pgx.ForEachRow(found, []any{&created, &seq, &looked}, func() error {
		a.report.add(Finding{Kind: Gone, Detail: fmt.Sprintf(
			"%s was made again at %s; the one of %s was accounted for up to message %d at %s, and what it held after that and was not decided is lost",
			stream.Events, at(a.created), at(created), seq, at(looked))})
		return nil
	})
	if err != nil {
		return fmt.Errorf("read marks of earlier streams: %w", err)
	}
	return nil
}

func messages(n uint64) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}

func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Acknowledged is what a person has taken note of.
type Acknowledged struct {
	// Messages left the stream unaccounted for, Undecided were in flight in
	// earlier streams, which are Streams.
	Messages  int `json:"messages"`
	Undecided int `json:"undecided"`
	Streams   int `json:"streams"`
	// Restored is set where the stream had been restored from an older copy.
	Restored bool `json:"restored"`
}

// None reports whether there was nothing to acknowledge.
func (a Acknowledged) None() bool { return a == Acknowledged{} }

// Acknowledge ends the findings about messages that are gone, and records who
// took note of them and why. What goes later is found again.
func Acknowledge(ctx context.Context, pool *pgxpool.Pool, created time.Time, a dedupe.Action) (Acknowledged, error) {
	var done Acknowledged
	a.Verb = dedupe.VerbAcknowledge
	created = stream.Incarnation(created)
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `
			WITH ours AS (
				UPDATE audit_marks m
				SET acknowledged = m.gone, acknowledged_at = now()
				FROM audit_marks old
				WHERE m.stream_created = $1 AND old.stream_created = $1
				RETURNING m.gone - old.acknowledged AS messages,
				          COALESCE((old.sum->>'restored')::timestamptz > COALESCE(old.acknowledged_at, '-infinity'), false) AS restored),
			earlier AS (
				UPDATE audit_marks
				SET closed = true
				WHERE stream_created <> $1 AND NOT closed
				RETURNING 1),
			undecided AS (
				DELETE FROM audit_open
				WHERE stream_created <> $1
				RETURNING 1)
			SELECT COALESCE((SELECT messages FROM ours), 0), COALESCE((SELECT restored FROM ours), false),
			       (SELECT count(*) FROM earlier), (SELECT count(*) FROM undecided)`, created).
			Scan(&done.Messages, &done.Restored, &done.Streams, &done.Undecided)
		if err != nil || done.None() {
			return err
		}
		a.Detail = done
		return dedupe.Record(ctx, tx, a, nil)
	})
	if err != nil {
		return Acknowledged{}, fmt.Errorf("acknowledge what is gone: %w", err)
	}
	return done, nil
}
