package dedupe

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Group is what failed for one reason at one source, and so may be mended by
// one change.
type Group struct {
	Source, Reason string
}

// Compensation is the stored detail of a VerbCompensate action.
type Compensation struct {
	Source string `json:"source"`
	Reason string `json:"reason"`
	DLQSeq uint64 `json:"dlq_seq"`
	// Canary is set for an event that goes before the rest of its group.
	Canary bool `json:"canary,omitempty"`
	// FailedBefore counts the canaries of the group that failed in a row before it.
	FailedBefore int `json:"failed_before,omitempty"`
}

// Canary is the last event that went before the rest of its group, and what
// became of it.
type Canary struct {
	EventNo int64
	// At is when it was sent, and Ago how long ago that is, by the database's clock.
	At  time.Time
	Ago time.Duration
	// FailedBefore counts the canaries that failed in a row before it.
	FailedBefore int
	State        State
}

// Canaries returns the last canary of each group that has ever had one.
func Canaries(ctx context.Context, q Querier) (map[Group]Canary, error) {
	found, err := q.Query(ctx, `
		SELECT DISTINCT ON (1, 2)
		       a.detail->>'source', a.detail->>'reason', a.event_no, a.at, EXTRACT(epoch FROM now() - a.at)::float8,
		       COALESCE((a.detail->>'failed_before')::integer, 0), e.state
		FROM actions a
		JOIN events e ON e.no = a.event_no
		WHERE a.verb = 'compensate' AND a.detail ? 'canary'
		ORDER BY 1, 2, a.no DESC`)
	if err != nil {
		return nil, fmt.Errorf("read canaries: %w", err)
	}
	canaries := map[Group]Canary{}
	var g Group
	var c Canary
	var ago float64
	_, err = pgx.ForEachRow(found, []any{&g.Source, &g.Reason, &c.EventNo, &c.At, &ago, &c.FailedBefore, &c.State}, func() error {
		c.Ago = time.Duration(ago * float64(time.Second))
		canaries[g] = c
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read canaries: %w", err)
	}
	return canaries, nil
}

// Patience says which parked events may be sent again without a person.
type Patience struct {
	// Reasons are those that sending again can help against.
	Reasons []string
	// Redrives is the budget: events that were sent again so often stay where they are.
	Redrives int
	// Base is how long an event lies parked before it goes again; each redrive
	// makes the next wait four times as long. The database's clock counts it.
	Base time.Duration
}

// Place is where a page of Compensable ended.
type Place struct {
	decided time.Time
	no      int64
}

// Compensable returns a page of parked events that p lets go again, those that
// were parked first before the others. The first page begins after the zero
// Place; an empty page ends.
func Compensable(ctx context.Context, q Querier, p Patience, after Place, limit int) ([]*Row, Place, error) {
	found, err := q.Query(ctx, `
		SELECT `+rowColumns+`
		FROM events e
		WHERE e.state = 'failed' AND e.dlq_seq IS NOT NULL AND e.variant = ''
		  AND e.reason = ANY($1) AND e.redrives < $2
		  AND e.decided_at <= now() - $3 * power(4, e.redrives) * interval '1 second'
		  AND (e.decided_at, e.no) > ($4, $5)
		ORDER BY e.decided_at, e.no
		LIMIT $6`, p.Reasons, p.Redrives, p.Base.Seconds(), after.decided, after.no, limit)
	if err != nil {
		return nil, after, fmt.Errorf("find events to compensate: %w", err)
	}
	rows, err := pgx.CollectRows(found, scanRow)
	if err != nil {
		return nil, after, fmt.Errorf("find events to compensate: %w", err)
	}
	if len(rows) > 0 {
		last := rows[len(rows)-1]
		after = Place{last.Decided, last.No}
	}
	return rows, after, nil
}
