package worker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// parkFirst lets a worker with a wrong rule park events.
func (s *system) parkFirst(yaml string, events ...*envelope.Event) {
	s.t.Helper()
	s.cat = s.load(strings.Replace(yaml, "amount: body.amount", "amount: body.total", 1))
	stop := s.start()
	s.publish(events...)
	s.settled()
	stop()
	require.Len(s.t, s.letters(), len(events))
	s.cat = s.load(yaml)
}

var ada = dedupe.Action{Actor: "ada", Verb: dedupe.VerbRedrive, Note: "the rule is corrected"}

// redriveAll sends every parked event again.
func (s *system) redriveAll() {
	s.t.Helper()
	store := letters.Store{Pool: s.pool, JS: s.js}
	for page := range slices.Chunk(s.letters(), letters.Page) {
		results, err := store.Redrive(s.t.Context(), page, ada, nil)
		require.NoError(s.t, err)
		for _, r := range results {
			require.True(s.t, r.Done, r.Err)
		}
	}
}

// oneBatch lets a worker take n deliveries as one batch.
func (s *system) oneBatch(n int) {
	s.t.Helper()
	w := newWorker(s.cat, s.log, Tuning{})
	require.NoError(s.t, w.open(s.t.Context()))
	defer w.close()
	w.work = s.t.Context()
	consumer, err := stream.WorkerConsumer(s.t.Context(), s.js, s.cat.Config.Worker.AckWait)
	require.NoError(s.t, err)
	var taken []delivery
	for len(taken) < n {
		batch, err := consumer.Fetch(n - len(taken))
		require.NoError(s.t, err)
		for msg := range batch.Messages() {
			taken = append(taken, delivery{msg, w.incarnation()})
		}
	}
	(&loop{w: w, name: "one"}).process(s.t.Context(), taken)
}

func payments(n int) []*envelope.Event {
	events := make([]*envelope.Event, n)
	for i := range events {
		id := fmt.Sprintf("evt_%04d", i)
		events[i] = payment(id, "p_"+id, "bank", "wallet:1", 1)
	}
	return events
}

func TestRedrivenEventsGoInBatches(t *testing.T) {
	s := newSystem(t, shop)
	const n = 300
	s.parkFirst(shop, payments(n)...)
	s.redriveAll()
	s.start(func(w *worker) { w.tuning = Tuning{Batch: 100, Linger: time.Second} })
	s.settled()
	require.Equal(t, n, s.transfers())
	// Rows that one transaction wrote share its number.
	require.Less(t, s.count(`SELECT count(DISTINCT xmin::text) FROM events`), n/5)
	s.free()
}

// What is odd among them goes its own way, and harms no neighbour.
func TestOddOnesAmongRedrivenEvents(t *testing.T) {
	s := newSystem(t, shop)
	const most = 9_223_372_036_854_775_807
	events := payments(100)
	events[20] = payment("evt_over", "p_over", "till", "wallet:big", 1) // fails in Postgres
	events[30] = payment("evt_poor", "p_poor", "purse:1", "bank", 5)
	events[40] = event("evt_text", `{"id":"evt_text","type":"paid","payment":"p","from":"bank","to":"wallet:1","amount":"1,5","asset":"EUR"}`)
	events[50] = payment("evt_same", "p_"+events[0].ID, "bank", "wallet:1", 1)
	s.parkFirst(shop, events...)
	s.redriveAll()
	resend := payment(events[60].ID, "p_"+events[60].ID, "bank", "wallet:1", 1)
	resend.Data = []byte(strings.Replace(string(resend.Data), "{", `{"retry":1,`, 1))
	other := payment(events[70].ID, "p_"+events[70].ID, "bank", "wallet:1", 2) // another amount
	s.publish(events[80], resend, other, payment("evt_big", "p_big", "vault", "wallet:big", most))
	s.oneBatch(104)
	s.start() // for what waits
	s.settled()

	require.EqualValues(t, 96, s.balance("wallet:1"))
	require.EqualValues(t, int64(most), s.balance("wallet:big"))
	require.Equal(t, string(dlq.AmountOverflow), s.row("evt_over").Reason)
	poor := s.row("evt_poor")
	require.Equal(t, []any{string(dlq.InsufficientFunds), 3}, []any{poor.Reason, poor.Attempts}, "its budget is a fresh one")
	require.Equal(t, string(dlq.AmountFormat), s.row("evt_text").Reason)
	require.ElementsMatch(t, []dedupe.Outcome{dedupe.Applied, dedupe.DuplicateOperation},
		[]dedupe.Outcome{s.row(events[0].ID).Outcome, s.row("evt_same").Outcome}, "one payment, whichever was sent again first")
	reasons := map[dlq.Reason]int{}
	for _, l := range s.letters() {
		reasons[l.Reason]++
	}
	require.Equal(t, map[dlq.Reason]int{dlq.AmountOverflow: 1, dlq.InsufficientFunds: 1, dlq.AmountFormat: 1, dlq.IDConflict: 1}, reasons)
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0 AND state = 'completed'`))
}

// A redriven event kills the worker that has it in its batch. Its row says that
// an attempt had begun, whatever the broker counts: it goes alone from then on.
func TestRedrivenEventThatKillsWorkers(t *testing.T) {
	yaml := shop + "\nworker: {ack_wait: 1s}"
	s := newSystem(t, yaml)
	events := append(payments(20), payment("evt_killer", "p_killer", "bank", "wallet:1", 1))
	s.parkFirst(yaml, events...)
	s.redriveAll()
	deaths := 0
	for s.row("evt_killer").State != dedupe.Failed {
		deaths += s.killedWorker(func() bool { return s.row("evt_killer").State == dedupe.Failed })
	}
	row := s.row("evt_killer")
	require.Equal(t, string(dlq.CrashBudget), row.Reason)
	require.Equal(t, crashBudget, row.Crashes)
	require.Equal(t, crashBudget, deaths)
	require.EqualValues(t, 20, s.balance("wallet:1"), "its neighbours complete")
}

// The answer to the begin of their attempts is lost, and the connection between
// the two round trips: it costs no event an attempt or a crash.
func TestOutagesOfRedrivenEvents(t *testing.T) {
	yaml := shop + "\nworker: {ack_wait: 5s}"
	s := newSystem(t, yaml)
	const n = 200
	s.parkFirst(yaml, payments(n)...)
	s.redriveAll()
	cable := s.behind("DATABASE_URL", s.url, yaml)
	left := cable.loseAnswers(3, "UPDATE 20\x00")
	var cuts atomic.Int64
	s.start(func(w *worker) {
		w.tuning = Tuning{Batch: 20, Linger: time.Second} // full ones
		w.between = func() {
			if cuts.Add(1) <= 3 {
				cable.cut()
				time.AfterFunc(100*time.Millisecond, cable.mend)
			}
		}
	})
	s.eventually(func() bool { return left() == 0 && cuts.Load() > 3 }, "answers and connections are lost")
	s.settled()
	require.Equal(t, n, s.transfers())
	s.free()
}

// Two operators redrive the same letters from both ends, providers send the
// events again, and two workers decide them: nobody waits in a circle.
func TestOverlappingRedrivesAndResends(t *testing.T) {
	s := newSystem(t, shop)
	const n = 400
	events := payments(n)
	s.parkFirst(shop, events...)
	deadlocks := func() int {
		return s.count(`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
	}
	before := deadlocks()
	var stops []func()
	for range 2 {
		stops = append(stops, s.start(func(w *worker) { w.tuning.Batch = 50 }))
	}
	pool, err := postgres.Open(t.Context(), s.url, postgres.Owner)
	require.NoError(t, err)
	store := letters.Store{Pool: pool, JS: s.js}
	parked := s.letters()
	var group errgroup.Group
	for operator := range 3 {
		list := slices.Clone(parked)
		switch operator {
		case 1:
			slices.Reverse(list)
		case 2:
			rand.Shuffle(n, func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
		group.Go(func() error {
			for page := range slices.Chunk(list, letters.Page) {
				results, err := store.Redrive(t.Context(), page, ada, nil)
				if err != nil {
					return err
				}
				for _, r := range results {
					if r.Err != nil && !errors.Is(r.Err, letters.ErrBusy) {
						return r.Err
					}
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		for _, i := range rand.Perm(n) {
			msg, err := events[i].Msg()
			if err != nil {
				return err
			}
			if _, err := s.js.PublishMsg(t.Context(), msg); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, group.Wait())
	s.eventually(func() bool { return s.count(`SELECT count(*) FROM events WHERE state <> 'completed'`) == 0 }, "all are decided")
	s.settled()
	require.Equal(t, n, s.transfers())
	require.EqualValues(t, n, s.balance("wallet:1"))
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0 OR crashes > 0`))
	for _, stop := range stops {
		stop()
	}
	pool.Close() // sessions report what happened to them when they end
	require.Equal(t, before, deadlocks())
}
