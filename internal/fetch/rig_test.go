package fetch

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/pkg/envelope"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stub stands for a provider's API.
type stub struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []*http.Request
	answer http.HandlerFunc
}

func newStub(t *testing.T, answer http.HandlerFunc) *stub {
	t.Helper()
	s := &stub{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r)
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *stub) requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// configured is a source of a provider whose API is at url.
func configured(provider, url string) config.Source {
	return config.Source{
		Name: config.Text{Value: "s"}, Provider: config.Text{Value: provider}, Mode: "live",
		Fetch: &config.Fetch{URL: config.Text{Value: url}, Token: config.NewSecret("token-1"), Timeout: 5 * time.Second},
	}
}

func newClient(t *testing.T, src config.Source) *Client {
	t.Helper()
	c, faults := New(src, 1<<20)
	require.Empty(t, faults)
	t.Cleanup(c.Close)
	return c
}

func hint(data string) *envelope.Event {
	return &envelope.Event{Source: "s", ID: envelope.GeneratedID(), Fault: "needs_fetch", Data: []byte(data)}
}

// look asks for what a hint is about.
func look(t *testing.T, c *Client, data string) ([]Fact, error) {
	t.Helper()
	h := hint(data)
	ask, err := c.Ask(h)
	if err != nil {
		return nil, err
	}
	return c.Facts(t.Context(), h, ask)
}
