package audit

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// pageRows is how many rows one statement looks at. A statement is its own
// snapshot: what it compares is consistent, and it is over in milliseconds.
const pageRows = 5000

// rows goes through all events by number.
func (a *auditor) rows(ctx context.Context) error {
	return a.pages(ctx, func(after, upTo int64, n int) error {
		a.report.Books.Events += n
		return a.origins(ctx, after, upTo)
	})
}

// posting goes through the transfers of all events, also those whose number no
// event has.
func (a *auditor) posting(ctx context.Context) error {
	return a.pages(ctx, func(after, upTo int64, _ int) error {
		if err := a.applied(ctx, after, upTo); err != nil {
			return err
		}
		return a.transfers(ctx, after, upTo)
	})
}

// pages calls check for each page of events, which are n: those behind a number
// up to another one. The last page is empty and without an end.
func (a *auditor) pages(ctx context.Context, check func(after, upTo int64, n int) error) error {
	for after := int64(-1); ; {
		var last *int64
		var n int
		err := a.Pool.QueryRow(ctx, `
			SELECT max(no), count(*)
			FROM (SELECT no FROM events WHERE no > $1 ORDER BY no LIMIT $2) AS e`, after, pageRows).Scan(&last, &n)
		if err != nil {
			return fmt.Errorf("page events: %w", err)
		}
		upTo := int64(math.MaxInt64)
		if last != nil {
			upTo = *last
		}
		if err := check(after, upTo, n); err != nil {
			return err
		}
		if last == nil {
			return nil
		}
		after = upTo
	}
}

// origins checks that the events of a page came from the messages they name,
// and that the failed ones have their letters.
func (a *auditor) origins(ctx context.Context, after, upTo int64) error {
	found, err := a.Pool.Query(ctx, `
		SELECT no, state = 'failed', COALESCE(dlq_seq, 0),
		       CASE WHEN stream_created = $3 THEN seq ELSE 0 END,
		       decided_at < now() - $4 * interval '1 millisecond'
		FROM events
		WHERE no > $1 AND no <= $2`, after, upTo, a.created, float64(a.Grace.Milliseconds()))
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	var strangers, unlettered []int64
	var no, letter, seq int64
	var failed, old bool
	_, err = pgx.ForEachRow(found, []any{&no, &failed, &letter, &seq, &old}, func() error {
		origin := uint64(seq) //nolint:gosec // checked to be positive by the table
		if origin >= max(a.report.Stream.First, 1) && origin <= a.report.Stream.Last && !a.owned.check(origin) {
			strangers = append(strangers, no)
		}
		if !failed {
			return nil
		}
		a.report.Letters.Failed++
		switch {
		case letter == 0 && !old:
			a.report.Letters.Unrecorded++
		case letter == 0:
			a.report.Letters.Unrecorded++
			unlettered = append(unlettered, no)
		case !a.letters.check(uint64(letter)): //nolint:gosec // as above
			unlettered = append(unlettered, no)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	if err := a.letter(ctx, unlettered); err != nil {
		return err
	}
	return a.strangers(ctx, strangers)
}

// strangers looks at events whose message was not found to be theirs when the
// stream was read: they may have been decided since by another delivery.
func (a *auditor) strangers(ctx context.Context, numbers []int64) error {
	if len(numbers) == 0 {
		return nil
	}
	rows, err := dedupe.Numbered(ctx, a.Pool, numbers)
	if err != nil {
		return err
	}
	for _, no := range numbers {
		row := rows[no]
		if row == nil || !row.StreamCreated.Equal(a.created) {
			continue
		}
		finding := Finding{Kind: WrongOrigin, Seq: row.Seq, Source: row.Source, EventID: row.ID, Variant: row.Variant, EventNo: &no}
		raw, err := a.fetch(ctx, row.Seq)
		switch {
		case errors.Is(err, envelope.ErrNotStored):
			gone, err := a.trimmed(ctx, row.Seq)
			if err != nil {
				return err
			}
			if !gone {
				finding.Detail = fmt.Sprintf("the event names message %d, which is not in the stream", row.Seq)
				a.report.add(finding)
			}
		case err != nil:
			return err
		case raw.Time.After(row.Decided) && row.Decided.Before(a.wentBack): // the restored stream has used the sequence again
		default:
			if m := a.decode(raw); m.key.Source != row.Source || m.key.ID != row.ID || m.hash != row.BodyHash {
				finding.Detail = fmt.Sprintf("the event names message %d, which is event %s of %s with other bytes", row.Seq, m.key.ID, m.key.Source)
				a.report.add(finding)
			}
		}
	}
	return nil
}

// repeated looks at all events that share a message or a dead letter.
func (a *auditor) repeated(ctx context.Context) error {
	sharing, err := a.numbers(ctx, `
		SELECT no
		FROM events
		WHERE stream_created = $1 AND seq = ANY($2)`, a.created, a.owned.repeated)
	if err != nil {
		return err
	}
	if err := a.strangers(ctx, sharing); err != nil {
		return err
	}
	if sharing, err = a.numbers(ctx, `
		SELECT no
		FROM events
		WHERE state = $1 AND dlq_seq = ANY($2)`, string(dedupe.Failed), a.letters.repeated); err != nil {
		return err
	}
	return a.letter(ctx, sharing)
}

// numbers returns the events that share one of sequences, which are rare.
func (a *auditor) numbers(ctx context.Context, query string, scope any, sequences []int64) ([]int64, error) {
	if len(sequences) == 0 {
		return nil, nil
	}
	return a.find(ctx, query, scope, sequences)
}

// find returns the numbers of the events that a query selects.
func (a *auditor) find(ctx context.Context, query string, args ...any) ([]int64, error) {
	found, err := a.Pool.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("find events: %w", err)
	}
	list, err := pgx.CollectRows(found, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("find events: %w", err)
	}
	return list, nil
}

// trimmed reports whether a message went away with everything before it.
func (a *auditor) trimmed(ctx context.Context, seq uint64) (bool, error) {
	info, err := a.events.Info(ctx)
	if err != nil {
		return false, fmt.Errorf("read state of the stream: %w", err)
	}
	return seq < info.State.FirstSeq, nil
}

// applied checks that each applied event of a page has a transfer.
func (a *auditor) applied(ctx context.Context, after, upTo int64) error {
	return a.posted(ctx, `e.no > $1 AND e.no <= $2`, after, upTo)
}

// posted checks that each applied event in scope has a transfer, has held or voided
// something, or told of refunds that were posted before.
func (a *auditor) posted(ctx context.Context, scope string, args ...any) error {
	found, err := a.Pool.Query(ctx, `
		SELECT e.no, e.source, e.event_id, e.variant
		FROM events e
		WHERE `+scope+` AND e.outcome = 'applied'
		  AND NOT EXISTS (SELECT FROM transfers t WHERE t.event_no = e.no)
		  AND NOT EXISTS (SELECT FROM operations o WHERE o.event_no = e.no AND o.kind IN ('hold', 'void'))
		  AND NOT EXISTS (SELECT FROM operations o WHERE o.event_no = e.no AND o.unmoved = o.amount)
		ORDER BY e.no`, args...)
	if err != nil {
		return fmt.Errorf("find applied events without transfers: %w", err)
	}
	var no int64
	var f Finding
	_, err = pgx.ForEachRow(found, []any{&no, &f.Source, &f.EventID, &f.Variant}, func() error {
		number := no
		a.report.add(Finding{
			Kind: NothingPosted, Source: f.Source, EventID: f.EventID, Variant: f.Variant, EventNo: &number,
			Detail: "the event is applied and has no transfer",
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("find applied events without transfers: %w", err)
	}
	return nil
}
