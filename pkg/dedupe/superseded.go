package dedupe

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Superseded is a parked content whose event another content took over.
type Superseded struct {
	Key      Key // without variant
	BodyHash [32]byte
	// Position is the message that the content's dead letter names.
	Position
	Reason string
}

// Supersede notes contents before their stale dead letters are removed: from
// then on this is what explains the messages that brought them. It may be
// repeated.
func Supersede(ctx context.Context, q Execer, list []Superseded) error {
	var b pgx.Batch
	for _, s := range list {
		b.Queue(`
			INSERT INTO superseded (source, event_id, body_hash, stream_created, seq, reason)
			VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT DO NOTHING`,
			s.Key.Source, s.Key.ID, s.BodyHash[:], s.StreamCreated, int64(s.Seq), s.Reason) //nolint:gosec // sequences stay far below 2⁶³
	}
	if err := q.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("note superseded contents: %w", err)
	}
	return nil
}

// FindSuperseded returns the contents that were superseded under these keys.
func FindSuperseded(ctx context.Context, q Querier, keys []Key) ([]Superseded, error) {
	sources, ids := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		sources[i], ids[i] = k.Source, k.ID
	}
	found, err := q.Query(ctx, `
		SELECT s.source, s.event_id, s.body_hash, s.stream_created, s.seq, s.reason
		FROM unnest($1::text[], $2::text[]) AS k (source, event_id)
		JOIN superseded s USING (source, event_id)`, sources, ids)
	if err != nil {
		return nil, fmt.Errorf("find superseded contents: %w", err)
	}
	list, err := pgx.CollectRows(found, func(r pgx.CollectableRow) (s Superseded, err error) {
		var hash []byte
		var seq int64
		err = r.Scan(&s.Key.Source, &s.Key.ID, &hash, &s.StreamCreated, &seq, &s.Reason)
		copy(s.BodyHash[:], hash)
		s.Seq = uint64(seq) //nolint:gosec // checked by the table
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("find superseded contents: %w", err)
	}
	return list, nil
}
