package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/pkg/dedupe"
)

// claimLimit is how long a claim without a copy holds: whoever made it has died
// by then, or cannot tell us what became of the copy.
const claimLimit = time.Minute

// Content is what a message says and under which key: messages with one content
// are sent again as one.
type Content struct {
	Key  dedupe.Key
	Hash [32]byte
}

func (c Content) compare(o Content) int {
	return cmp.Or(c.Key.Compare(o.Key), slices.Compare(c.Hash[:], o.Hash[:]))
}

// Claim returns those of contents that the caller is to send again now, in the
// caller's transaction. Not among them is what somebody else has claimed, or has
// sent with a copy that is not answered up to floor; and of several contents of
// one event, the first alone: which of them stands is to be decided in order.
func Claim(ctx context.Context, tx pgx.Tx, created time.Time, floor uint64, contents []Content) (map[Content]bool, error) {
	// One at a time: two contents of one event are two rows, which lock nobody out.
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('onceledger copies of ' || current_schema(), 0))`); err != nil {
		return nil, fmt.Errorf("claim copies: %w", err)
	}
	sources, ids, hashes := columns(firsts(contents))
	found, err := tx.Query(ctx, `
		INSERT INTO audit_copies AS c (stream_created, source, event_id, body_hash)
		SELECT $1, u.source, u.event_id, u.body_hash
		FROM unnest($2::text[], $3::text[], $4::bytea[]) AS u (source, event_id, body_hash)
		WHERE NOT EXISTS (
			SELECT FROM audit_copies o
			WHERE o.stream_created = $1 AND o.source = u.source AND o.event_id = u.event_id AND o.body_hash <> u.body_hash
			  AND CASE WHEN o.copy_seq = 0 THEN o.claimed_at >= now() - $6 * interval '1 second' ELSE o.copy_seq > $5 END)
		ON CONFLICT (stream_created, source, event_id, body_hash) DO UPDATE
		SET copy_seq = 0, claimed_at = now()
		WHERE CASE WHEN c.copy_seq = 0 THEN c.claimed_at < now() - $6 * interval '1 second' ELSE c.copy_seq <= $5 END
		RETURNING source, event_id, body_hash, copy_seq`, created, sources, ids, hashes, int64(floor), claimLimit.Seconds()) //nolint:gosec // sequences stay far below 2⁶³
	if err != nil {
		return nil, fmt.Errorf("claim copies: %w", err)
	}
	claimed := make(map[Content]bool, len(contents))
	err = eachCopy(found, func(c Content, _ uint64) { claimed[c] = true })
	if err != nil {
		return nil, fmt.Errorf("claim copies: %w", err)
	}
	return claimed, nil
}

// firsts returns the first content of each event.
func firsts(contents []Content) []Content {
	list, seen := make([]Content, 0, len(contents)), make(map[dedupe.Key]bool, len(contents))
	for _, c := range contents {
		if !seen[c.Key] {
			seen[c.Key] = true
			list = append(list, c)
		}
	}
	return list
}

// Sent records with which messages claimed contents were sent again: they are in
// flight until the copies are answered.
func Sent(ctx context.Context, q dedupe.Execer, created time.Time, copies map[Content]uint64) error {
	var b pgx.Batch
	contents, sequences := make([]Content, 0, len(copies)), make([]int64, 0, len(copies))
	for c := range copies {
		contents = append(contents, c)
	}
	slices.SortFunc(contents, Content.compare)
	for _, c := range contents {
		sequences = append(sequences, int64(copies[c])) //nolint:gosec // as above
	}
	sources, ids, hashes := columns(contents)
	b.Queue(`
		UPDATE audit_copies c
		SET copy_seq = u.seq
		FROM unnest($2::text[], $3::text[], $4::bytea[], $5::bigint[]) AS u (source, event_id, body_hash, seq)
		WHERE c.stream_created = $1 AND c.source = u.source AND c.event_id = u.event_id AND c.body_hash = u.body_hash`,
		created, sources, ids, hashes, sequences)
	if err := q.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("record copies: %w", err)
	}
	return nil
}

// Release gives claims back whose contents were not sent.
func Release(ctx context.Context, q dedupe.Execer, created time.Time, contents []Content) error {
	var b pgx.Batch
	sources, ids, hashes := columns(contents)
	b.Queue(`
		DELETE FROM audit_copies c
		USING unnest($2::text[], $3::text[], $4::bytea[]) AS u (source, event_id, body_hash)
		WHERE c.stream_created = $1 AND c.source = u.source AND c.event_id = u.event_id AND c.body_hash = u.body_hash
		  AND c.copy_seq = 0`, created, sources, ids, hashes)
	if err := q.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("release copies: %w", err)
	}
	return nil
}

// copied notes with which messages those of batch were sent again that were
// answered and whose rows do not explain them.
func (a *auditor) copied(ctx context.Context, batch []*message, found map[dedupe.Key]*dedupe.Row) error {
	var contents []Content
	for _, m := range batch {
		row := found[m.key]
		if m.seq <= a.report.Stream.AckFloor && (row == nil || row.BodyHash != m.hash || !row.Terminal()) {
			contents = append(contents, m.content())
		}
	}
	if len(contents) == 0 {
		return nil
	}
	sources, ids, hashes := columns(contents)
	rows, err := a.Pool.Query(ctx, `
		SELECT DISTINCT c.source, c.event_id, c.body_hash, c.copy_seq
		FROM unnest($2::text[], $3::text[], $4::bytea[]) AS u (source, event_id, body_hash)
		JOIN audit_copies c USING (source, event_id, body_hash)
		WHERE c.stream_created = $1`, a.created, sources, ids, hashes)
	if err != nil {
		return fmt.Errorf("read copies: %w", err)
	}
	copies := map[Content]uint64{}
	if err := eachCopy(rows, func(c Content, seq uint64) { copies[c] = seq }); err != nil {
		return fmt.Errorf("read copies: %w", err)
	}
	for _, m := range batch {
		m.copy = copies[m.content()]
	}
	return nil
}

// forgetCopies deletes what nobody needs to know any more: copies that were
// answered, unless what they repeat is still open, claims of those who died, and
// what belongs to earlier streams.
func forgetCopies(ctx context.Context, tx pgx.Tx, created time.Time, floor uint64) error {
	_, err := tx.Exec(ctx, `
		DELETE FROM audit_copies c
		WHERE (c.stream_created <> $1
		       OR CASE WHEN c.copy_seq = 0 THEN c.claimed_at < now() - interval '1 hour' ELSE c.copy_seq <= $2 END)
		  AND NOT EXISTS (SELECT FROM audit_open o
		                  WHERE o.stream_created = $1 AND c.stream_created = $1
		                    AND o.source = c.source AND o.event_id = c.event_id AND o.body_hash = c.body_hash)`, created, int64(floor)) //nolint:gosec // as above
	if err != nil {
		return fmt.Errorf("forget copies: %w", err)
	}
	return nil
}

func columns(contents []Content) (sources, ids []string, hashes [][]byte) {
	sources, ids, hashes = make([]string, len(contents)), make([]string, len(contents)), make([][]byte, len(contents))
	for i := range contents {
		sources[i], ids[i], hashes[i] = contents[i].Key.Source, contents[i].Key.ID, contents[i].Hash[:]
	}
	return sources, ids, hashes
}

// eachCopy reads rows of a content and a sequence.
func eachCopy(rows pgx.Rows, f func(Content, uint64)) error {
	var c Content
	var hash []byte
	var seq int64
	_, err := pgx.ForEachRow(rows, []any{&c.Key.Source, &c.Key.ID, &hash, &seq}, func() error {
		copy(c.Hash[:], hash)
		f(c, uint64(seq)) //nolint:gosec // checked by the table
		return nil
	})
	return err
}

// content is what m is claimed by.
func (m *message) content() Content { return Content{m.key, m.hash} }
