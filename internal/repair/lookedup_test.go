package repair_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/fetch"
	"github.com/onceledger/onceledger/internal/repair"
	"github.com/onceledger/onceledger/internal/systemtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// mollieRules read what Mollie's API tells of a payment.
var mollieRules = strings.NewReplacer(
	`event.type == "paid"`, `event.type == "payment.paid"`,
	`debit: body.from, credit: body.to, amount: body.amount, asset: body.asset`,
	`debit: '"psp"', credit: '"wallet:1"', amount: 'major(body.amount.value, "EUR")', asset: '"EUR"'`,
	`op("payment", body.payment)`, `op("payment", body.id)`,
).Replace(systemtest.Right)

// looksUp lets the rules that s has now look hints up at an API that knows tr_1.
func looksUp(t *testing.T, s *systemtest.System) (asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`{"resource":"payment","id":"tr_1","mode":"live","status":"paid","amount":{"currency":"EUR","value":"10.00"}}`))
	}))
	t.Cleanup(api.Close)
	client, faults := fetch.New(config.Source{
		Name: config.Text{Value: "shop"}, Provider: config.Text{Value: "mollie-classic"},
		Fetch: &config.Fetch{URL: config.Text{Value: api.URL}, Token: config.NewSecret("test_key"), Timeout: time.Minute},
	}, 1<<20)
	require.Empty(t, faults)
	s.Catalog.Sources["shop"].Fetch = client
	return asked
}

func notice() *envelope.Event {
	return &envelope.Event{
		Source: "shop", ID: envelope.GeneratedID(), Fault: string(dlq.NeedsFetch), Time: time.Unix(1_700_000_000, 0), Data: []byte("id=tr_1"),
	}
}

// otherwise names what today's rules would do otherwise.
func otherwise(t *testing.T, s *systemtest.System) []string {
	t.Helper()
	var list []string
	for _, d := range differences(t, s) {
		list = append(list, d.Row.ID+" "+string(d.Kind))
	}
	return list
}

// What was looked up is an event like any other: it is accounted for, compared
// with other rules, and corrected by them, without asking anybody again.
func TestWhatWasLookedUpIsRepairedAsAnyEventIs(t *testing.T) {
	s := systemtest.New(t, stack, strings.Replace(mollieRules, "wallet:1", "house", 1))
	asked := looksUp(t, s)
	first := notice()
	s.Decide(first, notice())
	s.Decide()
	require.Equal(t, dedupe.Applied, s.Row("tr_1:paid").Outcome)
	require.EqualValues(t, 1000, s.Balance("house"))
	sum := s.Clean()
	require.Equal(t, 1, sum.Applied)
	require.Equal(t, 2, sum.Ignored)
	require.Empty(t, otherwise(t, s))

	questions := asked.Load()
	s.Rules(mollieRules)
	looksUp(t, s)
	require.Equal(t, []string{"tr_1:paid would_post_differently"}, otherwise(t, s))
	require.True(t, correct(t, s, "tr_1:paid").Changed())
	require.EqualValues(t, 1000, s.Balance("wallet:1"))
	require.Zero(t, s.Balance("house"))
	require.Empty(t, otherwise(t, s))
	require.Equal(t, questions, asked.Load())
	s.Clean()

	_, err := repairer(s).Correct(t.Context(), key(first.ID), why, repair.Options{})
	require.ErrorIs(t, err, dedupe.ErrState, "a hint has posted nothing")
	again := looksUp(t, s)
	done, err := repairer(s).Reopen(t.Context(), key(first.ID), why, repair.Options{})
	require.NoError(t, err)
	require.Equal(t, dlq.Fetched, done.Decision.Ignored)
	s.Decide()
	require.EqualValues(t, 1, again.Load(), "an opened hint is looked up again")
	require.Equal(t, 2, s.Transfers()-1, "and changes nothing")
	s.Clean()
}

// A parked hint is looked up when it is sent again, once there is access.
func TestAParkedHintIsLookedUpWhenItIsSentAgain(t *testing.T) {
	s := systemtest.New(t, stack, mollieRules)
	parked := notice()
	s.Decide(parked)
	require.Equal(t, string(dlq.NeedsFetch), s.Row(parked.ID).Reason)
	require.Empty(t, otherwise(t, s))
	s.Clean()

	looksUp(t, s)
	s.Redrive(s.Stored()...)
	s.Decide()
	s.Decide()
	require.Equal(t, string(dlq.Fetched), s.Row(parked.ID).Reason)
	require.EqualValues(t, 1000, s.Balance("wallet:1"))
	require.Empty(t, s.Stored())
	s.Clean()
}
