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
