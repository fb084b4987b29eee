package dedupe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// maxVariants bounds what Find returns of one id.
	maxVariants = 1000
	// scanned is how many rows one page of Since looks at, matching or not, so
	// that a statement stays short however few of them match.
	scanned = 5000
)

// Unreadable is the key of a message that holds no event: its place in the
// stream, which is the same at each delivery.
func Unreadable(p Position) Key {
	return Key{Source: "unknown", ID: fmt.Sprintf("message/%d/%d", p.StreamCreated.UnixMicro(), p.Seq)}
}

// Find returns everything under one event id: the event's own row first, then
// the conflicts that were parked beside it, at most 1,000. Nil if there is none.
func Find(ctx context.Context, q Querier, source, id string) ([]*Row, error) {
	found, err := q.Query(ctx, `
		SELECT `+rowColumns+`
		FROM events e
		WHERE source = $1 AND event_id = $2
		ORDER BY variant
		LIMIT $3`, source, id, maxVariants)
	if err != nil {
		return nil, fmt.Errorf("find event: %w", err)
	}
	rows, err := pgx.CollectRows(found, scanRow)
	if err != nil {
		return nil, fmt.Errorf("find event: %w", err)
	}
	return rows, nil
}

// Numbered returns the rows with these numbers that exist.
func Numbered(ctx context.Context, q Querier, numbers []int64) (map[int64]*Row, error) {
	found, err := q.Query(ctx, `
		SELECT `+rowColumns+`
		FROM events e
		WHERE no = ANY($1)`, numbers)
	if err != nil {
		return nil, fmt.Errorf("read events by number: %w", err)
	}
	rows, err := pgx.CollectRows(found, scanRow)
	if err != nil {
		return nil, fmt.Errorf("read events by number: %w", err)
	}
	byNo := make(map[int64]*Row, len(rows))
	for _, r := range rows {
		byNo[r.No] = r
	}
	return byNo, nil
}

// Since returns a page of the rows that were decided at from or later, in the
// order of their numbers, and where the next page begins; -1 ends. The first
// page begins after -1. A page may be empty before the end. Numbers are handed
// out in blocks, so they rise with time only roughly, and a row that commits
// while the pages are read may be on none of them.
func Since(ctx context.Context, q Querier, from time.Time, after int64) (page []*Row, next int64, err error) {
	err = q.QueryRow(ctx, `
		SELECT max(no)
		FROM (SELECT no FROM events WHERE no > $1 ORDER BY no LIMIT $2) AS e
		HAVING max(no) IS NOT NULL`, after, scanned).Scan(&next)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, -1, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("page events: %w", err)
	}
	found, err := q.Query(ctx, `
		SELECT `+rowColumns+`
		FROM events e
		WHERE no > $1 AND no <= $2 AND decided_at >= $3
		ORDER BY no`, after, next, from)
	if err != nil {
		return nil, 0, fmt.Errorf("page events: %w", err)
	}
	page, err = pgx.CollectRows(found, scanRow)
	if err != nil {
		return nil, 0, fmt.Errorf("page events: %w", err)
	}
	return page, next, nil
}

// Sources returns the sources that have events, in order. It costs a look-up each.
func Sources(ctx context.Context, q Querier) ([]string, error) {
	found, err := q.Query(ctx, `
		WITH RECURSIVE sources AS (
			(SELECT source FROM events ORDER BY source LIMIT 1)
			UNION ALL
			SELECT (SELECT e.source FROM events e WHERE e.source > s.source ORDER BY e.source LIMIT 1)
			FROM sources s
			WHERE s.source IS NOT NULL)
		SELECT source
		FROM sources
		WHERE source IS NOT NULL`)
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	sources, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	return sources, nil
}
