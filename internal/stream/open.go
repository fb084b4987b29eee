package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/config"
)

const (
	// MinVersion is the oldest nats-server that syncs an atomic batch once
	// instead of once a message.
	MinVersion = "2.15.0"

	// reconnectWait and its jitter keep a fleet from returning in step.
	reconnectWait   = 250 * time.Millisecond
	reconnectJitter = 250 * time.Millisecond
	// pingInterval and pingsLost bound how long a dead peer looks alive: 10 s.
	pingInterval = 5 * time.Second
	pingsLost    = 2
)

// Conn is a connection to the broker that never gives up.
type Conn struct {
	// NC is the connection, JS the JetStream context on it.
	NC *nats.Conn
	JS jetstream.JetStream
}

// Open connects as name and waits, until ctx ends, for a server that is new
// enough (ErrVersion). A server that is away now is waited for, since programs
// of a stack start in any order; refused credentials are an error at once.
//
// Nothing is buffered while the server is away: a publish then fails at once,
// so that nothing is stored after its failure was reported. An outage is one
// log line at its start and one at its end.
func Open(ctx context.Context, cfg config.NATS, name string, log zerolog.Logger) (*Conn, error) {
	out := &outage{log: log}
	up, closed := make(chan struct{}, 1), make(chan struct{})
	signal := func(*nats.Conn) {
		select {
		case up <- struct{}{}:
		default:
		}
	}
	nc, err := nats.Connect(cfg.URL,
		nats.Name(name),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pingsLost),
		nats.ConnectHandler(func(nc *nats.Conn) { out.ended(nc); signal(nc) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { out.ended(nc); signal(nc) }),
		nats.DisconnectErrHandler(out.began),
		nats.ReconnectErrHandler(out.began),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { out.report(err) }),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) }),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to nats at %s: %w", redact(cfg.URL), err)
	}
	version := ""
	for version == "" { // it may be lost again before anybody looks
		if err := waitUp(ctx, nc, up, closed); err != nil {
			nc.Close()
			return nil, fmt.Errorf("connect to nats at %s: %w", redact(cfg.URL), err)
		}
		version = nc.ConnectedServerVersion()
	}
	js, err := checked(nc, version)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &Conn{NC: nc, JS: js}, nil
}

// Close closes the connection at once; whoever publishes flushes before.
func (c *Conn) Close() { c.NC.Close() }

func waitUp(ctx context.Context, nc *nats.Conn, up, closed <-chan struct{}) error {
	for !nc.IsConnected() {
		select {
		case <-up:
		case <-closed:
			return cmp.Or(nc.LastError(), nats.ErrConnectionClosed)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), nc.LastError())
		}
	}
	return nil
}

func checked(nc *nats.Conn, have string) (jetstream.JetStream, error) {
	if !newEnough(have) {
		return nil, fmt.Errorf("%w: have %s, want %s or newer; upgrade nats-server", ErrVersion, have, MinVersion)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	return js, nil
}

// newEnough compares major and minor; MinVersion's patch is 0, and a
// pre-release of a minor counts as it.
func newEnough(version string) bool {
	have, want := minor(version), minor(MinVersion)
	return have[0] > want[0] || have[0] == want[0] && have[1] >= want[1]
}

func minor(version string) [2]int {
	var out [2]int
	for i, part := range strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3) {
		if i < len(out) {
			out[i], _ = strconv.Atoi(part) // not a number: 0, which is too old
		}
	}
	return out
}

// redact cuts the credentials out of a server list, since it goes into errors.
func redact(urls string) string {
	list := strings.Split(urls, ",")
	for i, u := range list {
		if at := strings.LastIndex(u, "@"); at >= 0 {
			scheme, _, _ := strings.Cut(u, "://")
			list[i] = scheme + "://…" + u[at:]
		}
	}
	return strings.Join(list, ",")
}
