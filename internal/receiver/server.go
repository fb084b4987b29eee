package receiver

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// limits bounds the phases of a connection.
type limits struct {
	header, read, write, idle, drain, linger time.Duration
}

var defaultLimits = limits{
	header: 5 * time.Second,
	read:   10 * time.Second, // header and body; a sender that needs longer has a fault
	write:  20 * time.Second, // from the end of the header: reading, storing and answering
	idle:   90 * time.Second, // longer than the proxies in front keep theirs
	drain:  15 * time.Second, // reading and storing what is under way, in all but odd cases
	linger: 2 * time.Second,  // what a sender may take to hear that it sends in vain
}

// headerBytes is the largest request header; signatures and cookies fit well within.
const headerBytes = 32 << 10

// errDraining is what readiness says while the server stops.
var errDraining = errors.New("draining: finishing what is under way")

// Server receives webhooks. It is an http.Handler; Serve runs it whole.
type Server struct {
	sources   map[string]*catalog.Source
	maxBody   int64
	bodies    *semaphore.Weighted
	publisher *publisher
	keeper    *keeper
	seen      *coalescer
	sample    *sampler
	metrics   *metrics
	log       zerolog.Logger
	limits    limits
	draining  atomic.Bool

	now     func() time.Time
	wrap    func(*envelope.Event) (*nats.Msg, error)
	observe func(any)
}

// Option changes a Server for a benchmark or a test; operators have none.
type Option func(*Server)

// WithoutGroupCommit publishes each message by itself, to show what group
// commit is worth.
func WithoutGroupCommit() Option {
	return func(s *Server) { s.publisher.each = true }
}

// NewServer returns a server that stores what it receives for cat's sources in
// the stream EVENTS, and counts in reg. Serve must be called to store anything.
func NewServer(conn *stream.Conn, cat *catalog.Catalog, reg prometheus.Registerer, log zerolog.Logger, options ...Option) *Server {
	s := &Server{
		sources: cat.Sources,
		maxBody: cat.Config.Receiver.MaxBody,
		bodies:  semaphore.NewWeighted(bodiesBytes),
		sample:  &sampler{},
		metrics: newMetrics(reg),
		log:     log,
		limits:  defaultLimits,
		now:     time.Now,
		wrap:    (*envelope.Event).Msg,
	}
	s.observe = func(what any) {
		s.metrics.observe(what)
		switch o := what.(type) {
		case delivered:
			s.report(o)
		case committed:
			s.keeper.observe(o)
		}
	}
	s.publisher = newPublisher(conn, stream.Events, func(what any) { s.observe(what) })
	s.keeper = s.newKeeper(conn, cat.Config.NATS)
	s.seen = newCoalescer(time.Now, s.publisher.epoch)
	s.metrics.watch(reg, s.publisher)
	for _, option := range options {
		option(s)
	}
	return s
}

// newKeeper looks after EVENTS.
func (s *Server) newKeeper(conn *stream.Conn, cfg config.NATS) *keeper {
	outage := func(service, lost, back string) *telemetry.Outage {
		gauge := s.metrics.away.WithLabelValues(service)
		gauge.Set(0)
		return &telemetry.Outage{Lost: lost, Back: back, Log: s.log, Gauge: gauge, Settle: keepSettle}
	}
	return &keeper{
		publisher: s.publisher,
		make: func(ctx context.Context) error {
			s.log.Error().Str(telemetry.KeyStream, stream.Events).Str(telemetry.KeyHint, "what it held and was not applied is lost, unless its senders send again").
				Msg("the stream is gone, making it again")
			return stream.Ensure(ctx, conn.JS, cfg)
		},
		away: outage("events", "storing in "+stream.Events+" is unavailable, senders are told to send again", "storing in "+stream.Events+" is back"),
		full: outage("events_full", stream.Events+" is full, senders are told to send again: see what keeps the workers from applying, or raise nats.events_max_bytes",
			stream.Events+" has room again"),
	}
}

// Serve answers on l until ctx ends, then stops in an order that loses nothing:
// readiness fails, the listener closes, requests under way finish, the queue is
// stored. What was answered with 2xx is in the stream when Serve returns.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	web := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: s.limits.header,
		ReadTimeout:       s.limits.read,
		WriteTimeout:      s.limits.write,
		IdleTimeout:       s.limits.idle,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          stdlog.New(s.log.With().Str(zerolog.LevelFieldName, zerolog.LevelErrorValue).Logger(), "", 0),
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var background errgroup.Group
	background.Go(func() error { s.keeper.run(watching); return nil })
	background.Go(func() error { s.publisher.run(); return nil })
	background.Go(func() error { s.publisher.link.run(); return nil })

	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { drained <- s.drain(context.WithoutCancel(ctx), web) })
	err := web.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	if stop() { // the listener failed by itself
		drained <- s.drain(context.WithoutCancel(ctx), web)
	}
	err = errors.Join(err, <-drained)
	stopWatching()
	s.publisher.close()
	s.publisher.link.close()
	if err := errors.Join(err, background.Wait()); err != nil {
		return fmt.Errorf("serve webhooks: %w", err)
	}
	return nil
}

func (s *Server) drain(ctx context.Context, web *http.Server) error {
	s.draining.Store(true)
	s.log.Info().Dur(telemetry.KeyDuration, s.limits.drain).Msg("draining")
	ctx, cancel := context.WithTimeout(ctx, s.limits.drain)
	defer cancel()
	if err := web.Shutdown(ctx); err != nil {
		// Whoever is cut off here was not answered, and sends again.
		return errors.Join(fmt.Errorf("finish requests under way: %w", err), web.Close())
	}
	return nil
}

// Ready reports why the server should not get requests now: it drains, the
// broker is away, or its stream is missing or full.
func (s *Server) Ready(ctx context.Context) error {
	if s.draining.Load() {
		return errDraining
	}
	if err := s.publisher.link.away(); err != nil {
		return err
	}
	events, err := s.publisher.js.Stream(ctx, s.publisher.stream)
	if err != nil {
		return fmt.Errorf("%w: look at stream %s: %w", errAway, s.publisher.stream, err)
	}
	info := events.CachedInfo()
	if limit := info.Config.MaxBytes; limit > 0 && int64(info.State.Bytes)+s.maxBody > limit {
		return errFull
	}
	return nil
}
