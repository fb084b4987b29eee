package ledger

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// An event that is refused for want of another operation may note that it waits
// for it, so that whoever posts that operation can have it tried at once. Nobody
// locks what is not there yet; instead each side looks once more behind its own
// COMMIT, and of two commits the later one's look sees both:
//
//	child:  looks for the parent ── Wait ── COMMIT ── Arrived
//	parent:                         posts ── COMMIT ── Arrived

// Wait queues the note that the posting's event waits for the operation that it
// Awaits; it belongs into the transaction that puts the event off. It may be
// repeated. Arrived has to follow its COMMIT.
func Wait(q *pgx.Batch, p *Posting) {
	// A note that is there already is locked: who posts the operation meanwhile
	// leaves it to the look that follows this transaction.
	q.Queue(`
		INSERT INTO waiting (operation, event_no)
		VALUES ($1, $2)
		ON CONFLICT (operation, event_no) DO UPDATE SET event_no = excluded.event_no WHERE false`, p.Awaits, p.EventNo)
}

// StopWaiting queues the end of that note, for an event that is given up.
func StopWaiting(q *pgx.Batch, p *Posting) {
	q.Queue(`DELETE FROM waiting WHERE operation = $1 AND event_no = $2`, p.Awaits, p.EventNo)
}

// Arrived queues, behind the COMMIT of postings and in its round trip, the look at
// events that wait for what is there now: posted by these postings, or by somebody
// else while one of these was refused for want of it. tell gets their numbers, each
// told to one caller only; with none it is not called. What is told and then lost,
// with a process that ends, is not told again: the event must also come by itself.
//
// It costs about 1 µs for each operation posted. An error of the look says nothing of
// the COMMIT before it. It queues nothing where nothing was posted or is awaited.
func Arrived(q *pgx.Batch, postings []*Posting, tell func(events []int64)) {
	var keys []string
	for _, p := range postings {
		for _, t := range p.Posted {
			keys = append(keys, t.Operation)
		}
		if p.Awaits != "" {
			keys = append(keys, p.Awaits)
		}
	}
	if len(keys) == 0 {
		return
	}
	// Rows are found by their place and operations one by one: plans are kept, and
	// the tables may be empty when they are made. A row that somebody holds locked
	// is theirs to look at.
	q.Queue(`
		DELETE FROM waiting
		WHERE ctid = ANY (ARRAY(
			SELECT w.ctid
			FROM waiting w
			WHERE w.operation = ANY($1)
			  AND (SELECT o.key FROM operations o WHERE o.key = w.operation) IS NOT NULL
			FOR UPDATE OF w SKIP LOCKED))
		RETURNING event_no`, keys).Query(func(found pgx.Rows) error {
		events, err := pgx.CollectRows(found, pgx.RowTo[int64])
		if err != nil {
			return fmt.Errorf("look at waiting events: %w", err)
		}
		if len(events) > 0 {
			tell(events)
		}
		return nil
	})
}
