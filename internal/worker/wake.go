package worker

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/resend"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

const (
	// wokenQueue bounds the events that are to be tried since their parent has
	// come: as many as can wait at all.
	wokenQueue = stream.MaxAckPending
	// wokenBatch bounds those that are tried together.
	wokenBatch = 100
)

// What was done about events whose parent came, as the metrics spell it.
const (
	wokenTried = "tried"
	wokenLeft  = "left"
)

// woken is the message of an event whose parent has come, read from the stream. It
// goes the way of a delivery that came before, and answers nobody: the delivery
// that waits comes by itself and finds what became of its event.
type woken struct {
	*envelope.Stored
}

// Metadata says that there was a delivery before, which there was.
func (m *woken) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{
		Stream: stream.Events, Sequence: jetstream.SequencePair{Stream: m.Seq}, Timestamp: m.Time, NumDelivered: 2,
	}, nil
}

// Data is the stored body.
func (m *woken) Data() []byte { return m.Stored.Data }

// Headers are the stored ones.
func (m *woken) Headers() nats.Header { return m.Header }

// Subject is not asked for.
func (*woken) Subject() string { return "" }

// Reply is nowhere.
func (*woken) Reply() string { return "" }

// Ack tells nobody, as does all that follows.
func (*woken) Ack() error { return nil }

// DoubleAck tells nobody.
func (*woken) DoubleAck(context.Context) error { return nil }

// Nak tells nobody.
func (*woken) Nak() error { return nil }

// NakWithDelay tells nobody.
func (*woken) NakWithDelay(time.Duration) error { return nil }

// InProgress tells nobody.
func (*woken) InProgress() error { return nil }

// Term tells nobody.
func (*woken) Term() error { return nil }

// TermWithReason tells nobody.
func (*woken) TermWithReason(string) error { return nil }

// waitsForParent reports whether the event of row waits for its parent.
func waitsForParent(row *dedupe.Row) bool {
	return row.State == dedupe.Pending && row.Reason == string(dlq.MissingParent)
}

// awaits reports whether the item was refused for want of another operation.
func (it *item) awaits() bool { return it.posting != nil && it.posting.Awaits != "" }

// wake hands over events whose parent has come. It never waits: those for which
// there is no room are tried when their delay is over.
func (w *worker) wake(events []int64) {
	for i, no := range events {
		select {
		case w.woken <- no:
		default:
			w.left(len(events) - i)
			return
		}
	}
}

func (w *worker) left(n int) { w.metrics.woken.WithLabelValues(wokenLeft).Add(float64(n)) }

// lookForWaiting looks, behind the commit of an attempt, at events that waited for
// what it has posted.
func (l *loop) lookForWaiting(ctx context.Context, p *ledger.Posting) {
	var look pgx.Batch
	ledger.Arrived(&look, []*ledger.Posting{p}, l.w.wake)
	if look.Len() > 0 {
		_ = l.w.pool.SendBatch(ctx, &look).Close() // they come by themselves
	}
}

// runWaker tries events whose parent has come, beside the batches, until the
// returned end is called. Those that are still to be tried then come by themselves.
func (w *worker) runWaker(name string) (end func()) {
	done := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		l := &loop{w: w, name: name + "/waker"}
		for {
			select {
			case <-done:
				return
			case no := <-w.woken:
				l.tryWoken(w.work, w.gatherWoken(no))
			}
		}
	})
	return func() { close(done); working.Wait() }
}

// gatherWoken returns the first and those that are there.
func (w *worker) gatherWoken(first int64) []int64 {
	events := []int64{first}
	for len(events) < wokenBatch {
		select {
		case no := <-w.woken:
			events = append(events, no)
		default:
			return events
		}
	}
	return events
}

// tryWoken reads the messages of events that wait for their parent, which has come,
// and decides them. What it cannot read is left to the deliveries that wait.
func (l *loop) tryWoken(ctx context.Context, events []int64) {
	if l.w.waking != nil {
		l.w.waking()
	}
	msgs := l.readWoken(ctx, events)
	l.w.metrics.woken.WithLabelValues(wokenTried).Add(float64(len(msgs)))
	l.w.left(len(events) - len(msgs))
	if len(msgs) > 0 {
		l.process(ctx, msgs)
	}
}

func (l *loop) readWoken(ctx context.Context, events []int64) []delivery {
	if !l.w.gate.isOpen() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	rows, err := dedupe.Numbered(ctx, l.w.pool, events)
	if err != nil {
		if verdictOf(err) == unavailable {
			l.w.gate.close(err)
		}
		return nil
	}
	incarnation := l.w.incarnation()
	var msgs []delivery
	for _, row := range rows {
		if !waitsForParent(row) {
			continue // its delivery was faster
		}
		m, err := resend.Message(ctx, l.w.js, incarnation, row)
		if err == nil && m != nil {
			msgs = append(msgs, delivery{&woken{m}, incarnation})
		}
	}
	return msgs
}
