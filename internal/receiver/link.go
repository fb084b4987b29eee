package receiver

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// link follows the connection to the broker, so that what is under way fails
// with it instead of waiting for an answer that cannot come any more.
type link struct {
	nc      *nats.Conn
	observe func(any)
	changes chan nats.Status

	mu     sync.Mutex
	ctx    context.Context // ends when the connection is lost
	cancel context.CancelFunc
}

func newLink(nc *nats.Conn, observe func(any)) *link {
	l := &link{nc: nc, observe: observe, changes: nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)}
	l.follow()
	return l
}

// run follows the connection until close.
func (l *link) run() {
	for range l.changes {
		l.follow()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel()
}

// follow looks at the connection itself: statuses are dropped when many come at once.
func (l *link) follow() {
	up := l.nc.IsConnected()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ctx == nil, up && l.ctx.Err() != nil:
		l.ctx, l.cancel = context.WithCancel(context.Background())
	}
	if !up {
		l.cancel()
	}
	l.observe(linked{up})
}

func (l *link) close() { l.nc.RemoveStatusListener(l.changes) }

// context ends when the connection that is there now is lost.
func (l *link) context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx
}

// away returns errAway while there is no connection, or none that we know of yet.
func (l *link) away() error {
	if l.context().Err() != nil || !l.nc.IsConnected() {
		return errAway
	}
	return nil
}
