package worker

import (
	"context"
	"time"

	"github.com/onceledger/onceledger/internal/faultpoint"
	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
)

const (
	// parkTimeout bounds the wait for one letter's PubAck.
	parkTimeout = 5 * time.Second
	// letterDelay bounds how long an event is put off whose letter cannot be
	// stored. Its row is failed already, so that nothing hangs on it but the letter.
	letterDelay = 10 * time.Second
)

// park stores the letters of events whose failed rows are committed, records
// where they are, and only then lets the deliveries end. What does not get that
// far is put off: its row is failed without a letter, and whoever sees that
// stores it.
func (l *loop) park(ctx context.Context, items []*item) {
	var letters []dedupe.Parking
	var stored []*item
	for _, it := range items {
		l.w.alert(it)
		if !l.w.letters.takes() {
			it.wait(jitter(l.w.letterDelay))
			continue
		}
		faultpoint.Reach(faultpoint.Unlettered)
		seq, err := l.letter(ctx, it)
		l.w.letters.told(err)
		if err != nil {
			it.wait(jitter(l.w.letterDelay))
			continue
		}
		letters = append(letters, dedupe.Parking{No: it.row.No, Attempt: it.row.Attempt, Redrives: it.row.Redrives, Letter: seq})
		stored = append(stored, it)
	}
	if len(stored) == 0 {
		return
	}
	faultpoint.Reach(faultpoint.Lettered)
	err := l.retry(ctx, func(ctx context.Context) error { return dedupe.Parked(ctx, l.w.pool, letters) })
	if err != nil {
		if verdictOf(err) == unavailable {
			l.w.gate.close(err)
		}
		for _, it := range stored {
			it.fate = undecided
		}
		return
	}
	faultpoint.Reach(faultpoint.Parked)
	for _, it := range stored {
		l.w.metrics.parked.WithLabelValues(it.key.Source, it.row.Reason).Inc()
		l.logParked(it)
	}
}

func (l *loop) letter(ctx context.Context, it *item) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.w.letters.hold)
	defer cancel()
	return dlq.Park(ctx, l.w.js, dlq.Letter{
		// Two workers that see one failed row store one letter.
		Once:   it.row.LetterName(it.content.BodyHash),
		Source: it.row.Source, EventID: it.row.ID, Variant: it.row.Variant,
		Reason: dlq.Reason(it.row.Reason), Error: it.row.Error, Attempts: it.row.Attempts,
		FirstSeen: it.stored, OriginSeq: it.seq,
		Header: it.msg.Headers(), Data: it.msg.Data(),
	})
}

// answer tells the broker the fate of every delivery. An answer that is lost
// costs a redelivery, which finds the committed row.
func (l *loop) answer(items []*item) {
	for _, it := range items {
		if it.owed {
			l.w.metrics.deliveries.WithLabelValues(it.key.Source, outcomeReturned).Add(float64(1 + len(it.copies)))
			continue
		}
		if !it.stream.Equal(l.w.incarnation()) {
			continue // its stream is gone: an answer would end another event's delivery
		}
		for _, each := range append(it.copies, it) {
			outcome := it.outcome
			switch {
			case it.fate == undecided:
				outcome = outcomeReturned
			case each != it && (it.fate == acked || it.fate == parked):
				outcome = outcomeDuplicate
			}
			l.w.metrics.deliveries.WithLabelValues(it.key.Source, outcome).Inc() // who sees its end finds it counted
			if err := it.tell(each, l.w.debts.delay); err != nil {
				l.w.metrics.answersLost.Inc()
			}
		}
	}
}

// tell answers one delivery with the fate of the item it belongs to. Where there is
// none, it comes again after a delay of at most that, or a little more.
func (it *item) tell(each *item, delay time.Duration) error {
	switch it.fate {
	case acked:
		return each.msg.Ack()
	case parked:
		return each.msg.TermWithReason(it.row.Reason)
	case delayed:
		return each.msg.NakWithDelay(it.delay)
	}
	return each.msg.NakWithDelay(minDelay + jitter(delay))
}

// logParked writes a line for an event that a person has to look at; in a flood
// only some, since the dead-letter stream has them all.
func (l *loop) logParked(it *item) {
	l.w.sampled.Warn().Str(telemetry.KeySource, it.key.Source).Str(telemetry.KeyEventID, it.key.ID).
		Str(telemetry.KeyEventType, it.event.Type).Str(telemetry.KeyReason, it.row.Reason).Str("cause", it.row.Error).
		Uint64(telemetry.KeySequence, it.seq).Msg("event parked")
}
