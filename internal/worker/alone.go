package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceledger/onceledger/internal/faultpoint"
	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

const (
	// crashBudget is how many workers may die of one event before it is parked
	// without being tried again.
	crashBudget = 3
)

// alone gives one event an attempt of its own: events that wait, repeats with
// other bytes, events that were blamed (cause), and those a worker may have
// died of. The attempt is committed before it is made, so that it counts
// whatever happens in it.
func (l *loop) alone(ctx context.Context, it *item, cause error) error {
	err := l.retry(ctx, func(ctx context.Context) error { return l.begin(ctx, it) })
	if err == nil || verdictOf(err) != unavailable {
		it.perhaps = dedupe.Attempt{} // the outcome is known
	}
	if err != nil || it.fate != undecided {
		return err
	}
	faultpoint.Reach(faultpoint.Begun)
	if !it.meant() {
		it.understood, it.fault = false, nil
		l.w.understand(ctx, []*item{it})
	}
	if cause == nil {
		cause = it.fault
	}
	err = l.retry(ctx, func(ctx context.Context) error { return l.try(ctx, it, cause) })
	if err != nil && verdictOf(err) == blame {
		cause = err
		if blamed(cause) == dlq.RetryBudget && l.w.streak.add(it.key, cause) {
			return fmt.Errorf("%d events in a row failed alone with one error: %w", streakLength, errUnclassified(cause))
		}
		err = l.retry(ctx, func(ctx context.Context) error { return l.try(ctx, it, cause) })
	}
	if errors.Is(err, errFenced) {
		it.ended()
		it.wait(jitter(heldDelay))
		return nil
	}
	return err
}

// begin looks at the event's row, under its lock, and either settles the
// delivery or commits that an attempt begins.
func (l *loop) begin(ctx context.Context, it *item) error {
	same, err := l.compare(ctx, it)
	if err != nil || it.fate != undecided {
		return err
	}
	restarted, err := dedupe.Restarted(ctx, l.w.pool)
	if err != nil {
		return err
	}
	if err := l.numbers.Reserve(ctx, l.w.pool, 2); err != nil {
		return err
	}
	tx, err := l.w.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing

	row, err := l.own(ctx, tx, it, it.key)
	if err != nil {
		return err
	}
	var settle func()
	var write pgx.Batch
	switch meaning := same(row); {
	case it.deadly: // whatever became of its event: nobody knows what this one means
		if settle, err = l.conflict(ctx, tx, it, row); err != nil {
			return err
		}
	case meaning == dedupe.Unsure:
		return fmt.Errorf("%w: event %s", ledger.ErrRace, it.key.ID) // the next look knows the row
	case row.State == dedupe.Processing:
		settle = l.takeOver(&write, it, row, restarted, meaning == dedupe.Same)
	case row.Standing() && meaning == dedupe.Different:
		if settle, err = l.conflict(ctx, tx, it, row); err != nil {
			return err
		}
	case row.Terminal() && meaning == dedupe.Same:
		if err := l.resolve(ctx, tx, it); err != nil {
			return err
		}
		settle = func() { it.duplicateOf(row) }
	case row.State == dedupe.Failed && meaning == dedupe.Same:
		settle = func() { it.row = row; it.settle() } // its letter was never stored: whoever sees it stores it
	case row.State == dedupe.Pending && meaning == dedupe.Same && row.RetryIn > minDelay:
		settle = func() { it.wait(row.RetryIn) } // a copy must not spend the budget of the one that waits
	default:
		if err := l.resolve(ctx, tx, it); err != nil {
			return err
		}
		settle = it.start(&write, row)
	}
	if write.Len() > 0 {
		if err := tx.SendBatch(ctx, &write).Close(); err != nil {
			return fmt.Errorf("save event: %w", err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	settle()
	return nil
}

// start queues the begin of an attempt with this delivery's content.
func (it *item) start(write *pgx.Batch, row *dedupe.Row) (settle func()) {
	mine := *it.row
	mine.No, mine.Attempts, mine.Redrives, mine.Crashes = row.No, row.Attempts, row.Redrives, row.Crashes
	mine.FailingFor, mine.RetryIn, mine.DLQSeq = row.FailingFor, 0, 0
	mine.State, mine.Outcome, mine.Reason, mine.Error = dedupe.Processing, "", row.Reason, row.Error
	mine.Attempt = row.Attempt + 1
	dedupe.Save(write, &mine, 0)
	it.perhaps = dedupe.Attempt{No: mine.No, Number: mine.Attempt}
	return func() { it.row, it.failed = &mine, mine.Attempts; it.began() }
}

// takeOver decides about an attempt that was begun and has not ended. This
// delivery's own goes on. One that its worker was heard of within the ack wait
// is under way: it belongs to a copy, or to a delivery of this very message that
// expired before its worker came to it. Any other is dead: its worker died of
// the event, unless the database was restarted in between. Where the row is parked
// for that, its letter has to have its content: a delivery of another one comes
// again, to be decided on its merits.
func (l *loop) takeOver(write *pgx.Batch, it *item, row *dedupe.Row, restarted time.Time, same bool) (settle func()) {
	if it.marked && row.No == it.row.No && row.Attempt == it.row.Attempt {
		return func() {}
	}
	if rest := l.w.ackWait - row.BegunFor; rest > 0 {
		return func() { it.wait(min(rest, heldDelay) + jitter(minDelay)) }
	}
	if row.Decided.After(restarted) {
		row.Crashes++
	}
	if row.Crashes < crashBudget {
		return it.start(write, row)
	}
	row.State, row.Reason = dedupe.Failed, string(dlq.CrashBudget)
	row.Error = fmt.Sprintf("%d workers ended while they tried this event", row.Crashes)
	dedupe.Save(write, row, 0)
	return func() {
		it.ended()
		if !same {
			it.wait(jitter(heldDelay))
			return
		}
		it.row = row
		it.settle()
	}
}

// try is the attempt: it decides the event under the fence of its number, or
// records the cause for which it failed.
func (l *loop) try(ctx context.Context, it *item, cause error) error {
	tx, err := l.w.pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing

	var fence, write pgx.Batch
	held := dedupe.Fence(&fence, []*dedupe.Row{it.row})
	if err := tx.SendBatch(ctx, &fence).Close(); err != nil {
		return fmt.Errorf("lock attempt: %w", err)
	}
	if !held.New(it.row.No) {
		return errFenced
	}
	it.intend()
	if cause != nil {
		l.refuse(&write, it, it.row, blamed(cause), cause)
	} else if err := l.apply(ctx, tx, &write, it); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, &write).Close(); err != nil {
		return fmt.Errorf("save event: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if it.posting != nil {
		l.w.reportFacts(it.posting.Overdrawn, it.posting.Frozen, it.posting.Uncovered)
		l.lookForWaiting(ctx, it.posting)
	}
	it.ended()
	it.settle()
	return nil
}

// own returns the row of key, locked: the one that is there, or a new one that
// waits to be decided.
func (l *loop) own(ctx context.Context, tx pgx.Tx, it *item, key dedupe.Key) (*dedupe.Row, error) {
	fresh := *it.row
	fresh.No, fresh.Key, fresh.State, fresh.Outcome, fresh.Reason, fresh.Error = l.numbers.Take(), key, dedupe.Pending, "", "", ""
	fresh.Attempts, fresh.Attempt, fresh.Crashes, fresh.Redrives = 0, 0, 0, 0
	fresh.DLQSeq, fresh.FailingFor, fresh.RetryIn = 0, 0, 0
	var b pgx.Batch
	reserved := dedupe.Reserve(&b, []*dedupe.Row{&fresh})
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return nil, fmt.Errorf("reserve event: %w", err)
	}
	if reserved.New(fresh.No) {
		return &fresh, nil
	}
	row, err := dedupe.Lock(ctx, tx, key)
	if err == nil && row == nil {
		err = fmt.Errorf("%w: event %s", ledger.ErrRace, key.ID)
	}
	return row, err
}

// apply decides the event on its merits and queues its row.
func (l *loop) apply(ctx context.Context, tx pgx.Tx, write *pgx.Batch, it *item) error {
	if it.posting != nil {
		if err := ledger.Post(ctx, tx, l.w.limit, it.posting); err != nil {
			return err
		}
		if err := l.nameRefusals(ctx, tx, []*ledger.Posting{it.posting}); err != nil {
			return err
		}
		switch {
		case it.posting.Err != nil:
			l.refuse(write, it, it.row, Refusal(it.posting.Err), it.posting.Err)
			return nil
		case len(it.posting.Posted) == 0:
			it.giveWay()
		}
	}
	if it.row.State == dedupe.Failed {
		l.refuse(write, it, it.row, it.decision.Parked, it.decision.Err)
		return nil
	}
	dedupe.Save(write, it.row, 0)
	return nil
}

// conflict parks a delivery whose content differs from the one that stands. It
// has a row of its own, so that every parked message has a state.
func (l *loop) conflict(ctx context.Context, tx pgx.Tx, it *item, standing *dedupe.Row) (settle func(), err error) {
	corrected, err := dedupe.Corrected(ctx, tx, []dedupe.Key{it.key})
	if err != nil {
		return nil, err
	}
	for _, row := range corrected[it.key] { // a conflict that an operator let stand
		if it.content.Compare(row.Content) == dedupe.Same {
			return func() { it.duplicateOf(row) }, l.resolve(ctx, tx, it)
		}
	}
	key := dedupe.Conflict(it.key, it.content.BodyHash)
	row, err := l.own(ctx, tx, it, key)
	if err != nil {
		return nil, err
	}
	if row.Terminal() {
		return func() { it.duplicateOf(row) }, nil
	}
	it.row = row
	if it.standing, err = readStanding(ctx, tx, standing); err != nil {
		return nil, err
	}
	if row.State != dedupe.Failed {
		row.State, row.Reason = dedupe.Failed, string(dlq.IDConflict)
		row.Error = fmt.Sprintf("another content stands under this id: that of message %d of EVENTS", standing.Seq)
		if it.deadly {
			row.Reason = string(dlq.CrashBudget)
			row.Error = fmt.Sprintf("%d looks at this content, beside that of message %d of EVENTS under the same id, did not end", crashBudget, standing.Seq)
		}
		var b pgx.Batch
		dedupe.Save(&b, row, 0)
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return nil, fmt.Errorf("save conflict: %w", err)
		}
	}
	return func() {
		if !isConflict(dlq.Reason(row.Reason)) {
			it.settle()
			return
		}
		l.w.metrics.conflicts.WithLabelValues(it.key.Source).Inc()
		l.w.log.Warn().Str(telemetry.KeySource, it.key.Source).Str(telemetry.KeyEventID, it.key.ID).Uint64(telemetry.KeySequence, it.seq).
			Uint64("standing_sequence", standing.Seq).Msg("another content arrived under a finished event's id")
		it.settle()
	}, nil
}
