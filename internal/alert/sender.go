package alert

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/internal/telemetry"
)

const (
	// maxWaiting bounds the conflicts that wait to be sent, and maxSent the ids
	// of sent ones that are remembered.
	maxWaiting = 1000
	maxSent    = 10_000
	// firstRetry and mostRetry bound the time between two tries of one conflict.
	firstRetry = 2 * time.Second
	mostRetry  = 10 * time.Minute
	// lastTries is how long a stop goes on sending.
	lastTries = 3 * time.Second
)

// Sender posts conflicts. A nil Sender takes all and sends none.
type Sender struct {
	url    string
	signer *provider.Source
	client *http.Client
	log    zerolog.Logger
	away   *telemetry.Outage
	counts *prometheus.CounterVec
	first  time.Duration
	age    time.Duration // how long an alert is tried

	mu      sync.Mutex
	waiting []*letter
	sent    map[string]bool
	order   []string // of sent, oldest first
	woken   chan struct{}
}

// letter is a conflict that waits to be sent.
type letter struct {
	Conflict
	id    string
	retry *backoff.ExponentialBackOff
	due   time.Time
}

// New returns a sender for cfg, or nil where it names no URL.
func New(cfg config.Alerts, log zerolog.Logger, reg prometheus.Registerer) (*Sender, error) {
	if cfg.URL.IsZero() {
		return nil, nil
	}
	signer, faults := provider.New(config.Source{
		Name: config.Text{Value: "alerts"}, Provider: config.Text{Value: "standard-webhooks"}, Secrets: []config.Secret{cfg.Secret},
	})
	if len(faults) > 0 {
		return nil, fmt.Errorf("read alerts.secret: %w", config.Faults(faults).In(""))
	}
	s := &Sender{
		url: cfg.URL.Reveal(), signer: signer, client: newClient(cfg), log: log, first: firstRetry, age: MaxAge,
		counts: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: telemetry.Namespace, Subsystem: "alerts", Name: "total",
			Help: "Alerts about conflicts: sent, retried, dropped (too many wait), expired (not answered within 24 hours)."}, []string{"outcome"}),
		sent: map[string]bool{}, woken: make(chan struct{}, 1),
	}
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: telemetry.Namespace, Subsystem: "alerts", Name: name, Help: help}
	}
	away := prometheus.NewGauge(gauge("unavailable", "1 while the receiver of alerts does not take them."))
	s.away = &telemetry.Outage{
		Lost: "alerts cannot be delivered, they are sent again for 24 hours", Back: "alerts are delivered again", Log: log, Gauge: away,
	}
	reg.MustRegister(s.counts, away, prometheus.NewGaugeFunc(gauge("waiting", "Alerts that wait to be sent."), func() float64 {
		return float64(s.backlog())
	}))
	return s, nil
}

// Send queues a conflict, unless it waits or was sent already. It never blocks;
// where too many wait, it is dropped and counted.
func (s *Sender) Send(c Conflict) {
	if s == nil {
		return
	}
	id := c.ID()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent[id] || slices.ContainsFunc(s.waiting, func(l *letter) bool { return l.id == id }) {
		return
	}
	if len(s.waiting) >= maxWaiting {
		s.counts.WithLabelValues("dropped").Inc()
		return
	}
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(s.first), backoff.WithMaxInterval(mostRetry),
		backoff.WithMaxElapsedTime(s.age))
	s.waiting = append(s.waiting, &letter{Conflict: c, id: id, retry: retry, due: time.Now()})
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends, and then tries once more what waits.
func (s *Sender) Run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	defer s.client.CloseIdleConnections()
	for {
		l, wait := s.next(time.Now())
		if l != nil && wait <= 0 {
			s.try(ctx, l)
			if ctx.Err() == nil {
				continue
			}
		}
		var due <-chan time.Time
		if l != nil {
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-s.woken:
		case <-ctx.Done():
			s.finish(context.WithoutCancel(ctx))
			return nil
		}
	}
}

// finish tries each waiting conflict once, for a moment. What is left is
// recalled by whoever starts next.
func (s *Sender) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastTries)
	defer cancel()
	s.mu.Lock()
	waiting := slices.Clone(s.waiting)
	s.mu.Unlock()
	for _, l := range waiting {
		if ctx.Err() == nil {
			s.try(ctx, l)
		}
	}
	if left := s.backlog(); left > 0 {
		s.log.Warn().Int(telemetry.KeyCount, left).Msg("alerts are not delivered yet, the next start sends them")
	}
}

// next returns the conflict that is due first, and how long it has to wait.
func (s *Sender) next(now time.Time) (*letter, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return nil, 0
	}
	l := slices.MinFunc(s.waiting, func(a, b *letter) int { return a.due.Compare(b.due) })
	return l, l.due.Sub(now)
}

// try sends a conflict once. What it comes to is counted last: who sees that finds
// the rest done.
func (s *Sender) try(ctx context.Context, l *letter) {
	err := s.post(ctx, l)
	if err == nil {
		s.away.Up()
		s.remove(l)
		s.counts.WithLabelValues("sent").Inc()
		return
	}
	if ctx.Err() != nil {
		return // a stop, not a refusal
	}
	s.away.Down(err)
	wait := l.retry.NextBackOff()
	if wait == backoff.Stop {
		s.log.Error().Err(err).Str(telemetry.KeySource, l.Source).Str(telemetry.KeyEventID, l.EventID).Str(telemetry.KeyReason, string(l.Reason)).
			Msg("nobody took the alert about this conflict")
		s.remove(l)
		s.counts.WithLabelValues("expired").Inc()
		return
	}
	s.mu.Lock()
	l.due = time.Now().Add(wait)
	s.mu.Unlock()
	s.counts.WithLabelValues("retried").Inc()
}

// remove takes a conflict out of the queue for good.
func (s *Sender) remove(l *letter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(o *letter) bool { return o == l })
	s.sent[l.id], s.order = true, append(s.order, l.id)
	if len(s.order) > maxSent {
		delete(s.sent, s.order[0])
		s.order = s.order[1:]
	}
}

func (s *Sender) backlog() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}
