package traffic

import (
	"container/heap"
	"math/rand/v2"
	"sync"
)

// Stream is an endless sequence of deliveries: resends among them at once, soon
// and much later, and out of order. The same seed writes the same events and,
// unless Deadly ones are added at other moments, in the same order.
type Stream struct {
	// Events is what was written so far; read it when the run is over.
	Events []*Event
	Purses []*Purse

	mu       sync.Mutex
	rng      *rand.Rand
	late     int // how many deliveries later the last resends come
	ids      int
	position int
	due      queue
	finished bool
	weights  int
	deadly   int
}

// New returns the stream of a seed. rate is the planned number of deliveries per
// second; the latest resends come about 20 seconds after their event.
func New(seed uint64, rate int) *Stream {
	s := &Stream{rng: rand.New(rand.NewPCG(seed, 0x7072_6f76)), late: 20 * rate} //nolint:gosec // a plan is no secret
	for _, each := range shares {
		s.weights += each.weight
	}
	return s
}

// Next returns the next delivery; ok is false once the stream is finished and
// nothing is left. It may be called by many.
func (s *Stream) Next() (d Delivery, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.finished && (len(s.due) == 0 || s.due[0].at > s.position) {
		s.write()
	}
	if len(s.due) == 0 {
		return Delivery{}, false
	}
	s.position++
	return heap.Pop(&s.due).(due).Delivery, true
}

// replayed is how many events are sent once more at the end, from all of the run:
// later than any memory of them but the database's.
const replayed = 2000

// Finish ends the writing of events. What they owe is still delivered, and some of
// them are sent once more.
func (s *Stream) Finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	for range min(replayed, len(s.Events)/10) {
		e := s.Events[s.rng.IntN(len(s.Events))]
		if !e.Deadly {
			s.deliver(s.later(replayed), Delivery{Event: e, Content: s.rng.IntN(len(e.Contents))})
		}
	}
}

// write adds the events of one draw.
func (s *Stream) write() {
	n := s.rng.IntN(s.weights)
	for _, each := range shares {
		if n -= each.weight; n < 0 {
			each.write(s)
			return
		}
	}
}

// later is a random number of deliveries, at most n.
func (s *Stream) later(n int) int { return s.rng.IntN(n) }

// emit plans every delivery of e, the first of them after this many others.
func (s *Stream) emit(after int, e *Event) {
	s.Events = append(s.Events, e)
	if p := e.Purse; p != nil && len(p.Spends) == 1 {
		s.Purses = append(s.Purses, p)
	}
	for content := range e.Contents {
		s.deliver(after, Delivery{Event: e, Content: content})
	}
	for range s.resends() {
		d := Delivery{Event: e, Content: s.rng.IntN(len(e.Contents))}
		if s.rng.IntN(2) == 0 && !e.Keyless {
			d.Form = s.rng.IntN(Forms)
		}
		switch s.rng.IntN(4) {
		case 0, 1: // at once, beside the first
			s.deliver(after, d)
		case 2:
			s.deliver(after+s.later(300), d)
		default:
			s.deliver(after+s.later(s.late), d)
		}
	}
}

// resends is how often an event comes again: mostly not at all, now and then in
// a storm.
func (s *Stream) resends() int {
	switch n := s.rng.IntN(1000); {
	case n < 350:
		return 0
	case n < 650:
		return 1
	case n < 990:
		return 2 + s.rng.IntN(3)
	}
	return 10 + s.rng.IntN(30)
}

func (s *Stream) deliver(after int, d Delivery) {
	d.Impatient = s.rng.IntN(10) == 0
	heap.Push(&s.due, due{d, s.position + after, s.ids*64 + len(s.due)})
}

// due is a delivery with the position it is to come at; order breaks ties.
type due struct {
	Delivery
	at, order int
}

type queue []due

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push and Pop are what container/heap wants.
func (q *queue) Push(x any) { *q = append(*q, x.(due)) }

// Pop returns the last one, where the heap has put the first.
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}
