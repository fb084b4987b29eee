package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// deadLetters reads the dead-letter stream and matches each letter with the row
// of its event. Where the stream is missing, every parked event misses it.
func (a *auditor) deadLetters(ctx context.Context) error {
	batch := make([]*dlq.Letter, 0, readBatch)
	flush := func() error {
		if err := a.match(ctx, batch); err != nil {
			return err
		}
		batch = batch[:0]
		return nil
	}
	err := dlq.List(ctx, a.JS, dlq.Filter{}, func(l *dlq.Letter) error {
		a.acquit(l)
		l.Data, l.Header = nil, nil // only its key matters from here on
		batch = append(batch, l)
		if len(batch) < readBatch {
			return nil
		}
		return flush()
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return flush()
}

func (a *auditor) match(ctx context.Context, letters []*dlq.Letter) error {
	keys := make([]dedupe.Key, len(letters))
	for i, l := range letters {
		keys[i] = dedupe.Key{Source: l.Source, ID: l.EventID, Variant: l.Variant}
	}
	found, err := dedupe.Read(ctx, a.Pool, keys)
	if err != nil {
		return err
	}
	for i, l := range letters {
		a.report.Letters.Stored++
		switch row := found[keys[i]]; {
		case row == nil:
			a.report.add(Finding{
				Kind: LetterUnknown, Seq: l.Seq, Source: l.Source, EventID: l.EventID, Variant: l.Variant,
				Detail: fmt.Sprintf("dead letter %d belongs to no event", l.Seq),
			})
		case row.State == dedupe.Failed && row.DLQSeq == l.Seq:
			a.letters.found.set(l.Seq)
		case row.State != dedupe.Failed || row.DLQSeq != 0:
			a.report.Letters.Stale++
		}
	}
	return nil
}

// letter checks the dead letter of a failed event: rows are the failed events
// of a page whose letter was not among those that were read.
func (a *auditor) letter(ctx context.Context, numbers []int64) error {
	if len(numbers) == 0 {
		return nil
	}
	rows, err := dedupe.Numbered(ctx, a.Pool, numbers)
	if err != nil {
		return err
	}
	for _, no := range numbers {
		row := rows[no]
		if row == nil || row.State != dedupe.Failed {
			continue // sent again meanwhile
		}
		finding := Finding{Source: row.Source, EventID: row.ID, Variant: row.Variant, EventNo: &no}
		if row.DLQSeq == 0 {
			finding.Kind, finding.Detail = LetterMissing, fmt.Sprintf(
				"the event failed (%s) at %s and has no dead letter yet", row.Reason, row.Decided.UTC().Format("2006-01-02 15:04:05Z"))
			a.missing(finding, row)
			continue
		}
		l, err := dlq.Get(ctx, a.JS, row.DLQSeq)
		switch {
		case errors.Is(err, dlq.ErrNotFound), errors.Is(err, jetstream.ErrStreamNotFound):
			finding.Kind, finding.Detail = LetterGone, fmt.Sprintf(
				"the event is parked (%s) as dead letter %d, which is not in the stream", row.Reason, row.DLQSeq)
			a.missing(finding, row)
		case err != nil:
			return err
		case l.Source != row.Source || l.EventID != row.ID || l.Variant != row.Variant:
			finding.Kind, finding.Detail = LetterGone, fmt.Sprintf(
				"the event is parked (%s) as dead letter %d, which is that of event %s of %s", row.Reason, row.DLQSeq, l.EventID, l.Source)
			a.missing(finding, row)
		}
	}
	return nil
}

// missing reports a parked event without its letter.
func (a *auditor) missing(f Finding, row *dedupe.Row) {
	a.report.add(f)
	a.unlettered = append(a.unlettered, row)
}
