package worker

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// everyStepEnv makes the tests below stop at each answer of a service, which
// takes minutes, and not only at some of them.
const everyStepEnv = "ONCELEDGER_TEST_EVERY_STEP"

// mostSteps bounds the answers that it takes to decide what mixed publishes.
const mostSteps = 400

const stepping = shop + "\nworker: {ack_wait: 1s}\nkeeper: {interval: 24h, compensate: 'off'}"

// mixed publishes, in one batch, events that end in every way: one is applied,
// and has a copy in other bytes; one is a conflict with what stands applied;
// one is ignored; one is parked at once, and one when its budget is spent.
func (s *system) mixed(round int) {
	s.t.Helper()
	id := func(what string) string { return fmt.Sprintf("evt_%d_%s", round, what) }
	news := event(id("news"), `{"id":"news","type":"news"}`)
	news.Type = "news"
	copied := payment(id("paid"), id("paid"), "bank", "wallet:1", 1)
	copied.Data = append(copied.Data, ' ')
	var batch []*nats.Msg
	for _, e := range []*envelope.Event{
		payment(id("paid"), id("paid"), "bank", "wallet:1", 1), copied, payment("evt_stands", "stands", "bank", "wallet:1", int64(100+round)),
		news, event(id("bad"), `{"id":`), payment(id("spent"), id("spent"), "purse:"+id("spent"), "bank", 5),
	} {
		msg, err := e.Msg()
		require.NoError(s.t, err)
		batch = append(batch, msg)
	}
	_, err := jetstreamext.PublishMsgBatch(s.t.Context(), s.js, batch)
	require.NoError(s.t, err)
}

// stands applies the event that conflicts are with.
func (s *system) stands() {
	s.t.Helper()
	s.applied(payment("evt_stands", "stands", "bank", "wallet:1", 1))
}

// ended wants what mixed published in some rounds to have ended as if nothing
// had happened: one outcome or one letter each, and no attempt but those that
// failed by the event's own fault.
func (s *system) ended(rounds int) {
	s.t.Helper()
	require.Equal(s.t, 1+rounds, s.transfers())
	require.EqualValues(s.t, 1+rounds, s.balance("wallet:1"))
	require.Equal(s.t, 1+5*rounds, s.count(`SELECT count(*) FROM events`))
	require.Zero(s.t, s.count(`SELECT count(*) FROM readings`))
	for want, n := range map[string]int{
		`outcome = 'applied'`: 1 + rounds, `outcome = 'ignored'`: rounds,
		`state = 'failed' AND dlq_seq IS NOT NULL AND attempts = 0 AND reason IN ('bad_json', 'id_conflict')`: 2 * rounds,
		`state = 'failed' AND dlq_seq IS NOT NULL AND attempts = 3 AND reason = 'insufficient_funds'`:         rounds,
	} {
		require.Equal(s.t, n, s.count(`SELECT count(*) FROM events WHERE `+want), want)
	}
	letters := map[dedupe.Key]uint64{}
	require.NoError(s.t, dlq.List(s.t.Context(), s.js, dlq.Filter{}, func(l *dlq.Letter) error {
		key := dedupe.Key{Source: l.Source, ID: l.EventID, Variant: l.Variant}
		require.Zero(s.t, letters[key], "a second letter of %+v", key)
		letters[key] = l.Seq
		return nil
	}))
	require.Len(s.t, letters, 3*rounds)
	for key, seq := range letters {
		require.Equal(s.t, 1, s.count(`SELECT count(*) FROM events WHERE source = $1 AND event_id = $2 AND variant = $3 AND dlq_seq = $4`,
			key.Source, key.ID, key.Variant, int64(seq)))
	}
}

// services are what a worker cannot do without, by the variable that names it.
func (s *system) services() map[string]string {
	return map[string]string{"DATABASE_URL": s.url, "NATS_URL": stack.NATSURL}
}

// every says at which answers of a service the tests stop. The broker's are few,
// since many come in one piece.
func every(service string, some int) int {
	if service == "NATS_URL" || os.Getenv(everyStepEnv) != "" {
		return 1
	}
	return some
}

// The connection to a service is lost at one answer after another, from the
// claim to the ack: nobody knows what became of that step. The ack wait is one that
// no pause of this machine takes for a death.
func TestCutAtEachStep(t *testing.T) {
	stepping := strings.Replace(stepping, "ack_wait: 1s", "ack_wait: 4s", 1)
	for _, service := range []string{"DATABASE_URL", "NATS_URL"} {
		t.Run(service, func(t *testing.T) {
			s := newSystem(t, stepping)
			s.stands()
			cable := s.behind(service, s.services()[service], stepping)
			s.start(hasty)
			rounds := 0
			for step := 1; step < mostSteps; step += every(service, 6) {
				reached := cable.at(step, func() {})
				s.mixed(rounds)
				rounds++
				s.settled()
				s.ended(rounds)
				require.Zero(t, s.count(`SELECT count(*) FROM events WHERE crashes > 0`), "nobody died")
				if !reached() {
					break
				}
			}
			t.Logf("%d rounds", rounds)
			require.Less(t, rounds, mostSteps)
			require.GreaterOrEqual(t, rounds, 4)
		})
	}
}

// A worker is killed at one answer after another.
func TestKilledAtEachStep(t *testing.T) {
	for _, service := range []string{"DATABASE_URL", "NATS_URL"} {
		t.Run(service, func(t *testing.T) {
			s := newSystem(t, stepping)
			s.stands()
			cable := s.behind(service, s.services()[service], stepping)
			rounds := 0
			for step := 1; step < mostSteps; step += every(service, 16) {
				before := s.logged("worker started")
				child := s.child("")
				died := make(chan struct{})
				go func() { _ = child.Wait(); close(died) }()
				s.eventually(func() bool { return s.logged("worker started") > before }, "it runs")
				reached := cable.at(step, func() { _ = child.Process.Kill() })
				s.mixed(rounds)
				rounds++
				s.eventually(func() bool { return reached() || s.idle() }, "it dies or is done")
				alive := !reached()
				_ = child.Process.Kill() // it may be dead
				<-died
				stop := s.start()
				s.settled()
				stop()
				s.ended(rounds)
				if alive {
					break
				}
			}
			t.Logf("%d rounds", rounds)
			require.GreaterOrEqual(t, rounds, 4)
		})
	}
}
