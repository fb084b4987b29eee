// Package audit proves, from what is stored, that nothing was lost and no money
// moved twice.
//
// It accounts for every message of EVENTS: each is applied, ignored, a
// duplicate, parked, discarded or in flight, and what is none of these is
// unaccounted and named. It adds up the ledger: balances are the sums of their
// transfers, debits equal credits, every transfer has its operation and its
// applied event, and the other way round. It matches parked events with dead
// letters.
//
// It may run beside working receivers and workers: what moves meanwhile is never
// reported as wrong. Memory is a bit for each message, plus what it reports.
//
//	report, err := audit.Run(ctx, audit.Options{JS: js, Pool: pool, Meaning: audit.Meaning(cat)})
//	if !report.Clean { … report.Findings … }
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// DefaultGrace is how long a message may wait before nobody is expected to have
// begun with it.
const DefaultGrace = time.Minute

// Options says what to audit.
type Options struct {
	JS   jetstream.JetStream
	Pool *pgxpool.Pool
	// Meaning returns an event's fingerprint by today's rules, and their version.
	Meaning func(*envelope.Event) (fingerprint [32]byte, rules int64)
	// Grace is how old a message without an outcome may be; default DefaultGrace.
	Grace time.Duration
}

// Meaning reads events by the rules of cat, as a worker does.
func Meaning(cat *catalog.Catalog) func(*envelope.Event) ([32]byte, int64) {
	return func(e *envelope.Event) ([32]byte, int64) {
		d, version := cat.Decide(e)
		return d.Fingerprint, version
	}
}

// auditor is one run.
type auditor struct {
	Options
	report *Report
	events jetstream.Stream
	// delivered is the last message that a worker was given.
	delivered uint64
	// created is the incarnation of EVENTS, in the database's resolution, and
	// now the broker's clock at the start.
	created, now time.Time
	// owned marks the messages whose event's row names them, letters the dead
	// letters that their event's row names.
	owned, letters claims
	suspects       suspects
	// settled is the last message that an incremental run has accounted for,
	// apart from those in unsettled; both are set in a full one.
	settled   uint64
	unsettled map[uint64]bool
	// wentBack is when the stream was last found to be an older copy of itself.
	wentBack time.Time
	// step is set in an incremental run, survey in a survey.
	step   *step
	survey *survey
	// assets are those that amounts are printed in; nil knows ISO 4217.
	assets *ledger.Assets
	// unlettered are parked events without their letter.
	unlettered []*dedupe.Row
}

// Run audits everything that was stored when it began. An error means that it
// could not look, not that something is wrong: see Report.Clean.
func Run(ctx context.Context, o Options) (*Report, error) {
	began := time.Now()
	o.Grace = cmp.Or(o.Grace, DefaultGrace)
	a := &auditor{Options: o, report: &Report{Started: began.UTC(), Findings: []Finding{}}}
	books := &auditor{Options: o, report: &Report{Books: Books{Assets: []AssetTotal{}}}}
	group, both := errgroup.WithContext(ctx)
	// The order is the argument: the end of the stream and what is answered are
	// fixed first, and rows are read after the messages they must account for.
	group.Go(func() error { return inOrder(both, a.accounting()) })
	// The ledger is held against itself, which takes as long and has no part in it.
	group.Go(func() error { return inOrder(both, books.bookkeeping()) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	a.report.append(books.report)
	a.report.Seconds = time.Since(began).Seconds()
	a.report.Clean = a.report.Problems == 0
	return a.report, nil
}

// part is a part of an audit, by its name in errors.
type part struct {
	name string
	run  func(context.Context) error
}

// accounting are the parts that go from messages to rows.
func (a *auditor) accounting() []part {
	return []part{
		{"fix the end of " + stream.Events, a.fix},
		{"read the mark", a.remember},
		{"account for messages", a.messages},
		{"match dead letters", a.deadLetters},
		{"read superseded contents", a.superseded}, // a letter is noted here before it is removed
		{"look at suspects again", a.again},
		{"check the origins of events", a.rows},
		{"look at repeated claims", a.repeated},
	}
}

// bookkeeping are the parts that look at the ledger alone.
func (a *auditor) bookkeeping() []part {
	return []part{
		{"read assets", a.readAssets},
		{"check transfers", a.posting},
		{"check operations", a.operations},
		{"check refunds", a.refunds},
		{"check holds", a.holds},
		{"check balances", a.balances},
		{"check totals", a.totals},
	}
}

// inOrder runs parts one after another.
func inOrder(ctx context.Context, parts []part) error {
	for _, p := range parts {
		if err := p.run(ctx); err != nil {
			return fmt.Errorf("audit: %s: %w", p.name, err)
		}
	}
	return nil
}

// fix reads how far the workers have answered, and then where the stream ends.
// A message below the floor was answered before we look at any row.
func (a *auditor) fix(ctx context.Context) error {
	var err error
	if a.events, err = a.JS.Stream(ctx, stream.Events); err != nil {
		return err
	}
	created := a.events.CachedInfo().Created
	consumer, err := a.events.Consumer(ctx, stream.Consumer)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound): // no worker has run yet
	case err != nil:
		return err
	default:
		a.report.Stream.AckFloor = consumer.CachedInfo().AckFloor.Stream
		a.delivered = consumer.CachedInfo().Delivered.Stream
	}
	info, err := a.events.Info(ctx)
	if err != nil {
		return err
	}
	if !info.Created.Equal(created) {
		return errors.New("the stream was created again meanwhile; start over")
	}
	a.created = stream.Incarnation(created)
	a.now = info.TimeStamp
	a.report.Stream.Created = a.created
	a.report.Stream.First, a.report.Stream.Last = info.State.FirstSeq, info.State.LastSeq
	a.owned.found.base, a.owned.named.base = info.State.FirstSeq, info.State.FirstSeq
	return nil
}

// maxRepeated bounds the sequences that are kept because two rows name them.
const maxRepeated = 1000

// claims compares what rows say they came from with what was found: a sequence
// that two rows name is right for one of them at most.
type claims struct {
	found, named bitmap
	repeated     []int64
}

// check reports whether the row that names n was found to be right.
func (c *claims) check(n uint64) bool {
	if !c.found.has(n) {
		return false
	}
	if c.named.has(n) && len(c.repeated) < maxRepeated {
		c.repeated = append(c.repeated, int64(n)) //nolint:gosec // sequences stay far below 2⁶³
	}
	c.named.set(n)
	return true
}

// bitmap is a set of sequences from base on, a bit each.
type bitmap struct {
	base uint64
	bits []uint64
}

// set adds n; what is below base is not kept. n must be the sequence of
// something that exists: memory grows up to it.
func (b *bitmap) set(n uint64) {
	if n < b.base {
		return
	}
	word := (n - b.base) / 64
	for uint64(len(b.bits)) <= word {
		b.bits = append(b.bits, 0)
	}
	b.bits[word] |= 1 << ((n - b.base) % 64)
}

func (b *bitmap) has(n uint64) bool {
	if n < b.base {
		return false
	}
	word := (n - b.base) / 64
	return word < uint64(len(b.bits)) && b.bits[word]&(1<<((n-b.base)%64)) != 0
}
