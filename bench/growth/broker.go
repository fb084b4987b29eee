package growth

import "github.com/onceledger/onceledger/bench/growth/des"

// broker is the leader of one stream and its one consumer. Whatever is appended
// goes through one goroutine, and so does what is delivered; connections and acks
// have others.
type broker struct {
	*model
	write          *des.Lock // held from the first byte of an append to its last sync
	writer, sender *des.Program
	others         *des.Program
	disk           *des.Disk
	log            *des.Log  // shared with replicas
	stored         []float64 // when the requests of stored events began
	sending        bool
	turn           int // which worker is next
}

// append makes something durable: so much CPU time, then syncs one after the
// other, all in turn. Where there are replicas, the last sync is that of the log
// which they share, and others go on meanwhile.
func (b *broker) append(work float64, syncs int, bytes float64, done func()) {
	b.write.Acquire(func() {
		b.writer.Do(work, func() {
			if b.Replicas == 3 {
				b.repeat(syncs-1, bytes/2, func() { // staged, then in the log
					b.write.Release()
					b.replicate(bytes/2, done)
				})
				return
			}
			b.repeat(syncs, bytes, func() {
				b.write.Release()
				done()
			})
		})
	})
}

// repeat syncs several times, with a part of the bytes each.
func (b *broker) repeat(syncs int, bytes float64, done func()) {
	if syncs == 0 {
		done()
		return
	}
	part := bytes / float64(syncs)
	b.disk.Sync(part, func() { b.repeat(syncs-1, bytes-part, done) })
}

// replicate ends when the leader has it in its log and one of two followers too.
// These have nothing else to do.
func (b *broker) replicate(bytes float64, done func()) {
	ends := 2
	end := func() {
		if ends--; ends == 0 {
			done()
		}
	}
	b.log.Flush(bytes, end)
	b.clock.After(2*b.Network.us()+min(b.syncTime(bytes), b.syncTime(bytes)), end)
}

// store puts events into the stream, to be delivered.
func (b *broker) store(began []float64) {
	b.stored = append(b.stored, began...)
	b.deliver()
}

// deliver hands stored events to workers in turn, as far as these asked for them.
func (b *broker) deliver() {
	if b.sending || len(b.stored) == 0 {
		return
	}
	for range b.workers {
		w := b.workers[b.turn%len(b.workers)]
		b.turn++
		n := min(len(b.stored), prefetch-w.pending, deliveries)
		if n <= 0 {
			continue
		}
		chunk := b.stored[:n:n]
		b.stored = b.stored[n:]
		w.pending += n
		b.sending = true
		turn := float64(n) * b.NATSDeliver.us() * b.NATSDeliverTurn.Value
		b.others.Do(float64(n)*b.NATSDeliver.us()-turn, func() {})
		b.sender.Do(turn, func() {
			b.sending = false
			b.clock.After(b.hop, func() { w.receive(chunk) })
			b.deliver()
		})
		return
	}
}
