package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// alone decides one event in a transaction of its own, under the lock of its
// row: events that wait, repeats with other bytes, and events that were blamed.
func (l *loop) alone(ctx context.Context, it *item) error {
	err := l.retry(ctx, func(ctx context.Context) error { return l.decideAlone(ctx, it, "", nil) })
	if err != nil && verdictOf(err) == blame {
		return l.accuse(ctx, it, err)
	}
	return err
}

// accuse records that the event's own transaction failed with cause, which no
// other event can be blamed for.
func (l *loop) accuse(ctx context.Context, it *item, cause error) error {
	reason := blamed(cause)
	if reason == dlq.RetryBudget && l.w.streak.add(it.key, cause) {
		return fmt.Errorf("%d events in a row failed alone with one error: %w", streakLength, errUnclassified(cause))
	}
	return l.retry(ctx, func(ctx context.Context) error { return l.decideAlone(ctx, it, reason, cause) })
}

// decideAlone is the transaction of alone. With a reason it does not try the
// event again but records the failure.
func (l *loop) decideAlone(ctx context.Context, it *item, reason dlq.Reason, cause error) error {
	same, err := l.compare(ctx, it)
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
	settle := it.settle
	var write pgx.Batch
	switch meaning := same(row); {
	case row.Standing() && meaning == dedupe.Different:
		if settle, err = l.conflict(ctx, tx, it, row); err != nil {
			return err
		}
	case row.Terminal() && meaning == dedupe.Same:
		settle = func() { it.duplicateOf(row) }
	case row.State == dedupe.Failed && meaning == dedupe.Same:
		it.row = row // its letter was never stored: whoever sees it stores it
	case row.State == dedupe.Pending && meaning == dedupe.Same && row.RetryIn > minDelay:
		settle = func() { it.wait(row.RetryIn) } // a copy must not spend the budget of the one that waits
	case reason != "":
		it.supersede(row)
		l.refuse(&write, it, it.row, reason, cause)
	default:
		it.supersede(row)
		if err := l.apply(ctx, tx, &write, it); err != nil {
			return err
		}
	}
	if write.Len() > 0 {
		if err := tx.SendBatch(ctx, &write).Close(); err != nil {
			return fmt.Errorf("save event: %w", err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if it.posting != nil {
		l.w.reportOverdrawn(it.posting.Overdrawn)
	}
	settle()
	return nil
}

// own returns the row of key, locked: the one that is there, or a new one that
// waits to be decided.
func (l *loop) own(ctx context.Context, tx pgx.Tx, it *item, key dedupe.Key) (*dedupe.Row, error) {
	fresh := *it.row
	fresh.No, fresh.Key, fresh.State, fresh.Outcome, fresh.Reason, fresh.Error = l.numbers.Take(), key, dedupe.Pending, "", "", ""
	fresh.Attempts, fresh.Redrives, fresh.DLQSeq, fresh.FailingFor, fresh.RetryIn = 0, 0, 0, 0, 0
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

// supersede gives the row of the event the content of this delivery, and keeps
// its number and history.
func (it *item) supersede(row *dedupe.Row) {
	mine := *it.row
	mine.No, mine.Attempts, mine.Redrives = row.No, row.Attempts, row.Redrives
	it.failed = row.Attempts
	mine.FailingFor, mine.RetryIn, mine.DLQSeq = row.FailingFor, 0, 0
	it.row = &mine
	it.intend()
}

// apply decides the event on its merits and queues its row.
func (l *loop) apply(ctx context.Context, tx pgx.Tx, write *pgx.Batch, it *item) error {
	if it.posting != nil {
		if err := ledger.Post(ctx, tx, l.w.limit, it.posting); err != nil {
			return err
		}
		switch {
		case it.posting.Err != nil:
			l.refuse(write, it, it.row, refusal(it.posting.Err), it.posting.Err)
			return nil
		case len(it.posting.Posted) == 0:
			it.row.Outcome = dedupe.DuplicateOperation
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
	key := dedupe.Conflict(it.key, it.content.BodyHash)
	row, err := l.own(ctx, tx, it, key)
	if err != nil {
		return nil, err
	}
	if row.Terminal() {
		return func() { it.duplicateOf(row) }, nil
	}
	it.row = row
	if row.State != dedupe.Failed {
		row.State, row.Reason = dedupe.Failed, string(dlq.IDConflict)
		row.Error = fmt.Sprintf("event number %d (message %d) stands under this id with another content", standing.No, standing.Seq)
		var b pgx.Batch
		dedupe.Save(&b, row, 0)
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return nil, fmt.Errorf("save conflict: %w", err)
		}
	}
	return func() {
		l.w.metrics.conflicts.WithLabelValues(it.key.Source).Inc()
		l.w.log.Warn().Str(telemetry.KeySource, it.key.Source).Str(telemetry.KeyEventID, it.key.ID).Uint64(telemetry.KeySequence, it.seq).
			Uint64("standing_sequence", standing.Seq).Msg("another content arrived under a finished event's id")
		it.settle()
	}, nil
}

// compare returns how the delivery's content compares to a row. Where the rules
// have changed since the row was written, it reads the row's message again and
// lets today's rules say what both mean, before any lock is taken.
func (l *loop) compare(ctx context.Context, it *item) (func(*dedupe.Row) dedupe.Sameness, error) {
	known, err := dedupe.Read(ctx, l.w.pool, []dedupe.Key{it.key})
	if err != nil {
		return nil, err
	}
	row := known[it.key]
	if row == nil || it.content.Compare(row.Content) != dedupe.Unsure {
		return func(r *dedupe.Row) dedupe.Sameness { return definite(it.content.Compare(r.Content)) }, nil
	}
	today, err := l.reread(ctx, row)
	if err != nil {
		return nil, err
	}
	return func(r *dedupe.Row) dedupe.Sameness {
		if r.BodyHash == row.BodyHash {
			return definite(it.content.Compare(today))
		}
		return definite(it.content.Compare(r.Content)) // superseded meanwhile
	}, nil
}

// definite turns doubt into a difference: a conflict that a person sees is
// better than money that nobody does.
func definite(s dedupe.Sameness) dedupe.Sameness {
	if s == dedupe.Unsure {
		return dedupe.Different
	}
	return s
}

// reread returns what the message of a row means by today's rules. A message
// that is gone keeps the meaning it had.
func (l *loop) reread(ctx context.Context, row *dedupe.Row) (dedupe.Content, error) {
	if !row.StreamCreated.Equal(l.w.incarnation()) {
		return row.Content, nil
	}
	stored, err := l.w.events.Load().GetMsg(ctx, row.Seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return row.Content, nil
	}
	if err != nil {
		return dedupe.Content{}, fmt.Errorf("read message %d again: %w", row.Seq, err)
	}
	event, err := envelope.Decode(stored.Header, stored.Data)
	if err != nil {
		return row.Content, nil //nolint:nilerr // unreadable bytes mean what they meant
	}
	today := row.Content
	today.Fingerprint, today.Rules = l.w.decide(event).Fingerprint, l.w.rulesVersion(event.Source)
	return today, nil
}
