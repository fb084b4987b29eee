package receiver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/envelope"
)

var shared *devstack.Stack

func TestMain(m *testing.M) { stacktest.Main(m, &shared, devstack.NATS) }

const secret = "whsec_of_the_receiver_tests"

// patience is how long a test waits for what must happen, on a busy machine, too.
const patience = time.Minute

// rig is a receiver in this process on a real broker. Its source and its
// stream are its own, so that rigs share a broker.
type rig struct {
	t      testing.TB
	name   string // of the source
	yaml   string // of the source
	url    string // of its webhooks
	conn   *stream.Conn
	cat    *catalog.Catalog
	server *Server
	log    *lines
	client *http.Client
	stop   func() error // drains, once

	mu       sync.Mutex
	watchers []func(any)
}

var rigs atomic.Int64

// newRig starts a receiver on the shared broker.
func newRig(t testing.TB, options ...Option) *rig { return newRigOn(t, shared.Addresses, options...) }

func newRigOn(t testing.TB, at devstack.Addresses, options ...Option) *rig {
	t.Helper()
	return newRigFor(t, at, fmt.Sprintf("{provider: stripe, secrets: [%q]}", secret), options...)
}

// newRigFor starts a receiver of one source, as it is written in YAML.
func newRigFor(t testing.TB, at devstack.Addresses, yaml string, options ...Option) *rig {
	t.Helper()
	r := &rig{t: t, name: fmt.Sprintf("source%d", rigs.Add(1)), yaml: yaml, log: &lines{}}
	r.cat = r.load(at)
	var err error
	r.conn, err = stream.Open(t.Context(), r.cat.Config.NATS, r.name, zerolog.Nop())
	require.NoError(t, err)
	r.create(1 << 30)

	own := func(s *Server) {
		s.publisher.stream = r.streamName()
		s.keeper.make = nil
		inner := s.observe
		s.observe = func(what any) { inner(what); r.notify(what) }
	}
	r.server = NewServer(r.conn, r.cat, prometheus.NewRegistry(), zerolog.New(r.log), append([]Option{own}, options...)...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.url = "http://" + l.Addr().String() + "/webhooks/" + r.name
	r.client = &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 512},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("redirected") },
	}

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.server.Serve(ctx, l) }()
	r.stop = sync.OnceValue(func() error {
		r.client.CloseIdleConnections()
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		require.NoError(t, r.stop())
		r.conn.Close()
	})
	return r
}

// load writes and loads a configuration with the one source.
func (r *rig) load(at devstack.Addresses) *catalog.Catalog {
	r.t.Helper()
	text := fmt.Sprintf(`
nats:
  url: %q
  monitor_url: %q
  events_max_bytes: 1GiB
  dlq_max_bytes: 1GiB
receiver:
  listen: 127.0.0.1:0
  admin: 127.0.0.1:0
sources:
  %s: %s
`, at.NATSURL, at.NATSMonitorURL, r.name, r.yaml)
	path := filepath.Join(r.t.TempDir(), "onceledger.yaml")
	require.NoError(r.t, os.WriteFile(path, []byte(text), 0o600))
	cat, err := catalog.Load(path, func(string) (string, bool) { return "", false })
	require.NoError(r.t, err)
	return cat
}

func (r *rig) streamName() string { return "T_" + r.name }

// create makes the rig's stream as onceledger makes EVENTS.
func (r *rig) create(maxBytes int64) {
	r.t.Helper()
	cfg, _ := stream.Settings(config.NATS{EventsMaxBytes: maxBytes})
	cfg.Name, cfg.Subjects = r.streamName(), []string{"events." + r.name + ".>"}
	_, err := r.conn.JS.CreateOrUpdateStream(context.WithoutCancel(r.t.Context()), cfg)
	require.NoError(r.t, err)
}

func (r *rig) remove() {
	r.t.Helper()
	require.NoError(r.t, r.conn.JS.DeleteStream(r.t.Context(), r.streamName()))
}

func (r *rig) notify(what any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.watchers {
		w(what)
	}
}

// watch returns a channel of what pick wants to see of the observations.
func (r *rig) watch(pick func(any) bool) <-chan any {
	c := make(chan any, 1024)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers = append(r.watchers, func(what any) {
		if pick(what) {
			select {
			case c <- what:
			default: // nobody counts that far
			}
		}
	})
	return c
}

// request returns a correctly signed request for body.
func (r *rig) request(body string) *http.Request {
	signed, err := r.cat.Sources[r.name].Sign([]byte(body), "", time.Now())
	require.NoError(r.t, err)
	req, err := http.NewRequestWithContext(r.t.Context(), signed.Method, r.url+"?"+signed.Query, bytes.NewReader(signed.Body))
	require.NoError(r.t, err)
	req.Header = signed.Header
	return req
}

// reply is what a sender sees.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r *rig) do(req *http.Request) (reply, error) {
	res, err := r.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(text)}, err
}

func (r *rig) must(req *http.Request) reply {
	r.t.Helper()
	got, err := r.do(req)
	require.NoError(r.t, err)
	return got
}

// send signs and sends body and returns the status.
func (r *rig) send(body string) int {
	r.t.Helper()
	return r.must(r.request(body)).status
}

// stored returns the events of the stream in order.
func (r *rig) stored() []*envelope.Event {
	r.t.Helper()
	ctx := context.WithoutCancel(r.t.Context())
	s, err := r.conn.JS.Stream(ctx, r.streamName())
	require.NoError(r.t, err)
	info := s.CachedInfo().State
	var events []*envelope.Event
	for seq := info.FirstSeq; seq <= info.LastSeq && info.Msgs > 0; seq++ {
		msg, err := s.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		require.NoError(r.t, err)
		event, err := envelope.Decode(msg.Header, msg.Data)
		require.NoError(r.t, err)
		events = append(events, event)
	}
	return events
}

// ids counts the stored events by id.
func (r *rig) ids() map[string]int {
	counts := map[string]int{}
	for _, event := range r.stored() {
		counts[event.ID]++
	}
	return counts
}

// stripe is a Stripe event of about the usual size.
func stripe(id string) string { return stripeAmount(id, 1000) }

func stripeAmount(id string, amount int) string {
	return fmt.Sprintf(`{"id":%q,"object":"event","livemode":true,"created":1700000000,"type":"charge.succeeded",`+
		`"data":{"object":{"id":"ch_%s","amount":%d,"currency":"eur","customer":"cus_1"}}}`, id, id, amount)
}

// lines is a log that a test reads while others write.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
