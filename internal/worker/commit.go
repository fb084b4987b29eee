package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceledger/onceledger/internal/faultpoint"
	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

const (
	// transactionTimeout bounds one transaction; it is a little more than the
	// server gives a statement, for a server that has stopped answering.
	transactionTimeout = 12 * time.Second
	// maxAgain bounds how often a batch is tried again at once, and
	// againShare for which part of the ack wait.
	maxAgain   = 8
	againShare = 3
	// againDelay bounds the jitter between those tries.
	againDelay = 100 * time.Millisecond
)

// errCommit means that COMMIT did not commit.
var errCommit = errors.New("transaction was rolled back by the server")

// commit decides items in one transaction and settles each. A transaction that
// lost a race is tried again; one that an event is to blame for is halved until
// that event stands alone. An error means that the database is unavailable:
// items that are still undecided are to be given back.
func (l *loop) commit(ctx context.Context, items []*item) error {
	if len(items) == 0 {
		return nil
	}
	err := l.retry(ctx, func(ctx context.Context) error { return l.transact(ctx, items) })
	if err == nil || verdictOf(err) != blame {
		return err
	}
	if len(items) == 1 {
		return l.alone(ctx, items[0], err)
	}
	l.w.metrics.bisected.Inc()
	half := len(items) / 2
	if err := l.commit(ctx, items[:half]); err != nil {
		return err
	}
	return l.commit(ctx, items[half:])
}

// retry runs a transaction again, with jitter, while it loses races. When that
// has gone on for too long the deliveries go back and come again.
func (l *loop) retry(ctx context.Context, transaction func(context.Context) error) error {
	until := time.Now().Add(l.w.ackWait / againShare)
	for try := 1; ; try++ {
		bounded, cancel := context.WithTimeout(ctx, transactionTimeout)
		err := transaction(bounded)
		cancel()
		if err == nil || verdictOf(err) != again || try == maxAgain || time.Now().After(until) {
			return err
		}
		l.w.metrics.again.Inc()
		if timedOut(err) {
			l.w.slow.Down(err)
			l.w.slow.Up() // once nothing has timed out for a while
		}
		select {
		case <-time.After(jitter(againDelay)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// transact is the fast path: two round trips for the whole batch. The first
// locks, in the order events, operations, holds, limited accounts; the second writes
// what was decided in between, and commits (where there are holds, accounts take one
// more in between). Items are either all new, or all
// marked: then their rows are there, and are locked instead of inserted.
func (l *loop) transact(ctx context.Context, items []*item) error {
	marked := items[0].marked
	conn, err := l.w.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("acquire connection: %w", err)
	}
	defer conn.Release()
	if err := l.numbers.Reserve(ctx, conn, len(items)); err != nil {
		return err
	}
	defer rollback(ctx, conn)

	rows, postings := make([]*dedupe.Row, len(items)), make([]*ledger.Posting, 0, len(items))
	for i, it := range items {
		if !it.marked {
			it.row.No = l.numbers.Take()
		}
		it.intend()
		rows[i] = it.row
		if it.posting != nil {
			postings = append(postings, it.posting)
		}
	}
	var first, second pgx.Batch
	first.Queue("BEGIN")
	reserve := dedupe.Reserve
	if marked {
		reserve = dedupe.Fence
	}
	reserved := reserve(&first, rows)
	book := ledger.NewBatch(l.w.limit, postings)
	book.Known = &l.w.known
	book.Reserve(&first)
	if err := conn.SendBatch(ctx, &first).Close(); err != nil {
		return fmt.Errorf("reserve batch: %w", err)
	}
	known, err := readKnown(ctx, conn, items, reserved, book)
	if err != nil {
		return err
	}
	if err := book.Decide(ctx, conn); err != nil {
		return err
	}
	if err := l.nameRefusals(ctx, conn, postings); err != nil {
		return err
	}
	if l.w.between != nil {
		l.w.between()
	}
	faultpoint.Reach(faultpoint.Reserved)

	for _, it := range items {
		if reserved.New(it.row.No) {
			l.rewrite(&second, it)
		}
	}
	book.Write(&second)
	arrived, err := commitWith(ctx, conn, &second, postings)
	if err != nil {
		return err
	}
	l.w.wake(arrived)
	l.w.reportFacts(book.Overdrawn(), book.Frozen(), book.Uncovered())
	l.committed(items, reserved, known)
	return nil
}

// nameRefusals makes the refusals of postings ones for people: they stand in the rows
// and letters of their events.
func (l *loop) nameRefusals(ctx context.Context, q dedupe.Querier, postings []*ledger.Posting) error {
	var refused []*error
	for _, p := range postings {
		if p.Err != nil {
			refused = append(refused, &p.Err)
		}
	}
	return l.w.cat.Name(ctx, q, refused...)
}

// committed ends the items of a committed batch: what is new as it was decided, the
// others by their rows that were there.
func (l *loop) committed(items []*item, reserved *dedupe.Reservation, known map[dedupe.Key]*dedupe.Row) {
	for _, it := range items {
		if !reserved.New(it.row.No) {
			it.judge(known[it.key])
			continue
		}
		it.ended()
		it.settle()
		if it.row.Outcome == dedupe.Applied {
			l.w.streak.reset()
		}
	}
}

// readKnown reads the rows that were there before the batch and takes their
// postings out of it.
func readKnown(ctx context.Context, conn *pgxpool.Conn, items []*item, reserved *dedupe.Reservation, book *ledger.Batch) (map[dedupe.Key]*dedupe.Row, error) {
	var keys []dedupe.Key
	for _, it := range items {
		if reserved.New(it.row.No) {
			continue
		}
		keys = append(keys, it.key)
		if it.posting != nil {
			book.Skip(it.posting)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	return dedupe.Read(ctx, conn, keys)
}

// rewrite corrects the row of an event that the ledger refused, or whose money
// was all there already.
func (l *loop) rewrite(b *pgx.Batch, it *item) {
	p := it.posting
	switch {
	case p != nil && p.Err != nil:
		l.refuse(b, it, it.row, Refusal(p.Err), p.Err)
	case p != nil && len(p.Posted) == 0:
		it.giveWay()
		dedupe.Save(b, it.row, 0)
	case it.marked:
		dedupe.Save(b, it.row, 0)
	}
}

// refuse writes into row that the event failed for this reason: it waits while
// its budget lasts and the reason may pass, and is parked otherwise.
func (l *loop) refuse(b *pgx.Batch, it *item, row *dedupe.Row, reason dlq.Reason, cause error) {
	row.Outcome, row.Reason, row.Error, row.DLQSeq = "", string(reason), text(cause), 0
	if it.passing || passes(reason) {
		budget := l.w.budget(row.Source)
		row.Attempts = it.failed + 1 // not row.Attempts++: the transaction may be tried again
		if !spent(budget, row.Attempts, row.FailingFor) {
			row.State = dedupe.Pending
			it.delay = delay(budget, row.Attempts, jitter)
			dedupe.Save(b, row, it.delay)
			if it.awaits() {
				ledger.Wait(b, it.posting)
			}
			return
		}
	}
	row.State = dedupe.Failed
	dedupe.Save(b, row, 0)
	if it.awaits() {
		ledger.StopWaiting(b, it.posting)
	}
}

// settle gives the delivery the fate that its own committed row asks for.
func (it *item) settle() {
	switch it.row.State {
	case dedupe.Completed:
		it.ack(string(it.row.Outcome))
	case dedupe.Failed:
		it.fate, it.outcome = parked, outcomeParked
	default:
		it.wait(it.delay)
	}
}

// judge compares a delivery with the row that was there before it. Whatever is
// not plainly a duplicate is decided under that row's lock.
func (it *item) judge(row *dedupe.Row) {
	it.ended() // if it was, somebody else has taken it over
	same := row != nil && (it.content.BodyHash == row.BodyHash || it.understood && it.content.Compare(row.Content) == dedupe.Same)
	switch {
	case same && it.event.Redrive > 0 && it.content.BodyHash != row.BodyHash:
		it.fate = lonely // a conflict that was sent again, perhaps: its own row has to end too
	case same && row.Terminal():
		it.duplicateOf(row)
	case same && row.State == dedupe.Failed: // its letter was never stored: whoever sees it stores it
		it.row = row
		it.settle()
	default:
		it.fate = lonely
	}
}

// reportFacts tells a person of accounts that a fact took past a limit which is
// only recorded, or moved although they are frozen, and of captures that no hold
// covered.
func (w *worker) reportFacts(overdrawn, frozen, uncovered []string) {
	for _, operation := range uncovered {
		w.metrics.uncovered.Inc()
		w.sampled.Warn().Str(telemetry.KeyOperation, ledger.FormatKey(operation)).Msg("capture is not covered by a hold: it was posted as a fact")
	}
	for _, name := range overdrawn {
		w.metrics.overdrawn.Inc()
		w.sampled.Warn().Str(telemetry.KeyAccount, name).Msg("account is overdrawn: its limit only records")
	}
	for _, name := range frozen {
		w.metrics.frozen.Inc()
		w.sampled.Warn().Str(telemetry.KeyAccount, name).Msg("account is frozen: what its limit only records was posted all the same")
	}
}

// commitWith sends the batch with COMMIT, and behind it the look at events that
// waited for what postings have posted. An error of the network before the answer
// to COMMIT leaves the outcome unknown; the next delivery finds out.
func commitWith(ctx context.Context, conn *pgxpool.Conn, b *pgx.Batch, postings []*ledger.Posting) (arrived []int64, err error) {
	committed := false
	b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errCommit
		}
		committed = true
		return nil
	})
	ledger.Arrived(b, postings, func(events []int64) { arrived = events })
	if err := conn.SendBatch(ctx, b).Close(); err != nil && !committed {
		return nil, fmt.Errorf("write batch: %w", err)
	}
	return arrived, nil // whoever waits comes by itself where the look has failed
}

// rollback ends a transaction that is still open, so that the connection can be
// used again. Where that does not work the pool closes the connection.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().IsClosed() || conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	_, _ = conn.Exec(ctx, "ROLLBACK") // Release closes what is still in a transaction
}
