package compensator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/devstack/stacktest"
	"github.com/onceledger/onceledger/internal/systemtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/envelope"
)

var stack *devstack.Stack

func TestMain(m *testing.M) { stacktest.Main(m, &stack, devstack.NATS, devstack.Postgres) }

// right are the rules as they should be, with nobody else to compensate; wrong
// read the amount from where it is not.
var (
	right = strings.Replace(systemtest.Right, "retry:", "keeper: {compensate: off}\nretry:", 1)
	wrong = strings.Replace(right, "amount: body.amount", "amount: body.total", 1)
)

// system is a system with the metrics of the last job.
type system struct {
	*systemtest.System
	metrics *prometheus.Registry
}

func newSystem(t *testing.T, rules string) *system {
	return &system{System: systemtest.New(t, stack, rules)}
}

// state counts the events in a state.
func (s *system) state(state dedupe.State) int {
	s.T.Helper()
	return s.Count(`SELECT count(*) FROM events WHERE state = '` + string(state) + `'`)
}

// redrives counts how often events were sent again.
func (s *system) redrives() int { s.T.Helper(); return s.Count(`SELECT sum(redrives) FROM events`) }

// exec changes rows past every guard; a duration counts as its seconds.
func (s *system) exec(statement string, arg any) {
	s.T.Helper()
	if d, ok := arg.(time.Duration); ok {
		arg = d.Seconds()
	}
	for _, table := range []string{"events", "actions"} {
		_, err := s.Pool.Exec(s.T.Context(), `ALTER TABLE `+table+` DISABLE TRIGGER USER`)
		require.NoError(s.T, err)
	}
	_, err := s.Pool.Exec(s.T.Context(), statement, arg)
	require.NoError(s.T, err)
	for _, table := range []string{"events", "actions"} {
		_, err := s.Pool.Exec(s.T.Context(), `ALTER TABLE `+table+` ENABLE ALWAYS TRIGGER `+table+`_guard`)
		require.NoError(s.T, err)
	}
}

// payment is an event of the shop of 5 cents.
func payment(id string) *envelope.Event {
	return event(id, fmt.Sprintf(`{"id":%q,"type":"paid","payment":%q,"from":"bank","to":"wallet:1","amount":5,"asset":"EUR"}`, id, id))
}

func payments(n int) []*envelope.Event {
	list := make([]*envelope.Event, n)
	for i := range list {
		list[i] = payment(fmt.Sprint("evt_", i))
	}
	return list
}

func event(id, body string) *envelope.Event {
	return &envelope.Event{Source: "shop", ID: id, Type: "paid", Time: time.Unix(1_700_000_000, 0), ContentType: "application/json", Data: []byte(body)}
}
