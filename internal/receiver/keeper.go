package receiver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/onceledger/onceledger/internal/telemetry"
)

const (
	// keepEvery is how often the stream is looked at.
	keepEvery = time.Second
	// keepTimeout bounds one look, and the making of the stream anew.
	keepTimeout = 5 * time.Second
	// keepSettle is how long the stream must do well before it counts as back. A
	// broker whose disk is full shows its stream and stores nothing: between two
	// publishes that it does not answer there must not be two lines.
	keepSettle = 15 * time.Second
)

// keeper looks after the stream while the receiver runs. One that was removed,
// or lost with its server's disk, is made again, so that senders are heard
// again within seconds; one that is another than before proves nothing about
// what was stored earlier.
type keeper struct {
	publisher *publisher
	make      func(context.Context) error // nil: the stream is somebody else's
	away      *telemetry.Outage
	full      *telemetry.Outage

	created time.Time
	// mute is a publish that nobody answered, and no other since that was: a
	// server that has lost its peers goes on to show the stream for long.
	mute atomic.Bool
}

// run looks until ctx ends.
func (k *keeper) run(ctx context.Context) {
	defer k.away.Close()
	defer k.full.Close()
	stop := k.heed()
	defer stop()
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		if k.publisher.link.away() == nil { // an outage of its own
			if err := k.look(ctx); ctx.Err() == nil {
				k.tell(err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// heed lets the broker tell at once that the stream is removed, where this
// account may hear it; until the next look, resends would be taken for stored.
func (k *keeper) heed() (stop func()) {
	sub, err := k.publisher.nc.Subscribe("$JS.EVENT.ADVISORY.STREAM.DELETED."+k.publisher.stream, func(*nats.Msg) { k.publisher.forget() })
	if err != nil {
		return func() {}
	}
	return func() { _ = sub.Unsubscribe() } // the connection may be closed, which does the same
}

func (k *keeper) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	s, err := k.publisher.js.Stream(ctx, k.publisher.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) && k.make != nil {
		k.away.Down(err)
		if err := k.make(ctx); err != nil {
			return err
		}
		s, err = k.publisher.js.Stream(ctx, k.publisher.stream)
	}
	if err != nil {
		return fmt.Errorf("look at stream %s: %w", k.publisher.stream, err)
	}
	if created := s.CachedInfo().Created; !created.Equal(k.created) {
		if !k.created.IsZero() {
			k.publisher.forget()
		}
		k.created = created
	}
	return nil
}

func (k *keeper) tell(err error) {
	if err != nil {
		k.away.Down(err)
		return
	}
	if !k.mute.Load() {
		k.away.Up()
	}
}

// observe notes what commits came to. While there is no connection, that is an
// outage of its own, with lines of its own.
func (k *keeper) observe(c committed) {
	switch {
	case c.err == nil:
		k.mute.Store(false) // the next look says so
		k.full.Up()
	case errors.Is(c.err, errFull):
		k.full.Down(c.err)
	case errors.Is(c.err, errDeadline) && k.publisher.link.away() == nil:
		k.mute.Store(true)
		k.away.Down(c.err)
	}
}
