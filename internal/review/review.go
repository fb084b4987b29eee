// Package review compares what is stored of events with what today's rules say
// of them, before or after the rules are changed: what they would ignore, park
// or post differently.
//
// Guarantee: each event whose own message EVENTS still has is compared once, in
// the order of the stream; nothing is changed. What leaves the stream, or is
// decided, while it runs is compared or not. Memory is bounded by a few batches.
//
//	sum, err := review.Each(ctx, review.Options{JS: js, Pool: pool, Catalog: cat, Filter: review.Filter{Source: "shop"}},
//		func(d *review.Difference) error { fmt.Println(d.Seq, d.Kind); return nil })
package review

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// Options says what is compared.
type Options struct {
	JS   jetstream.JetStream
	Pool *pgxpool.Pool
	// Catalog has the rules.
	Catalog *catalog.Catalog
	Filter  Filter
	// Progress is called now and then with how many messages of the range were
	// come to; may be nil.
	Progress func(done, total uint64)
}

// Filter selects messages; its zero value selects all.
type Filter struct {
	// Source is whole; Type is whole, or a prefix that ends in *.
	Source, Type string
	// Since and Until bound when the message was stored, From and To its
	// sequence; all inclusive, zero is open.
	Since, Until time.Time
	From, To     uint64
}

// selects reports whether the filter selects an event of this source and type.
func (f Filter) selects(source, typ string) bool {
	return (f.Source == "" || f.Source == source) && dlq.Matches(f.Type, typ)
}

// Kind says how an event differs.
type Kind string

// The kinds of differences.
const (
	// WouldPost: the event was ignored or found its money posted already, and
	// today's rules ask for transfers that are not there, or not so.
	WouldPost Kind = "would_post"
	// WouldPostDifferently: it was applied, and today's transfers are others.
	WouldPostDifferently Kind = "would_post_differently"
	// WouldIgnore: it was applied, and today's rules ask for nothing.
	WouldIgnore Kind = "would_ignore"
	// WouldPark: it is completed, and today's rules cannot decide it.
	WouldPark Kind = "would_park"
	// WouldApply: it is parked for a reason of the rules, and today's can apply
	// it: a redrive does so.
	WouldApply Kind = "would_apply"
	// WouldIgnoreParked: the same, and they ask for nothing.
	WouldIgnoreParked Kind = "would_ignore_parked"
)

// Kinds are all of them, the most urgent first.
func Kinds() []Kind {
	return []Kind{WouldPostDifferently, WouldIgnore, WouldPost, WouldPark, WouldApply, WouldIgnoreParked}
}

// Difference is an event that today's rules would treat in another way.
type Difference struct {
	Kind Kind
	// Seq is the event's own message in EVENTS, and Stored when it came.
	Seq    uint64
	Stored time.Time
	// Row is the event's row, and Decision that of today's rules.
	Row      *dedupe.Row
	Decision rules.Decision
	// Standing are the event's transfers that stand, and Changes what differs
	// from them.
	Standing []*ledger.Entry
	Changes  []Change
	// Uncorrectable is set where the event was applied and a correction is refused,
	// since it has to do with holds or running totals.
	Uncorrectable bool
	// Refused is set where the ledger would refuse the changes.
	Refused Refusal

	// posters are the rows under the event's id that have posted.
	posters []int64
}

// Change is one transfer that differs: without Was it is added, without Now it
// is removed. An operation that another event has posted with another content
// is added, and would be refused: see Refusal.
type Change struct {
	Was *ledger.Entry
	Now *ledger.Transfer
}

// Summary says what was compared.
type Summary struct {
	// First and Last bound the messages that were looked at, and Since is when
	// the first of them was stored: what is older is not compared.
	First, Last uint64
	Since       time.Time
	// Messages were looked at and selected; Compared events were compared, the
	// others are repeats, conflicts, discarded or not decided yet.
	Messages, Compared int
	// Differences is how many were found.
	Differences int
	// Outside are applied events that the filter selects and that are not
	// compared, since their message has left the stream.
	Outside int
}

// stored is a message on its way.
type stored struct {
	seq   uint64
	at    time.Time
	event *envelope.Event
}

// batch is some messages, and the last sequence that was read for them.
type batch struct {
	messages []stored
	last     uint64
}

// reviewer is one run.
type reviewer struct {
	Options
	created time.Time // in the database's resolution
	trimmed uint64    // the first message of the stream
	sum     Summary
	each    func(*Difference) error
}

// readAhead is how many batches are read while one is compared.
const readAhead = 2

// Each compares, and calls f for what differs. An error of f ends it.
func Each(ctx context.Context, o Options, f func(*Difference) error) (Summary, error) {
	r := &reviewer{Options: o, each: f}
	if err := r.fix(ctx); err != nil {
		return r.sum, fmt.Errorf("review: fix the range of %s: %w", stream.Events, err)
	}
	batches := make(chan batch, readAhead)
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(batches)
		return r.read(running, batches)
	})
	group.Go(func() error {
		for b := range batches {
			if err := r.compareAll(running, b.messages); err != nil {
				return err
			}
			if r.Progress != nil {
				r.Progress(b.last-r.sum.First+1, r.sum.Last-r.sum.First+1)
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return r.sum, fmt.Errorf("review: %w", err)
	}
	if err := r.outside(ctx); err != nil {
		return r.sum, fmt.Errorf("review: %w", err)
	}
	return r.sum, nil
}

// At compares the one event whose own message has this sequence. It returns nil where
// nothing differs, or where that message is of no event that is compared.
func At(ctx context.Context, o Options, seq uint64) (*Difference, error) {
	o.Filter = Filter{From: seq, To: seq}
	var found *Difference
	r := &reviewer{Options: o, each: func(d *Difference) error { found = d; return nil }}
	if err := r.fix(ctx); err != nil {
		return nil, fmt.Errorf("review: fix the range of %s: %w", stream.Events, err)
	}
	batches := make(chan batch, 1) // a message is one batch
	if err := r.read(ctx, batches); err != nil {
		return nil, fmt.Errorf("review: %w", err)
	}
	close(batches)
	for b := range batches {
		if err := r.compareAll(ctx, b.messages); err != nil {
			return nil, fmt.Errorf("review: %w", err)
		}
	}
	return found, nil
}
