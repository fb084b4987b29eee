package growth

import "github.com/onceledger/onceledger/bench/growth/des"

// worker turns deliveries into batches, two at a time.
type worker struct {
	*model
	program   *des.Program
	pending   int // asked for and not yet in a batch
	buffer    []float64
	gathering []*loop
}

// loop is one batch at a time, on a connection of its own.
type loop struct {
	*worker
	backend *des.Program
	batch   []float64
	round   int // which batch, so that an old timer does not end a new one
}

// receive shares deliveries among the loops that gather.
func (w *worker) receive(chunk []float64) {
	w.buffer = append(w.buffer, chunk...)
	w.fill()
}

func (w *worker) fill() {
	for len(w.buffer) > 0 && len(w.gathering) > 0 {
		ready := append([]*loop(nil), w.gathering...)
		share := (len(w.buffer) + len(ready) - 1) / len(ready)
		for _, l := range ready {
			n := min(share, len(w.buffer), workerBatch-len(l.batch))
			if n > 0 {
				l.add(w.buffer[:n])
				w.buffer = w.buffer[n:]
			}
		}
	}
}

// add puts deliveries into the batch; the first one starts its clock.
func (l *loop) add(chunk []float64) {
	first := len(l.batch) == 0
	l.batch = append(l.batch, chunk...)
	if len(l.batch) == workerBatch {
		l.begin()
		return
	}
	if first {
		round := l.round
		l.clock.After(linger, func() {
			if l.round == round {
				l.begin()
			}
		})
	}
}

// begin takes the batch through decoding, Redis and Postgres, then gathers again.
func (l *loop) begin() {
	l.round++
	for i, other := range l.worker.gathering {
		if other == l {
			l.worker.gathering = append(l.worker.gathering[:i], l.worker.gathering[i+1:]...)
			break
		}
	}
	batch, began := l.batch, l.clock.Now()
	l.batch = nil
	l.pending -= len(batch)
	l.broker.deliver()
	n := float64(len(batch))
	work := n*l.Worker.us() + l.WorkerBatch.us()
	l.program.Do(work*l.WorkerBefore.Value, func() {
		l.claim(n, func() {
			decide := func(decided func()) { l.program.Do(work*l.WorkerBetween.Value, decided) }
			l.database.transact(l, n, decide, func() {
				l.posted(batch)
				l.looping += l.clock.Now() - began
				l.program.Do(work*(1-l.WorkerBefore.Value-l.WorkerBetween.Value), func() {
					l.worker.gathering = append(l.worker.gathering, l)
					l.worker.fill()
				})
			})
		})
	})
}

// claim asks Redis, one round trip for the batch.
func (l *loop) claim(n float64, done func()) {
	l.clock.After(l.hop, func() {
		l.database.redis.Do(n*l.Redis.us(), func() { l.clock.After(l.hop, done) })
	})
}
