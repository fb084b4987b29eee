package worker

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

const alertSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// alarm is a receiver of alerts that keeps those whose signature is right, and
// refuses the first ones.
type alarm struct {
	mu     sync.Mutex
	refuse int
	ids    []string
	data   []map[string]any
}

func newAlarm(t *testing.T, s *system, refuse int) *alarm {
	t.Helper()
	source, faults := provider.New(config.Source{
		Name: config.Text{Value: "alerts"}, Provider: config.Text{Value: "standard-webhooks"}, Secrets: []config.Secret{config.NewSecret(alertSecret)},
	})
	require.Empty(t, faults)
	a := &alarm{refuse: refuse}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.refuse--; a.refuse >= 0 || source.Verify(r.Context(), provider.Post(r.Header, body), time.Now()) != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		var p struct{ Data map[string]any }
		_ = json.Unmarshal(body, &p)
		a.ids, a.data = append(a.ids, r.Header.Get("Webhook-Id")), append(a.data, p.Data)
	}))
	t.Cleanup(web.Close)
	s.env["ALERTS_URL"], s.env["ALERTS_SECRET"] = web.URL, alertSecret
	s.cat = s.load(shop)
	return a
}

func (a *alarm) seen() ([]string, []map[string]any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.ids...), append([]map[string]any(nil), a.data...)
}

func TestConflictsReachAPerson(t *testing.T) {
	s := newSystem(t, shop)
	a := newAlarm(t, s, 1)
	stop := s.start()
	s.publish(payment("evt_1", "p1", "bank", "wallet:1", 100))
	s.decided("evt_1", dedupe.Completed)
	for range 3 {
		s.publish(payment("evt_1", "p1", "bank", "wallet:1", 900))
	}
	s.publish(payment("evt_2", "p1", "bank", "wallet:1", 50)) // the same payment with another amount
	s.publish(event("evt_bad", `{"id":`))                     // no conflict
	s.eventually(func() bool { ids, _ := a.seen(); return len(ids) == 2 }, "both are told")
	s.settled()

	_, data := a.seen()
	byReason := map[any]map[string]any{}
	for _, d := range data {
		byReason[d["reason"]] = d
	}
	id := byReason["id_conflict"]
	require.Equal(t, "evt_1", id["event_id"])
	require.InDelta(t, 1, id["standing_sequence"], 0)
	require.Equal(t, []any{map[string]any{"amount": "9.00", "asset": "EUR"}}, id["transfers"])
	require.Equal(t, []any{map[string]any{"amount": "1.00", "asset": "EUR"}}, id["standing_transfers"])
	operation := byReason["operation_conflict"]
	require.Equal(t, "evt_2", operation["event_id"])
	require.Equal(t, []any{map[string]any{"amount": "0.50", "asset": "EUR"}}, operation["transfers"])
	require.NotEmpty(t, operation["hint"])
	require.Contains(t, operation["error"], "event evt_1 of shop posted 1.00 EUR")

	t.Run("a restart tells them again under the same ids", func(t *testing.T) {
		stop()
		before, _ := a.seen()
		s.start()
		s.eventually(func() bool { ids, _ := a.seen(); return len(ids) == 4 }, "they are told again")
		ids, _ := a.seen()
		require.ElementsMatch(t, before, ids[2:])
	})
}

// Nobody answers where alerts go: events are decided all the same.
func TestAlertsThatNobodyTakesHoldNothingUp(t *testing.T) {
	s := newSystem(t, shop)
	a := newAlarm(t, s, 1<<30)
	stop := s.start()
	s.publish(payment("evt_1", "p1", "bank", "wallet:1", 100))
	s.decided("evt_1", dedupe.Completed)
	s.publish(payment("evt_1", "p1", "bank", "wallet:1", 900))
	s.payments(0, 500)
	s.settled()
	require.Equal(t, 501, s.transfers())
	require.Len(t, s.letters(), 1)
	s.eventually(func() bool { return s.logged("alerts cannot be delivered") == 1 }, "it shows")
	began := time.Now()
	stop()
	require.Less(t, time.Since(began), drainLimit)
	ids, _ := a.seen()
	require.Empty(t, ids)
}
