package recipes

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/rules"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// scenario is what the providers of a recipe tell, and what it comes to.
type scenario struct {
	Events []told `json:"events"`
	// Balances are credits less debits in minor units, by account and asset,
	// without those that are zero, and Held the debits that are held.
	Balances map[string]map[string]int64 `json:"balances"`
	Held     map[string]map[string]int64 `json:"held"`
	// Parked are the reasons of the events that cannot be applied, by their names.
	Parked map[string]string `json:"parked"`
}

// told is one request, or what the provider's API answered.
type told struct {
	// Is says in words what it is about; each is there once.
	Is     string `json:"is"`
	Source string `json:"source"`
	// ID is the event's where it stands in no body; else Is.
	ID     string            `json:"id"`
	Header map[string]string `json:"header"`
	// Body is JSON, Form a form.
	Body json.RawMessage `json:"body"`
	Form string          `json:"form"`
	// Fetched is the type of what was looked up; then nothing is signed.
	Fetched string `json:"fetched"`
	// Nothing is set where the event is to move no money.
	Nothing bool `json:"nothing"`
	// Expired is set where the hold has no time to be captured but in its own batch.
	Expired bool `json:"expired"`
}

// event is one event of a request, decided by the recipe.
type event struct {
	name, key string
	decision  rules.Decision
}

func read(t *testing.T, name string) scenario {
	t.Helper()
	var s scenario
	in := json.NewDecoder(strings.NewReader(file(t, filepath.Join(scenariosDir, name+".json"))))
	in.DisallowUnknownFields()
	require.NoError(t, in.Decode(&s))
	if s.Parked == nil {
		s.Parked = map[string]string{}
	}
	if s.Held == nil {
		s.Held = map[string]map[string]int64{}
	}
	return s
}

// told sends every request of the scenario to its source and lets the recipe
// decide it, as the receiver and a worker do.
func (s scenario) told(t *testing.T, cat *catalog.Catalog) []event {
	t.Helper()
	senders := newSenders(t, cat)
	var events []event
	seen := map[string]bool{}
	for _, request := range s.Events {
		for _, e := range senders.send(t, request) {
			decision, _ := cat.Decide(e)
			require.False(t, seen[request.Is], "it is there once: %s", request.Is)
			require.False(t, seen[e.Source+" "+e.ID], "its event id is its own: %s", request.Is)
			seen[request.Is], seen[e.Source+" "+e.ID] = true, true
			if s.Parked[request.Is] == "" {
				require.NoError(t, decision.Err, request.Is)
			}
			require.Equal(t, request.Nothing || decision.Parked != "", len(decision.Transfers) == 0, "it moves money: %s", request.Is)
			for i := range decision.Transfers {
				if request.Expired {
					require.Equal(t, ledger.KindHold, decision.Transfers[i].Kind, request.Is)
					decision.Transfers[i].Expires = time.Microsecond
				}
			}
			events = append(events, event{request.Is, e.Source + " " + e.ID, decision})
		}
	}
	return events
}

// send returns the events of a request that its provider has signed.
func (s senders) send(t *testing.T, r told) []*envelope.Event {
	t.Helper()
	now := time.Now()
	body := []byte(r.Form)
	if len(r.Body) > 0 {
		var compact bytes.Buffer
		require.NoError(t, json.Compact(&compact, r.Body))
		body = compact.Bytes()
	}
	source := s[r.Source]
	require.NotNil(t, source, "%s: source %s", r.Is, r.Source)
	if r.Fetched != "" {
		mode := "live"
		if strings.HasPrefix(r.ID, "test") {
			mode = "test"
		}
		hint := &envelope.Event{Source: r.Source, ID: envelope.GeneratedID(), Account: "com.example.game", Mode: mode, Time: now}
		return []*envelope.Event{source.LookedUp(hint, envelope.Event{ID: r.Fetched + "/" + r.Is, Type: r.Fetched, Data: body})}
	}
	id := r.ID
	if id == "" {
		id = r.Is
	}
	request, err := source.Sign(body, strings.ReplaceAll(id, " ", "-"), now)
	require.NoError(t, err, r.Is)
	if request.Header == nil {
		request.Header = http.Header{}
	}
	for name, value := range r.Header {
		request.Header.Set(name, value)
	}
	require.NoError(t, source.Verify(t.Context(), request, now), r.Is)
	events := source.Events(request, now)
	require.Len(t, events, 1, r.Is)
	require.Empty(t, events[0].Fault, r.Is)
	return events
}

func file(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}
