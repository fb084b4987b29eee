package worker

import (
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// fate is what becomes of a delivery once its event is decided.
type fate int

const (
	// undecided deliveries are given back after outageDelay: nothing is known.
	undecided fate = iota
	// acked: a terminal row is committed.
	acked
	// parked: the row is failed; its letter is to be stored, then termed.
	parked
	// delayed: the row waits, or somebody else is at it.
	delayed
	// lonely: the row decides; the event is tried in a transaction of its own.
	lonely
)

// item is one delivery on its way through a batch.
type item struct {
	msg       jetstream.Msg
	stream    time.Time // the incarnation it was delivered from
	seq       uint64
	stored    time.Time
	delivered uint64

	event   *envelope.Event
	key     dedupe.Key
	content dedupe.Content // BodyHash from the start, the rest once understood

	// woken is set for an event that waited for its parent, which has come: it is
	// read from the stream, and its delivery is answered another time.
	woken bool
	// understood is set once the rules have said what the event is: decision.
	// fault is why they could not: they panicked, or took too long.
	understood bool
	decision   rules.Decision
	fault      error
	// deadly is set where its content is not read, since workers died of that.
	deadly bool
	// passing is set where the reason that decision parks for may pass, although as
	// a rule it does not: an API may know tomorrow what it does not know today.
	passing bool
	// endAlive ends what keeps a delivery from coming again that waits in a lane.
	endAlive func()

	// row is the event's row as this delivery would have it, or has found it.
	row     *dedupe.Row
	posting *ledger.Posting
	// standing is the event that came first, where this one is a conflict.
	standing *standing
	// marked is set while row is an attempt that this delivery has begun, and
	// lease names it for whoever keeps it alive; perhaps is one whose begin was
	// sent to Postgres and not answered.
	marked  bool
	lease   atomic.Pointer[dedupe.Attempt]
	perhaps dedupe.Attempt
	// reading is a look at its content that was begun, or may have been, and has not
	// ended.
	reading atomic.Pointer[dedupe.Reading]
	// failed is how many attempts had failed before this one.
	failed int
	// copies are deliveries of the same bytes that share this one's fate.
	copies []*item

	fate  fate
	delay time.Duration
	owed  bool // undecided, and answered once its attempt is given back
	// outcome is the word the metrics use; empty means returned.
	outcome string
}

// outcomes of deliveries, as the metrics spell them.
const (
	outcomeDuplicate   = "duplicate"   // another delivery of the event was first
	outcomeRedelivered = "redelivered" // this very message was decided before
	outcomeParked      = "parked"
	outcomeWaiting     = "waiting" // refused for now, or its claim is held
	outcomeReturned    = "returned"
)

// began notes that the item's row is an attempt of its own now.
func (it *item) began() {
	it.marked = true
	it.lease.Store(&dedupe.Attempt{No: it.row.No, Number: it.row.Attempt})
}

// ended notes that it no longer is.
func (it *item) ended() {
	it.marked = false
	it.lease.Store(nil)
}

// ack settles the item as finished.
func (it *item) ack(outcome string) {
	it.fate, it.outcome = acked, outcome
}

// wait settles the item as put off.
func (it *item) wait(d time.Duration) {
	it.fate, it.delay, it.outcome = delayed, max(d, minDelay), outcomeWaiting
}

// duplicateOf settles the item against the terminal row of its event.
func (it *item) duplicateOf(row *dedupe.Row) {
	if row.Seq == it.seq && row.StreamCreated.Equal(it.row.StreamCreated) {
		it.ack(outcomeRedelivered)
		return
	}
	it.ack(outcomeDuplicate)
}

// delivery is a message with the incarnation of the stream that it is from.
type delivery struct {
	jetstream.Msg
	stream time.Time
}

// decode reads a delivery's envelope. What has none gets a key of its own, the
// same at each delivery, and is parked.
func (w *worker) decode(d delivery) (*item, error) {
	msg := d.Msg
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read message metadata: %w", err)
	}
	it := &item{msg: msg, stream: d.stream, seq: meta.Sequence.Stream, stored: meta.Timestamp, delivered: meta.NumDelivered}
	_, it.woken = msg.(*woken)
	it.event, err = envelope.Decode(msg.Headers(), msg.Data())
	if err != nil {
		key := dedupe.Unreadable(dedupe.Position{StreamCreated: it.stream, Seq: it.seq})
		it.event = &envelope.Event{Source: key.Source, ID: key.ID, Time: it.stored, Data: msg.Data()}
		it.understood, it.decision = true, unreadable(dlq.BadEnvelope, msg.Data(), err)
	}
	it.key = dedupe.Key{Source: it.event.Source, ID: it.event.ID}
	it.content = dedupe.Content{BodyHash: sha256.Sum256(msg.Data()), Fingerprint: it.decision.Fingerprint}
	it.row = &dedupe.Row{
		Key: it.key, Type: it.event.Type, Occurred: it.event.Time, Content: it.content,
		Position: dedupe.Position{StreamCreated: it.stream, Seq: it.seq},
	}
	return it, nil
}

// intend writes into the row what it will say if nothing objects.
func (it *item) intend() {
	it.posting, it.row.Attempts = nil, it.failed // a try that was rolled back may have refused it
	switch d := it.decision; {
	case d.Parked != "":
		it.row.State, it.row.Outcome = dedupe.Failed, ""
		it.row.Reason, it.row.Error = string(d.Parked), text(d.Err)
	case len(d.Transfers) == 0:
		it.row.State, it.row.Outcome = dedupe.Completed, dedupe.Ignored
		it.row.Reason, it.row.Error = string(d.Ignored), ""
	default:
		it.row.State, it.row.Outcome = dedupe.Completed, dedupe.Applied
		it.row.Reason, it.row.Error = "", ""
		it.posting = &ledger.Posting{EventNo: it.row.No, Transfers: d.Transfers}
	}
}

// giveWay writes into the row that all the money of the event is there already.
func (it *item) giveWay() {
	it.row.Outcome, it.row.Error = dedupe.DuplicateOperation, it.posting.Transfers[0].Operation
}

// text is an error's text, cleaned of what Postgres cannot store and bounded.
func text(err error) string {
	if err == nil {
		return ""
	}
	return clean(err.Error())
}

// fold attaches deliveries with equal key and equal bytes to the first of
// them. Others under the same key are left over: they are judged against what
// the first one leaves behind.
func fold(items []*item) (leaders, rest []*item) {
	first := make(map[dedupe.Key]*item, len(items))
	for _, it := range items {
		leader := first[it.key]
		switch {
		case leader == nil:
			first[it.key] = it
			leaders = append(leaders, it)
		case leader.content.BodyHash == it.content.BodyHash:
			leader.copies = append(leader.copies, it)
		default:
			rest = append(rest, it)
		}
	}
	return leaders, rest
}
