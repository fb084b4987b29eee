package receiver

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/envelope"
)

const (
	// batchMessages is the broker's own bound of an atomic batch.
	batchMessages = 1000
	// batchBytes ends a batch early; the message that reaches it still belongs to it.
	batchBytes = 8 << 20
	// queueMessages and queueBytes bound what waits for the committer; at the
	// slowest rate we have measured, 4,000/s, a full queue is a second of work.
	queueMessages = 4096
	queueBytes    = 64 << 20
	// publishDeadline is how long a request waits for its PubAck. Senders give
	// up after 5 to 10 seconds, and a change of leader can hold a publish for 8.
	publishDeadline = 4 * time.Second
	// headerRoom is kept free below the broker's max_payload: for the headers
	// of a batch, and for what a dead letter says about the event it carries.
	headerRoom = 8 << 10
)

// publisher stores messages by group commit: one committer, and while one
// batch commits the next gathers. There is no timer; the first message of an
// idle moment goes at once.
//
//	publish ─▶ queue (bounded) ─▶ committer ─┬─ few: one by one, pipelined
//	   ▲                                     └─ else: one atomic batch (see costs)
//	   └──────────── outcome ◀── PubAck ◀────┘      rejected: one by one
//
// A message whose outcome is unknown (timeout, disconnect) counts as failed: it
// is in the stream or not, and its resend is found out downstream.
type publisher struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	stream  string
	link    *link
	observe func(any)
	each    bool // publish each message by itself, without the committer
	costs   costs

	queue  chan *pending
	queued atomic.Int64 // bytes in queue
	mu     sync.RWMutex // held for reading while a message enters the queue
	closed bool

	highest    atomic.Uint64 // the last sequence a PubAck reported
	generation atomic.Uint64 // grows when sequences go back: another stream
}

// pending is a message on its way; done is closed when seq and err are set.
type pending struct {
	msg      *nats.Msg
	size     int64
	deadline time.Time
	done     chan struct{}
	seq      uint64
	err      error
}

func (p *pending) settle(seq uint64, err error) {
	p.seq, p.err = seq, err
	close(p.done)
}

func newPublisher(conn *stream.Conn, name string, observe func(any)) *publisher {
	return &publisher{
		nc: conn.NC, js: conn.JS, stream: name, observe: observe,
		link:  newLink(conn.NC, observe),
		costs: newCosts(),
		queue: make(chan *pending, queueMessages),
	}
}

// publish returns msg's sequence once the broker has it on disk. It takes no
// context: a message may be stored after its sender went away, which is
// harmless, since the sender then sends again and that is found out downstream.
func (p *publisher) publish(msg *nats.Msg) (uint64, error) {
	if int64(envelope.EncodedSize(msg)) > p.nc.MaxPayload()-headerRoom {
		return 0, errTooLarge
	}
	if err := p.link.away(); err != nil {
		return 0, err
	}
	if p.each {
		return p.alone(msg)
	}
	item := &pending{
		msg: msg, size: int64(msg.Size()),
		deadline: time.Now().Add(publishDeadline), done: make(chan struct{}),
	}
	if err := p.enqueue(item); err != nil {
		return 0, err
	}
	timer := time.NewTimer(publishDeadline)
	defer timer.Stop()
	select {
	case <-item.done:
		return item.seq, item.err
	case <-timer.C:
		return 0, errDeadline
	}
}

func (p *publisher) enqueue(item *pending) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.closed {
		return errAway
	}
	if p.queued.Add(item.size) > queueBytes {
		p.queued.Add(-item.size)
		return errBusy
	}
	select {
	case p.queue <- item:
		return nil
	default:
		p.queued.Add(-item.size)
		return errBusy
	}
}

// run commits until close was called and the queue is empty.
func (p *publisher) run() {
	batch := make([]*pending, 0, batchMessages)
	for first := range p.queue {
		batch = p.gather(append(batch[:0], first))
		p.commit(batch)
		clear(batch) // let go of the messages
	}
}

// gather adds what has queued up meanwhile.
func (p *publisher) gather(batch []*pending) []*pending {
	size := batch[0].size
	for len(batch) < batchMessages && size < batchBytes {
		select {
		case next, ok := <-p.queue:
			if !ok {
				return batch
			}
			batch = append(batch, next)
			size += next.size
		default:
			return batch
		}
	}
	return batch
}

// close refuses new messages; run ends when those in the queue are settled.
func (p *publisher) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.queue)
	}
}

// epoch says which continuous view of which stream we have. What was stored in
// another epoch may be lost, so it is no proof that a message is there; nor is
// anything while there is no connection.
type epoch struct {
	connects, generation uint64
	connected            bool
}

func (p *publisher) epoch() epoch {
	return epoch{p.nc.Stats().Reconnects, p.generation.Load(), p.link.away() == nil}
}

// stored notes the sequences of one commit. A commit's sequences lie above all
// earlier ones, unless the stream was removed and made again.
func (p *publisher) stored(first, last uint64) {
	if first <= p.highest.Swap(last) {
		p.generation.Add(1)
	}
}

// forget starts another generation: the stream is another than before.
func (p *publisher) forget() {
	p.highest.Store(0)
	p.generation.Add(1)
}

// alone publishes one message from the caller's goroutine.
func (p *publisher) alone(msg *nats.Msg) (uint64, error) {
	ctx, cancel := context.WithTimeout(p.link.context(), publishDeadline)
	defer cancel()
	began := time.Now()
	seq, err := p.single(ctx, msg)
	p.observe(committed{size: 1, took: time.Since(began), err: err})
	return seq, err
}
