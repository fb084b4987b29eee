package review

import (
	"context"
	"fmt"
	"time"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// fix sets the range: the part of the stream that the filter selects.
func (r *reviewer) fix(ctx context.Context) error {
	events, err := r.JS.Stream(ctx, stream.Events)
	if err != nil {
		return err
	}
	info := events.CachedInfo()
	r.created = stream.Incarnation(info.Created)
	r.trimmed = max(info.State.FirstSeq, 1)
	r.sum.First, r.sum.Last = max(r.trimmed, r.Filter.From), info.State.LastSeq
	if r.Filter.To != 0 {
		r.sum.Last = min(r.sum.Last, r.Filter.To)
	}
	if !r.Filter.Since.IsZero() {
		first, err := stream.FirstSince(ctx, r.JS, r.Filter.Since)
		if err != nil {
			return err
		}
		if first == nil {
			r.sum.First = r.sum.Last + 1
		} else {
			r.sum.First = max(r.sum.First, first.Seq)
		}
	}
	if !r.Filter.Until.IsZero() {
		after, err := stream.FirstSince(ctx, r.JS, r.Filter.Until.Add(time.Nanosecond))
		if err != nil {
			return err
		}
		if after != nil {
			r.sum.Last = min(r.sum.Last, after.Seq-1)
		}
	}
	return nil
}

// read sends the selected messages of the range, batch by batch.
func (r *reviewer) read(ctx context.Context, batches chan<- batch) error {
	for next := r.sum.First; next <= r.sum.Last; {
		raw, err := stream.Read(ctx, r.JS, next, r.sum.Last)
		if err != nil {
			return err
		}
		if len(raw) == 0 {
			return nil // what follows was deleted
		}
		if r.sum.Since.IsZero() {
			r.sum.Since = raw[0].Time
		}
		b := batch{messages: make([]stored, 0, len(raw)), last: raw[len(raw)-1].Seq}
		for _, m := range raw {
			event, err := envelope.Decode(m.Header, m.Data)
			if err == nil && r.Filter.selects(event.Source, event.Type) { // others are no events, and no rules concern them
				b.messages = append(b.messages, stored{m.Seq, m.Time, event})
			}
		}
		select {
		case batches <- b:
		case <-ctx.Done():
			return ctx.Err()
		}
		next = b.last + 1
	}
	return nil
}

// outsidePage is how many event numbers one statement looks at.
const outsidePage = 100_000

// outside counts the applied events that the filter selects and whose message
// has left the stream, page by page, so that no statement lasts.
func (r *reviewer) outside(ctx context.Context) error {
	f := r.Filter
	for after := int64(-1); ; {
		var last *int64
		var n int
		err := r.Pool.QueryRow(ctx, `
			SELECT max(no),
			       count(*) FILTER (WHERE outcome = 'applied'
			                          AND (stream_created <> $3 AND $6::bigint = 0 AND $7::bigint = 0 OR stream_created = $3 AND seq < $4)
			                          AND ($5 = '' OR source = $5)
			                          AND seq >= $6::bigint AND ($7::bigint = 0 OR seq <= $7::bigint)
			                          AND ($8::timestamptz IS NULL OR created_at >= $8)
			                          AND ($9::timestamptz IS NULL OR created_at <= $9)
			                          AND ($10 = '' OR type = $10 OR right($10, 1) = '*' AND starts_with(type, left($10, -1))))
			FROM (SELECT * FROM events WHERE no > $1 ORDER BY no LIMIT $2) AS e`,
			after, outsidePage, r.created, int64(r.trimmed), f.Source, int64(f.From), int64(f.To), orNull(f.Since), orNull(f.Until), f.Type,
		).Scan(&last, &n)
		if err != nil {
			return fmt.Errorf("count events outside the stream: %w", err)
		}
		r.sum.Outside += n
		if last == nil {
			return nil
		}
		after = *last
	}
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
