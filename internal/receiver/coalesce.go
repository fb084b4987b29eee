package receiver

import (
	"container/list"
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/onceledger/onceledger/pkg/envelope"
)

const (
	// coalesceEntries bounds the memory of resends: about 16 MB.
	coalesceEntries = 1 << 16
	// coalesceAge is how long a stored message answers for its resends.
	coalesceAge = 10 * time.Minute
)

// coalescer lets identical resends share one message: a storm of seventy copies
// is stored once. Only the same key and the same bytes are identical.
//
//	absent ──▶ under way ──▶ stored (≤ 10 min, this epoch) ──▶ absent
//	               └──▶ failed: everyone who joined fails too ──▶ absent
//
// It only ever saves work. A mark exists after the PubAck, never before, and
// counts only in the epoch it was made in: after a reconnect, or when the
// stream was made again, nothing is believed.
type coalescer struct {
	now   func() time.Time
	epoch func() epoch

	mu      sync.Mutex
	entries map[deliveryKey]*list.Element // of *entry
	order   *list.List                    // oldest first
}

// deliveryKey is a hash over source, event id and body.
type deliveryKey [sha256.Size]byte

type entry struct {
	key    deliveryKey
	epoch  epoch
	stored time.Time     // zero while under way
	done   chan struct{} // closed when err is set
	err    error
}

func newCoalescer(now func() time.Time, current func() epoch) *coalescer {
	return &coalescer{now: now, epoch: current, entries: map[deliveryKey]*list.Element{}, order: list.New()}
}

// keyOf returns the key under which ev's resends are identical to it. The body's
// hash stands first, so that no id can pass for the rest of another.
func keyOf(ev *envelope.Event) deliveryKey {
	body := sha256.Sum256(ev.Data)
	text := make([]byte, 0, len(body)+len(ev.Source)+1+len(ev.ID))
	text = append(text, body[:]...)
	text = append(text, ev.Source...)
	text = append(text, 0) // neither holds a NUL
	return sha256.Sum256(append(text, ev.ID...))
}

// do calls store, or waits for and shares the outcome of a call for the same
// key. ctx bounds only the waiting. joined reports that store was not called.
func (c *coalescer) do(ctx context.Context, key deliveryKey, store func() error) (joined bool, err error) {
	e, leader := c.join(key)
	if leader {
		return false, c.lead(e, store)
	}
	select {
	case <-e.done:
		return true, e.err
	case <-ctx.Done():
		return true, errAborted
	}
}

// join returns the entry that answers for key, or a new one to lead.
func (c *coalescer) join(key deliveryKey) (e *entry, leader bool) {
	current := c.epoch()
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.entries[key]; ok {
		e = el.Value.(*entry)
		if e.epoch == current && (e.stored.IsZero() || c.now().Sub(e.stored) <= coalesceAge) {
			return e, false
		}
		c.remove(el)
	}
	e = &entry{key: key, epoch: current, done: make(chan struct{}), err: errAway}
	c.entries[key] = c.order.PushBack(e)
	if c.order.Len() > coalesceEntries {
		c.remove(c.order.Front())
	}
	return e, true
}

// lead stores and tells those who joined, even if store panics.
func (c *coalescer) lead(e *entry, store func() error) error {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if el, ok := c.entries[e.key]; ok && el.Value == e && e.err != nil {
			c.remove(el)
		}
		if e.err == nil {
			e.stored = c.now()
		}
		close(e.done)
	}()
	e.err = store()
	return e.err
}

func (c *coalescer) remove(el *list.Element) {
	c.order.Remove(el)
	delete(c.entries, el.Value.(*entry).key)
}
