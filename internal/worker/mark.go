package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/pkg/dedupe"
)

// mark begins an attempt, in one statement for all, of events that were
// delivered before and have no row: whoever had them may have died of one of
// them. If this worker dies too, their rows say so, and each is tried alone.
// It returns those that it marked; the others have rows, which decide.
func (l *loop) mark(ctx context.Context, items []*item) (marked []*item, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	if err := l.numbers.Reserve(ctx, l.w.pool, len(items)); err != nil {
		return nil, err
	}
	rows, keys := make([]*dedupe.Row, len(items)), make([]dedupe.Key, 0, len(items))
	for i, it := range items {
		it.row.No, it.row.State, it.row.Attempt = l.numbers.Take(), dedupe.Processing, 1
		it.perhaps = dedupe.Attempt{No: it.row.No, Number: it.row.Attempt}
		rows[i] = it.row
	}
	var b pgx.Batch
	reserved := dedupe.Reserve(&b, rows)
	if err := l.w.pool.SendBatch(ctx, &b).Close(); err != nil {
		return nil, fmt.Errorf("mark redelivered events: %w", err)
	}
	var found []*item
	for _, it := range items {
		it.perhaps = dedupe.Attempt{}
		if reserved.New(it.row.No) {
			it.began()
			marked = append(marked, it)
			continue
		}
		it.row.State, it.row.Attempt = "", 0
		found, keys = append(found, it), append(keys, it.key)
	}
	return marked, l.lookUp(ctx, found, keys)
}

// markWaiting begins an attempt, in one statement for all, of events that were
// sent again and have not failed since, and of those whose parent has come.
// Thousands may be at once, and each would cost the transactions of an attempt of
// its own. Their rows record the attempt, so that a death of this worker counts,
// and makes each of them go alone. It returns those that it marked, and the others,
// in their order.
func (l *loop) markWaiting(ctx context.Context, items []*item) (marked, others []*item, err error) {
	due, _ := partition(items, func(it *item) bool { return it.event.Redrive > 0 || it.woken })
	if len(due) == 0 {
		return nil, items, nil
	}
	keys := make([]dedupe.Key, len(due))
	for i, it := range due {
		keys[i] = it.key
	}
	known, err := dedupe.Read(ctx, l.w.pool, keys)
	if err != nil {
		return nil, nil, err
	}
	var rows []*dedupe.Row
	waiting, _ := partition(due, func(it *item) bool { return it.waitsFor(known[it.key]) })
	for _, it := range waiting {
		row := known[it.key]
		it.row.No, it.row.Attempt, it.row.Redrives = row.No, row.Attempt+1, row.Redrives
		it.row.Attempts, it.row.FailingFor, it.failed = row.Attempts, row.FailingFor, row.Attempts
		it.perhaps = dedupe.Attempt{No: it.row.No, Number: it.row.Attempt}
		rows = append(rows, it.row)
	}
	if len(rows) == 0 {
		return nil, items, nil
	}
	var begun *dedupe.Reservation
	err = l.retry(ctx, func(ctx context.Context) error {
		var b pgx.Batch
		begun = dedupe.Begin(&b, rows)
		return l.w.pool.SendBatch(ctx, &b).Close()
	})
	for _, it := range waiting {
		if err == nil || verdictOf(err) != unavailable {
			it.perhaps = dedupe.Attempt{} // the outcome is known
		}
		if err == nil && begun.New(it.row.No) {
			it.began()
			continue
		}
		it.row.Attempt, it.row.Redrives = 0, 0
		it.row.Attempts, it.row.FailingFor, it.failed = 0, 0, 0
	}
	if err != nil {
		return nil, nil, fmt.Errorf("mark waiting events: %w", err)
	}
	marked, others = partition(items, func(it *item) bool { return it.marked })
	return marked, others, nil
}

// waitsFor reports whether the event of row waits for just this content, and is to
// be tried now: its parent has come, or it was sent again and has not failed since.
func (it *item) waitsFor(row *dedupe.Row) bool {
	switch {
	case row == nil || row.State != dedupe.Pending || row.Crashes > 0 || row.BodyHash != it.content.BodyHash:
		return false
	case it.woken:
		return waitsForParent(row)
	}
	return row.Redrives > 0 && row.Attempts == 0 && row.RetryIn == 0
}

// lookUp judges items that have rows.
func (l *loop) lookUp(ctx context.Context, items []*item, keys []dedupe.Key) error {
	if len(items) == 0 {
		return nil
	}
	known, err := dedupe.Read(ctx, l.w.pool, keys)
	if err != nil {
		return err
	}
	for _, it := range items {
		it.judge(known[it.key])
	}
	return nil
}

// errFenced means that somebody else has taken the attempt over: this worker
// was too slow, and what it would write no longer counts.
var errFenced = errors.New("another worker has taken the attempt over")
