package growth

import "github.com/onceledger/onceledger/bench/growth/des"

// receiver answers requests by group commit: one committer, and while one
// batch commits the next gathers.
type receiver struct {
	*model
	program    *des.Program
	queue      []*request
	committing bool
}

// request is a webhook on its way; answer tells whether it was accepted.
type request struct {
	began  float64
	answer func(ok bool)
}

// take verifies a request and queues its event.
func (r *receiver) take(began float64, answer func(ok bool)) {
	r.program.Do(r.Receiver.us()*r.ReceiverBefore.Value, func() {
		if len(r.queue) >= queueMost {
			r.refused++
			answer(false)
			return
		}
		r.queue = append(r.queue, &request{began, answer})
		if !r.committing {
			r.commit()
		}
	})
}

// commit takes what has gathered; it goes on by itself until nothing has.
func (r *receiver) commit() {
	n := min(len(r.queue), batchMost)
	if n == 0 {
		r.committing = false
		return
	}
	r.committing = true
	batch := r.queue[:n:n]
	r.queue = append([]*request(nil), r.queue[n:]...)
	store := r.batch
	if n < batchFrom {
		store = r.singles
	}
	store(batch, func() {
		r.commits++
		times := make([]float64, n)
		for i, request := range batch {
			times[i] = request.began
			r.program.Do(r.Receiver.us()*(1-r.ReceiverBefore.Value), func() {
				r.answered(request.began)
				request.answer(true)
			})
		}
		r.broker.store(times)
		r.commit()
	})
}

// batch sends one atomic batch. The broker reads while the receiver sends.
func (r *receiver) batch(batch []*request, done func()) {
	ends := 2
	end := func() {
		if ends--; ends == 0 {
			done()
		}
	}
	r.program.Do(r.ReceiverBatch.us(), end)
	r.clock.After(r.hop, func() {
		n := float64(len(batch))
		r.broker.append(r.NATSBatch.us()+n*r.NATSMessage.us(), int(r.BatchSyncs.Value), n*r.StoredBytes.Value, func() {
			r.clock.After(r.hop, end)
		})
	})
}

// singles publishes one by one, a few at once.
func (r *receiver) singles(batch []*request, done func()) {
	next, left := 0, len(batch)
	var publish func()
	publish = func() {
		if next == len(batch) {
			return
		}
		next++
		r.program.Do(r.ReceiverSingle.us(), func() {
			r.clock.After(r.hop, func() {
				r.broker.append(r.NATSSingle.us(), 1, r.StoredBytes.Value, func() {
					r.clock.After(r.hop, func() {
						publish()
						if left--; left == 0 {
							done()
						}
					})
				})
			})
		})
	}
	for range inflightSingles {
		publish()
	}
}
