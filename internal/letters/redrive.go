package letters

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/faultpoint"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// publishTimeout bounds the wait for the PubAck of one event.
const publishTimeout = 10 * time.Second

// reason is the stored detail of an operator's action on a letter.
type reason struct {
	DLQSeq uint64 `json:"dlq_seq"`
	Reason string `json:"reason"`
	// Source and EventID are given where no row names them.
	Source  string `json:"source,omitempty"`
	EventID string `json:"event_id,omitempty"`
}

func detailOf(l *dlq.Letter, row *dedupe.Row) any {
	d := reason{DLQSeq: l.Seq, Reason: string(l.Reason)}
	if row == nil {
		d.Source, d.EventID = l.Source, l.EventID
	}
	return d
}

// Redrive sends the events of at most Page letters again, to be judged by
// today's rules. The order is that of the guarantee: (1) one transaction makes
// the rows pending and records who and why; (2) each message is stored in
// EVENTS; (3) its letter is deleted. After a failure or a crash in between, call
// it again. A letter that is stale is deleted. detail makes what is stored with
// each action; nil stores the letter's sequence and reason.
//
// The error is that of the transaction, which did nothing then. What went wrong
// after it is in the results, which are in the order of the list.
func (s Store) Redrive(ctx context.Context, list []*dlq.Letter, a dedupe.Action, detail func(*dlq.Letter, *dedupe.Row) any) ([]Result, error) {
	if detail == nil {
		detail = detailOf
	}
	results, err := s.move(ctx, list, func(tx pgx.Tx, chosen []*Result) error {
		var rows []*dedupe.Row
		var details []any
		for _, r := range chosen {
			if r.Row == nil { // restored from a backup: a worker will decide it anew
				a := a
				a.Detail = detail(r.Letter, nil)
				if err := dedupe.Record(ctx, tx, a, nil); err != nil {
					return err
				}
				r.Redrive = 1
				continue
			}
			rows, details = append(rows, r.Row), append(details, detail(r.Letter, r.Row))
		}
		if len(rows) == 0 {
			return nil
		}
		return dedupe.RedriveAll(ctx, tx, rows, a, details)
	}, func(r *Result) error {
		if r.Was == Deciding {
			return ErrBusy
		}
		_, err := r.Letter.Message(1)
		return err
	})
	if err != nil {
		return nil, err
	}
	faultpoint.Reach(faultpoint.Redriven)
	s.send(ctx, results)
	return results, nil
}

// send publishes the messages of what was made pending, and deletes the letters
// of those that are stored.
func (s Store) send(ctx context.Context, results []Result) {
	s.each(results, func(r *Result) (err error) {
		if r.Row != nil {
			r.Redrive = r.Row.Redrives
		}
		r.Seq, err = s.publish(ctx, r.Letter, r.Redrive)
		return err
	})
	// Where the copy lies tells the sweep that it is still to come, however long
	// the workers need to get there.
	sent := make(map[int64]uint64, len(results))
	var stored []uint64
	for _, r := range results {
		if !r.Done {
			continue
		}
		stored = append(stored, r.Letter.Seq)
		if r.Row != nil {
			sent[r.Row.No] = r.Seq
		}
	}
	faultpoint.Reach(faultpoint.Sent)
	err := s.sent(ctx, sent)
	if err == nil {
		err = dlq.Remove(ctx, s.JS, stored...)
	}
	if err != nil {
		s.each(results, func(*Result) error { return err })
	}
}

// each does a step for all results that came so far, some at a time.
func (s Store) each(results []Result, step func(*Result) error) {
	var group errgroup.Group
	group.SetLimit(inFlight)
	for i := range results {
		r := &results[i]
		if !r.Done {
			continue
		}
		group.Go(func() error {
			r.Err = step(r)
			r.Done = r.Err == nil
			return nil
		})
	}
	_ = group.Wait() // the errors are in the results
}

func (s Store) sent(ctx context.Context, sent map[int64]uint64) error {
	if len(sent) == 0 {
		return nil
	}
	created, err := s.incarnation(ctx)
	if err != nil {
		return err
	}
	return dedupe.Sent(ctx, s.Pool, created, sent)
}

func (s Store) publish(ctx context.Context, l *dlq.Letter, n int) (uint64, error) {
	msg, err := l.Message(n)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout) // a broker without room does not answer
	defer cancel()
	ack, err := s.JS.PublishMsg(ctx, msg)
	if err != nil {
		return 0, fmt.Errorf("publish letter %d: %w", l.Seq, err)
	}
	if ack.Duplicate {
		return 0, fmt.Errorf("publish letter %d: the broker took it for a repeat of message %d", l.Seq, ack.Sequence)
	}
	return ack.Sequence, nil
}

// move locks the rows of letters, deletes those that are stale, and lets do act
// in the same transaction on those that nothing is refused of.
func (s Store) move(ctx context.Context, list []*dlq.Letter, do func(pgx.Tx, []*Result) error, refuse func(*Result) error) ([]Result, error) {
	if len(list) > Page {
		return nil, fmt.Errorf("move letters: %d exceed a page of %d", len(list), Page)
	}
	notes, err := s.notes(ctx, list)
	if err != nil {
		return nil, err
	}
	var results []Result
	var stale []uint64
	err = postgres.Transact(ctx, s.Pool, func(tx pgx.Tx) error {
		results, stale = make([]Result, len(list)), nil // of this try
		rows, err := dedupe.LockAll(ctx, tx, keys(list))
		if err != nil {
			return err
		}
		var chosen []*Result
		var overtaken []dedupe.Superseded
		taken := make(map[dedupe.Key]bool, len(list))
		for i, l := range list {
			r := &results[i]
			r.Letter, r.Row, r.note = l, rows[KeyOf(l)], notes[i]
			r.Was = Stand(l, r.Row)
			if r.Was == Stale {
				stale = append(stale, l.Seq)
				overtaken = append(overtaken, r.note)
				continue
			}
			if r.Err = refuse(r); r.Err != nil {
				continue
			}
			if r.Row != nil && taken[r.Row.Key] {
				r.Err = ErrRepeated
				continue
			}
			taken[KeyOf(l)] = true
			r.Done = true
			chosen = append(chosen, r)
		}
		if err := supersede(ctx, tx, overtaken); err != nil {
			return err
		}
		return do(tx, chosen)
	})
	if err != nil {
		return nil, err
	}
	if err := dlq.Remove(ctx, s.JS, stale...); err != nil {
		return results, err
	}
	return results, nil
}

func supersede(ctx context.Context, tx pgx.Tx, notes []dedupe.Superseded) error {
	if len(notes) == 0 {
		return nil
	}
	return dedupe.Supersede(ctx, tx, notes)
}
