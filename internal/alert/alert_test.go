package alert

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/pkg/dlq"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// got is one request that the receiver of alerts saw.
type got struct {
	header http.Header
	body   []byte
}

// receiver answers the i-th request, counted from 0, as answer says.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	seen []got
}

func newReceiver(t *testing.T, answer func(i int, w http.ResponseWriter, r *http.Request)) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		i := len(r.seen)
		r.seen = append(r.seen, got{req.Header, body})
		r.mu.Unlock()
		answer(i, w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) requests() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]got(nil), r.seen...)
}

// log is what a sender wrote.
type log struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is a sender that runs until the test ends.
type rig struct {
	*Sender
	t    *testing.T
	log  *log
	stop func()
}

func newRig(t *testing.T, url string, adjust ...func(*Sender)) *rig {
	t.Helper()
	r := &rig{t: t, log: &log{}}
	var err error
	r.Sender, err = New(config.Alerts{URL: config.NewSecret(url), Secret: config.NewSecret(secret), Network: "public"}, zerolog.New(r.log), prometheus.NewRegistry())
	require.NoError(t, err)
	r.first = 10 * time.Millisecond
	for _, f := range adjust {
		f(r.Sender)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceFunc(func() { cancel(); require.NoError(t, <-ended) })
	t.Cleanup(r.stop)
	return r
}

func (r *rig) count(outcome string) int {
	return int(testutil.ToFloat64(r.counts.WithLabelValues(outcome)))
}

func (r *rig) eventually(condition func() bool, what string) {
	r.t.Helper()
	require.Eventually(r.t, condition, 30*time.Second, 5*time.Millisecond, what)
}

func conflict(id string) Conflict {
	return Conflict{
		Source: "stripe", EventID: id, EventType: "charge.succeeded", Reason: dlq.IDConflict, Sequence: 7, Standing: 3,
		Transfers: []Amount{{"9.00", "EUR"}}, StandingTransfers: []Amount{{"1.00", "EUR"}}, Error: "another content", At: time.Unix(1_700_000_000, 0),
	}
}

func verifies(t *testing.T, g got) {
	t.Helper()
	source, faults := provider.New(config.Source{
		Name: config.Text{Value: "alerts"}, Provider: config.Text{Value: "standard-webhooks"}, Secrets: []config.Secret{config.NewSecret(secret)},
	})
	require.Empty(t, faults)
	require.NoError(t, source.Verify(t.Context(), provider.Post(g.header, g.body), time.Now()))
	require.Error(t, source.Verify(t.Context(), provider.Post(g.header, append(g.body, ' ')), time.Now()))
}

func ok(int, http.ResponseWriter, *http.Request) {}

func TestAlertIsASignedStandardWebhook(t *testing.T) {
	t.Parallel()
	to := newReceiver(t, ok)
	r := newRig(t, to.URL+"/hook?token=tiptop")
	c := conflict("evt_1")
	for range 3 {
		r.Send(c) // found three times, one alert
	}
	r.eventually(func() bool { return r.count("sent") == 1 }, "it is sent")
	r.Send(c)
	r.stop()
	seen := to.requests()
	require.Len(t, seen, 1)
	verifies(t, seen[0])
	require.Equal(t, c.ID(), seen[0].header.Get("Webhook-Id"))
	require.True(t, strings.HasPrefix(seen[0].header.Get("Webhook-Signature"), "v1,"))
	require.Equal(t, "application/json", seen[0].header.Get("Content-Type"))

	var body map[string]any
	require.NoError(t, json.Unmarshal(seen[0].body, &body))
	require.Equal(t, "onceledger.id_conflict", body["type"])
	data := body["data"].(map[string]any)
	require.Equal(t, "evt_1", data["event_id"])
	require.InDelta(t, 3, data["standing_sequence"], 0)
	require.Equal(t, []any{map[string]any{"amount": "9.00", "asset": "EUR"}}, data["transfers"])
	require.NotEmpty(t, data["hint"])

	other := c
	other.BodyHash[0] = 1
	require.NotEqual(t, c.ID(), other.ID(), "another body is another conflict")
}

func TestReceiverThatFailsFirst(t *testing.T) {
	t.Parallel()
	to := newReceiver(t, func(i int, w http.ResponseWriter, _ *http.Request) {
		if i < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	r := newRig(t, to.URL)
	r.Send(conflict("evt_1"))
	r.eventually(func() bool { return r.count("sent") == 1 }, "it is sent in the end")
	seen := to.requests()
	require.Len(t, seen, 4)
	for _, g := range seen {
		verifies(t, g)
		require.Equal(t, seen[0].header.Get("Webhook-Id"), g.header.Get("Webhook-Id"), "the receiver can tell that it is the same")
	}
	require.Equal(t, 1, strings.Count(r.log.String(), "cannot be delivered"))
	require.Equal(t, 1, strings.Count(r.log.String(), "delivered again"))
}

func TestOneRefusedAlertHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	to := newReceiver(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Webhook-Id") == (&Conflict{Source: "stripe", EventID: "evt_bad", Reason: dlq.IDConflict}).ID() {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	r := newRig(t, to.URL)
	r.Send(conflict("evt_bad"))
	r.eventually(func() bool { return r.count("retried") >= 2 }, "it is refused")
	r.Send(conflict("evt_good"))
	r.eventually(func() bool { return r.count("sent") == 1 }, "the other is sent")
}

func TestReceiverThatHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	to := newReceiver(t, func(i int, _ http.ResponseWriter, r *http.Request) {
		if i == 0 {
			select {
			case <-r.Context().Done():
			case <-release:
			}
		}
	})
	defer close(release)
	r := newRig(t, to.URL, func(s *Sender) { s.client.Timeout = 200 * time.Millisecond })
	r.Send(conflict("evt_1"))
	r.eventually(func() bool { return len(to.requests()) == 1 }, "it hangs")
	began := time.Now()
	for i := range 2 * maxWaiting {
		r.Send(conflict(fmt.Sprint("evt_", i)))
	}
	require.Less(t, time.Since(began), 5*time.Second, "nobody waits for it")
	require.GreaterOrEqual(t, r.count("dropped"), maxWaiting-100, "the queue is bounded, what exceeds it is counted")
	r.eventually(func() bool { return r.count("sent") > 100 }, "it goes on")
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	other := newReceiver(t, ok)
	to := newReceiver(t, func(i int, w http.ResponseWriter, r *http.Request) {
		if i == 0 {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}
	})
	r := newRig(t, to.URL)
	r.Send(conflict("evt_1"))
	r.eventually(func() bool { return r.count("sent") == 1 }, "it is sent again, to the same place")
	require.Empty(t, other.requests())
	require.Contains(t, r.log.String(), "307")
}

func TestWhatIsNotAnsweredExpires(t *testing.T) {
	t.Parallel()
	to := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	r := newRig(t, to.URL+"/tiptop", func(s *Sender) { s.age = time.Nanosecond })
	r.Send(conflict("evt_1"))
	r.eventually(func() bool { return r.count("expired") == 1 }, "it is given up")
	require.Contains(t, r.log.String(), "evt_1")
	require.NotContains(t, r.log.String(), "tiptop", "the URL may hold a token")
	require.Zero(t, r.backlog())
}

func TestStopSendsWhatWaits(t *testing.T) {
	t.Parallel()
	to := newReceiver(t, func(i int, w http.ResponseWriter, _ *http.Request) {
		if i == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	r := newRig(t, to.URL, func(s *Sender) { s.first = time.Hour })
	r.Send(conflict("evt_1"))
	r.eventually(func() bool { return r.count("retried") == 1 }, "it waits for an hour")
	r.stop()
	require.Equal(t, 1, r.count("sent"))
}

func TestAddressesThatAreNotPublicAreRefused(t *testing.T) {
	t.Parallel()
	// A name that resolves to this machine is found out when it is dialled.
	to := newReceiver(t, ok)
	r := newRig(t, to.URL, func(s *Sender) {
		s.client = newClient(config.Alerts{URL: config.NewSecret("https://looks.public"), Network: "public"})
	})
	r.Send(conflict("evt_1"))
	r.eventually(func() bool { return r.count("retried") > 0 }, "it is refused")
	require.Contains(t, r.log.String(), "not public")
	require.Empty(t, to.requests())
}

func TestWithoutAURLNothingIsSent(t *testing.T) {
	t.Parallel()
	s, err := New(config.Alerts{}, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	require.Nil(t, s)
	s.Send(conflict("evt_1"))
	require.NoError(t, s.Run(t.Context()))
}
