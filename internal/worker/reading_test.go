package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/letters"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// respelled is an event whose meaning is e's and whose bytes are not.
func respelled(e *envelope.Event) *envelope.Event {
	other := *e
	other.Data = append(bytes.Clone(e.Data), ' ')
	return &other
}

// applied lets a worker apply an event, and stops it.
func (s *system) applied(e *envelope.Event) {
	s.t.Helper()
	stop := s.start()
	s.publish(e)
	s.decided(e.ID, dedupe.Completed)
	s.settled()
	stop()
}

// givenBack lets all that is stored and not answered come back once, as outages do:
// n deliveries.
func (s *system) givenBack(n int) {
	s.t.Helper()
	consumer, err := stream.WorkerConsumer(s.t.Context(), s.js, s.cat.Config.Worker.AckWait)
	require.NoError(s.t, err)
	batch, err := consumer.Fetch(n)
	require.NoError(s.t, err)
	for msg := range batch.Messages() {
		require.NoError(s.t, msg.Nak())
		n--
	}
	require.Zero(s.t, n)
}

// An outage gives a delivery back as often as it likes: a resend in another
// spelling stays a resend.
func TestOutagesMakeNoConflict(t *testing.T) {
	s := newSystem(t, shop)
	e := payment("evt_1", "p1", "bank", "wallet:1", 5)
	s.applied(e)
	s.publish(respelled(e))
	for range 300 {
		s.givenBack(1)
	}
	s.start()
	s.settled()
	require.Empty(t, s.letters())
	require.Equal(t, 1, s.transfers())
	require.Zero(t, s.count(`SELECT count(*) FROM readings`))
}

// A content kills whoever reads it, and another content stands under its id.
func TestReadingThatKillsWorkers(t *testing.T) {
	s := newSystem(t, shop+"\nworker: {ack_wait: 1s}")
	e := payment("evt_killer", "p1", "bank", "wallet:1", 5)
	s.applied(e)
	for range 2 { // in batches with others, which complete
		s.payments(0, 10)
		s.publish(respelled(e))
	}
	deaths := 0
	parked := func() bool { return s.count(`SELECT count(*) FROM events WHERE state = 'failed'`) > 0 }
	for !parked() {
		deaths += s.killedWorker(parked)
		require.LessOrEqual(t, deaths, crashBudget+2)
	}
	require.GreaterOrEqual(t, deaths, crashBudget)
	letters := s.letters()
	require.Len(t, letters, 1)
	require.Equal(t, dlq.CrashBudget, letters[0].Reason)
	require.NotEmpty(t, letters[0].Variant)
	require.Equal(t, 11, s.transfers())

	// A further copy kills one, who may not know what it is, and no more.
	s.publish(respelled(e))
	for deaths = 0; !s.idle(); {
		deaths += s.killedWorker(s.idle)
		require.LessOrEqual(t, deaths, 1)
	}
	require.Len(t, s.letters(), 1)

	// Sent again after the fault is corrected, it is read.
	s.redriveAll()
	s.start()
	s.settled()
	require.Empty(t, s.letters(), "it means what stands")
	require.Equal(t, 11, s.transfers())
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE state <> 'completed' AND state <> 'failed'`))
}

// The rules fail at a content that another one stands for: nobody knows what it
// means, which makes it no conflict.
func TestFaultAtAResendIsNoConflict(t *testing.T) {
	for name, faults := range map[string]int32{"once": 1, "always": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, strings.Replace(shop, "attempts: 3", "attempts: 1", 1)+"\nworker: {ack_wait: 1s}")
			e := payment("evt_1", "p1", "bank", "wallet:1", 5)
			s.applied(e)
			var judged atomic.Int32
			s.start(func(w *worker) {
				w.thinking = func(*envelope.Event) {
					if judged.Add(1) <= faults {
						panic("a fault of ours")
					}
				}
			})
			s.publish(respelled(e))
			s.settled()
			require.Equal(t, 1, s.transfers())
			letters := s.letters()
			if name == "once" {
				require.Empty(t, letters)
				return
			}
			require.Len(t, letters, 1)
			require.Equal(t, dlq.CrashBudget, letters[0].Reason)
		})
	}
}

// deadly publishes a content that workers died of.
func (s *system) deadly(e *envelope.Event) {
	s.t.Helper()
	hash := sha256.Sum256(e.Data)
	_, err := s.pool.Exec(s.t.Context(), `
		INSERT INTO readings (source, event_id, body_hash, holder, redrive, crashes) VALUES ($1, $2, $3, 0, 0, $4)`,
		e.Source, e.ID, hash[:], crashBudget)
	require.NoError(s.t, err)
	s.publish(e)
}

// Nobody knows what a deadly content means: it opens nothing that was given up.
func TestDeadlyContentBesideADiscardedEvent(t *testing.T) {
	e := payment("evt_1", "p1", "bank", "wallet:1", 5)
	same, other := respelled(e), payment("evt_1", "p1", "bank", "wallet:1", 7)
	for name, c := range map[string]struct {
		again     []*envelope.Event
		conflicts int
	}{
		// What was discarded stays so, and is no conflict with what comes after it.
		"what was discarded is sent again first": {[]*envelope.Event{same, other}, 0},
		// What stands is the other one by then.
		"the other one is sent again first": {[]*envelope.Event{other, same}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, shop)
			s.parkFirst(shop, e)
			store := letters.Store{Pool: s.pool, JS: s.js}
			results, err := store.Discard(t.Context(), s.letters(), dedupe.Action{Actor: "ada", Note: "a mistake"})
			require.NoError(t, err)
			require.True(t, results[0].Done, results[0].Err)
			require.Equal(t, dedupe.Discarded, s.row(e.ID).State)

			s.deadly(same)
			s.deadly(other)
			s.givenBack(2)
			stop := s.start()
			s.settled()
			require.Equal(t, dedupe.Discarded, s.row(e.ID).State)
			parked := s.letters()
			require.Len(t, parked, 2)
			for _, l := range parked {
				require.Equal(t, dlq.CrashBudget, l.Reason)
				require.NotEmpty(t, l.Variant)
			}
			require.Zero(t, s.transfers())
			stop()

			// Sent again, each is decided on its merits, and none waits for ever.
			s.start()
			for _, again := range c.again {
				variant := dedupe.Conflict(dedupe.Key{Source: e.Source, ID: e.ID}, sha256.Sum256(again.Data)).Variant
				i := slices.IndexFunc(parked, func(l *dlq.Letter) bool { return l.Variant == variant })
				results, err := store.Redrive(t.Context(), parked[i:i+1], ada, nil)
				require.NoError(t, err)
				require.True(t, results[0].Done, results[0].Err)
				s.settled()
			}
			require.EqualValues(t, 7, s.balance("wallet:1"))
			left := s.letters()
			require.Len(t, left, c.conflicts)
			for _, l := range left {
				require.Equal(t, dlq.IDConflict, l.Reason)
			}
			require.Equal(t, c.conflicts, s.count(`SELECT count(*) FROM events WHERE state <> 'completed'`))
		})
	}
}

// A look that takes longer than the ack wait is no death, whoever else asks.
func TestSlowLook(t *testing.T) {
	for range 10 {
		if slowLook(t) {
			return
		}
		t.Log("it took longer than rules may: once more")
	}
	require.Fail(t, "a look never lasted until the test looked at it")
}

// slowLook reports whether the look still lasted when the test looked at it.
func slowLook(t *testing.T) bool {
	s := newSystem(t, shop+"\nworker: {ack_wait: 3s}")
	e := payment("evt_1", "p1", "bank", "wallet:1", 5)
	s.applied(e)
	s.publish(respelled(e), respelled(e), respelled(e))
	s.givenBack(3)
	began := make(chan time.Time, 100)
	release := make(chan struct{})
	slow := func(w *worker) {
		w.tuning.Batch = 1 // or copies share one look
		w.thinking = func(*envelope.Event) { began <- time.Now(); <-release }
	}
	stops := []func(){s.start(slow), s.start(slow)}
	first := <-began
	s.pass(4 * time.Second)
	more, readings := len(began), s.count(`SELECT count(*) FROM readings WHERE crashes = 0`)
	lasted := time.Since(first) < thinkingLimit
	close(release)
	if !lasted {
		for _, stop := range stops {
			stop()
		}
		return false
	}
	require.Zero(t, more, "one looks, the others wait")
	require.Equal(t, 1, readings)
	s.settled()
	require.Empty(t, s.letters())
	require.Zero(t, s.count(`SELECT count(*) FROM readings`))
	return true
}

// The link to Postgres is lost in the midst of more looks than may kill, each time
// for longer than the ack wait, while another worker has its own.
func TestLinkLostInALook(t *testing.T) {
	yaml := shop + "\nworker: {ack_wait: 5s}"
	s := newSystem(t, yaml)
	e := payment("evt_1", "p1", "bank", "wallet:1", 5)
	s.applied(e)
	cable := s.behind("DATABASE_URL", s.url, yaml)
	s.publish(respelled(e))
	s.givenBack(1)
	var looks, crashes atomic.Int32
	counted := func() {
		crashes.Store(max(crashes.Load(), int32(s.count(`SELECT COALESCE(max(crashes), 0) FROM readings`))))
	}
	s.start(func(w *worker) {
		w.thinking = func(*envelope.Event) {
			counted()
			if looks.Add(1) <= crashBudget+1 {
				cable.cut()
				time.AfterFunc(6*time.Second, cable.mend)
			}
		}
	})
	s.eventually(func() bool { return looks.Load() > 0 }, "the look begins")
	s.env["DATABASE_URL"] = s.url
	s.cat = s.load(yaml)
	s.start(func(w *worker) { w.thinking = func(*envelope.Event) { counted() } })
	s.settled()
	require.Zero(t, crashes.Load(), "nobody died")
	require.Empty(t, s.letters())
	require.Equal(t, 1, s.transfers())
	require.Zero(t, s.count(`SELECT count(*) FROM readings`))
}

// What is owed is paid at a stop, also once the time to drain is over.
func TestDebtsArePaidAtALateStop(t *testing.T) {
	s := newSystem(t, shop)
	w := newWorker(s.cat, s.log, Tuning{})
	require.NoError(t, w.open(t.Context()))
	defer w.close()
	it := &item{key: dedupe.Key{Source: "shop", ID: "evt_1"}}
	reading := dedupe.NewReading(it.key, [32]byte{1}, 0)
	_, err := dedupe.BeginReading(t.Context(), w.pool, reading, time.Second, crashBudget)
	require.NoError(t, err)
	it.reading.Store(&reading)
	it.ack(outcomeDuplicate)
	require.True(t, w.debts.owe(it))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	w.debts.settle(over)
	require.Zero(t, s.count(`SELECT count(*) FROM readings`))
}
