package worker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

func TestApply(t *testing.T) {
	s := newSystem(t, shop)
	s.start()

	s.publish(payment("evt_A1", "pi_A1", "bank", "wallet:1", 1000))
	row := s.decided("evt_A1", dedupe.Completed)
	require.Equal(t, dedupe.Applied, row.Outcome)
	require.EqualValues(t, 1, row.Seq)
	require.EqualValues(t, 1000, s.balance("wallet:1"))
	require.EqualValues(t, -1000, s.balance("bank"))

	t.Run("a redelivery of the finished event changes nothing", func(t *testing.T) {
		// Cases 1, 3 and 7: also with Redis emptied in between.
		s.publish(payment("evt_A1", "pi_A1", "bank", "wallet:1", 1000))
		s.settled()
		s.redis(func(r *redis.Client) { require.NoError(t, r.FlushDB(t.Context()).Err()) })
		s.publish(payment("evt_A1", "pi_A1", "bank", "wallet:1", 1000))
		s.settled()
		require.Equal(t, row, sameClock(s.row("evt_A1"), row), "the row is untouched")
		require.Equal(t, 1, s.transfers())
		require.Empty(t, s.letters())
	})
	t.Run("other bytes of the same meaning are a duplicate", func(t *testing.T) {
		s.publish(event("evt_A1", `{"retry":3,"asset":"EUR","amount":1000,"to":"wallet:1","from":"bank","payment":"pi_A1","type":"paid","id":"evt_A1"}`))
		s.settled()
		require.Equal(t, 1, s.transfers())
		require.Empty(t, s.letters())
	})
	t.Run("another amount under the same id is a conflict, once", func(t *testing.T) {
		// Case 57.
		for range 3 {
			s.publish(payment("evt_A1", "pi_A1", "bank", "wallet:1", 9000))
		}
		s.settled()
		letters := s.letters()
		require.Len(t, letters, 1)
		require.Equal(t, dlq.IDConflict, letters[0].Reason)
		require.Equal(t, "evt_A1", letters[0].EventID)
		require.NotEmpty(t, letters[0].Variant)
		require.EqualValues(t, 1000, s.balance("wallet:1"))
		require.Equal(t, 1, s.count(`SELECT count(*) FROM events WHERE state = 'failed' AND reason = 'id_conflict' AND dlq_seq IS NOT NULL`))
	})
	t.Run("one payment under two event ids is posted once", func(t *testing.T) {
		// Case 15.
		s.publish(payment("evt_other", "pi_A1", "bank", "wallet:1", 1000))
		require.Equal(t, dedupe.DuplicateOperation, s.decided("evt_other", dedupe.Completed).Outcome)
		require.Equal(t, 1, s.transfers())
	})
	t.Run("one payment with two amounts is an operation conflict", func(t *testing.T) {
		s.publish(payment("evt_third", "pi_A1", "bank", "wallet:1", 1))
		require.Equal(t, string(dlq.OperationConflict), s.decided("evt_third", dedupe.Failed).Reason)
		require.Equal(t, 1, s.transfers())
	})
	t.Run("an unmatched type is ignored", func(t *testing.T) {
		e := event("evt_news", `{"id":"evt_news","type":"news"}`)
		e.Type = "news"
		s.publish(e)
		require.Equal(t, dedupe.Ignored, s.decided("evt_news", dedupe.Completed).Outcome)
	})
	t.Run("a message without an envelope is parked, once", func(t *testing.T) {
		s.settled() // the letters of what was parked before are there
		before := len(s.letters())
		_, err := s.js.Publish(t.Context(), "events.shop.paid", []byte("hello"))
		require.NoError(t, err)
		s.eventually(func() bool { return len(s.letters()) == before+1 }, "the letter arrives")
		s.settled()
		last := s.letters()[before]
		require.Equal(t, dlq.BadEnvelope, last.Reason)
		require.Equal(t, "hello", string(last.Data))
	})
}

// sameClock copies what moves with the clock.
func sameClock(row, from *dedupe.Row) *dedupe.Row {
	row.FailingFor, row.RetryIn, row.BegunFor = from.FailingFor, from.RetryIn, from.BegunFor
	return row
}

func TestParkedEvent(t *testing.T) {
	s := newSystem(t, shop)
	s.start()
	bad := `{"id":"evt_bad","type":"paid","payment":"p","from":"bank","to":"wallet:1","amount":"12,50","asset":"EUR"}`
	seq := s.publish(event("evt_bad", bad))

	row := s.decided("evt_bad", dedupe.Failed)
	s.settled()
	require.Equal(t, string(dlq.AmountFormat), row.Reason)
	letters := s.letters()
	require.Len(t, letters, 1)
	require.Equal(t, bad, string(letters[0].Data), "the bytes are untouched")
	require.Equal(t, seq, letters[0].OriginSeq)
	require.Equal(t, letters[0].Seq, s.row("evt_bad").DLQSeq)
	require.NotEmpty(t, letters[0].Hint())
	require.NotEmpty(t, letters[0].Error)

	t.Run("a repeat of the parked event adds no letter", func(t *testing.T) {
		s.publish(event("evt_bad", bad))
		s.settled()
		require.Len(t, s.letters(), 1)
	})
	t.Run("a good body under its id is decided on its merits", func(t *testing.T) {
		// Case 31 in the ledger: a flagged first copy does not block the good one.
		s.publish(payment("evt_bad", "p", "bank", "wallet:1", 1250))
		require.Equal(t, dedupe.Applied, s.decided("evt_bad", dedupe.Completed).Outcome)
		require.EqualValues(t, 1250, s.balance("wallet:1"))
	})
}

func TestNeighboursOfAFailure(t *testing.T) {
	s := newSystem(t, shop)
	for i := range 100 {
		id := fmt.Sprintf("evt_%03d", i)
		switch i {
		case 50: // fails in Postgres: the balance would not fit
			s.publish(payment(id, "p"+id, "bank", "wallet:big", 9_223_372_036_854_775_807))
		case 51:
			s.publish(payment(id, "p"+id, "bank", "wallet:big", 9_223_372_036_854_775_807))
		case 52: // refused by its limit, for now
			s.publish(payment(id, "p"+id, "purse:1", "bank", 5))
		case 53: // not JSON
			s.publish(event(id, `{"id":`))
		default:
			s.publish(payment(id, "p"+id, "till", "wallet:1", 1))
		}
	}
	s.oneBatch(100) // of two, which is first would be chance
	s.start()       // for what waits
	s.settled()
	require.EqualValues(t, 96, s.balance("wallet:1"))
	require.EqualValues(t, 9_223_372_036_854_775_807, s.balance("wallet:big"))
	require.Equal(t, string(dlq.AmountOverflow), s.row("evt_051").Reason)
	require.Equal(t, string(dlq.InsufficientFunds), s.row("evt_052").Reason)
	require.Equal(t, 3, s.row("evt_052").Attempts, "the budget of three is spent")
	require.Equal(t, string(dlq.BadJSON), s.row("evt_053").Reason)
	require.Len(t, s.letters(), 3)
	require.Equal(t, 97, s.transfers())
}

func TestBlameBySQLState(t *testing.T) {
	s := newSystem(t, shop)
	// The database refuses one event for a reason that Go does not know.
	_, err := s.pool.Exec(t.Context(), `ALTER TABLE transfers ADD CONSTRAINT no_sevens CHECK (amount <> 7)`)
	require.NoError(t, err)
	for i := range 40 {
		amount := int64(1)
		if i == 20 {
			amount = 7
		}
		id := fmt.Sprintf("evt_%02d", i)
		s.publish(payment(id, "p"+id, "bank", "wallet:1", amount))
	}
	s.start()
	s.settled()
	require.EqualValues(t, 39, s.balance("wallet:1"), "no neighbour is harmed")
	row := s.row("evt_20")
	require.Equal(t, dedupe.Failed, row.State)
	require.Equal(t, string(dlq.RetryBudget), row.Reason)
	require.Contains(t, row.Error, "no_sevens")
	require.Equal(t, 3, row.Attempts)
}

func TestInsufficientFunds(t *testing.T) {
	s := newSystem(t, strings.Replace(shop, "attempts: 3", "attempts: 1000", 1))
	s.start()
	s.publish(payment("evt_spend", "p1", "purse:7", "bank", 500))
	row := s.decided("evt_spend", dedupe.Pending)
	require.Equal(t, string(dlq.InsufficientFunds), row.Reason)
	require.NotZero(t, row.Attempts)
	require.Zero(t, s.balance("bank"))

	// Funded, it passes by itself.
	s.publish(payment("evt_fund", "p2", "bank", "purse:7", 500))
	require.Equal(t, dedupe.Applied, s.decided("evt_spend", dedupe.Completed).Outcome)
	require.Zero(t, s.balance("purse:7"))

}

func TestLimitsFollowTheConfiguration(t *testing.T) {
	var log lockedBuffer
	s := newSystem(t, shop)
	s.log = zerolog.New(&log)
	stop := s.start()
	s.publish(payment("evt_fund", "p1", "bank", "open:7", 100))
	s.decided("evt_fund", dedupe.Completed)
	s.publish(payment("evt_fact", "p2", "open:7", "bank", 300))
	s.decided("evt_fact", dedupe.Completed)
	require.EqualValues(t, -200, s.balance("open:7"), "a recorded limit lets a fact pass")
	s.settled()
	require.Equal(t, 1, strings.Count(log.String(), "account is overdrawn"), "and a person is told, once")
	stop()

	// Enforced now, though it is passed already: money in goes on, money out waits.
	enforced := strings.Replace(shop, "policy: record", "policy: enforce", 1)
	s.cat = s.load(enforced)
	stop = s.start()
	s.publish(payment("evt_ease", "p3", "bank", "open:7", 50))
	require.Equal(t, dedupe.Applied, s.decided("evt_ease", dedupe.Completed).Outcome)
	s.publish(payment("evt_spend", "p4", "open:7", "bank", 1))
	require.Equal(t, string(dlq.InsufficientFunds), s.decided("evt_spend", dedupe.Failed).Reason)
	s.settled()
	stop()

	// Recorded again, and without any limit: facts pass.
	for i, yaml := range []string{shop, strings.Replace(shop, `{match: "open:*"`, `{match: "shut:*"`, 1)} {
		s.cat = s.load(yaml)
		stop = s.start()
		id := fmt.Sprintf("evt_again_%d", i)
		s.publish(payment(id, "p_"+id, "open:7", "bank", 1000))
		require.Equal(t, dedupe.Applied, s.decided(id, dedupe.Completed).Outcome)
		s.settled()
		stop()
	}
	require.EqualValues(t, -2150, s.balance("open:7"))
}

func TestCopiesDoNotSpendTheBudget(t *testing.T) {
	s := newSystem(t, strings.NewReplacer("attempts: 3", "attempts: 20", "base: 50ms", "base: 5s", "cap: 100ms", "cap: 5s").Replace(shop))
	s.start()
	spend := payment("evt_spend", "p1", "purse:7", "bank", 500)
	for range 50 {
		s.publish(spend)
	}
	s.decided("evt_spend", dedupe.Pending)
	s.publish(payment("evt_fund", "p2", "bank", "purse:7", 500))
	require.Equal(t, dedupe.Applied, s.decided("evt_spend", dedupe.Completed).Outcome)
	s.settled()
	require.Empty(t, s.letters())
	require.Less(t, s.row("evt_spend").Attempts, 20)
}

func TestUnknownSource(t *testing.T) {
	s := newSystem(t, shop)
	s.start()
	e := payment("evt_1", "p", "bank", "wallet:1", 1)
	e.Source = "stranger"
	s.publish(e)
	s.settled()
	letters := s.letters()
	require.Len(t, letters, 1)
	require.Equal(t, dlq.SourceUnknown, letters[0].Reason)
	require.Equal(t, 3, letters[0].Attempts, "it was tried again before it was parked: a newer receiver may know it")

	t.Run("another content under its id is no duplicate of what nobody could read", func(t *testing.T) {
		other := payment("evt_1", "p", "bank", "wallet:1", 2)
		other.Source = "stranger"
		s.publish(other)
		s.settled()
		require.Len(t, s.letters(), 2)
	})
}

func TestLyingRedis(t *testing.T) {
	s := newSystem(t, shop)
	var w *worker
	s.start(func(started *worker) { w = started; w.lying.Settle = 100 * time.Millisecond })
	told := func(what string) int { return int(testutil.ToFloat64(w.metrics.redis.WithLabelValues(what))) }
	rounds := 0
	s.eventually(func() bool { // a lie may come too late to be heard
		rounds++
		id := func(what string) string { return fmt.Sprint("evt_", what, rounds) }
		s.redis(func(r *redis.Client) {
			require.NoError(t, r.Set(t.Context(), claimPrefix+"shop:"+id("done"), "done", 0).Err())
			require.NoError(t, r.Set(t.Context(), claimPrefix+"shop:"+id("A5"), "somebody", 0).Err()) // case 5: no TTL, no row
			require.NoError(t, r.Set(t.Context(), claimPrefix+"shop:"+id("held"), "somebody", time.Minute).Err())
		})
		for what, amount := range map[string]int64{"done": 700, "A5": 70, "held": 7} {
			s.publish(payment(id(what), id(what), "bank", "wallet:1", amount))
			s.decided(id(what), dedupe.Completed)
		}
		return told("lie") > 0 && told("repaired") > 0
	}, "the lies are seen")
	require.EqualValues(t, 777*rounds, s.balance("wallet:1"))
	s.settled()
	s.free()
	require.LessOrEqual(t, told("lie"), rounds)
	require.LessOrEqual(t, told("repaired"), 2*rounds)
	s.publish(payment("evt_after", "p4", "bank", "wallet:1", 1))
	s.eventually(func() bool { return !away(w, "redis_lying") }, "its end shows")
	require.LessOrEqual(t, s.logged("redis calls events finished that are not"), rounds)
	s.eventually(func() bool {
		return s.logged("redis no longer calls events finished") == s.logged("redis calls events finished that are not")
	}, "each start has its end")
}

func TestAtomicBatchMembersAreParked(t *testing.T) {
	s := newSystem(t, shop)
	for position := range 3 {
		var batch []*nats.Msg
		for i := range 3 {
			id := fmt.Sprintf("evt_%d_%d", position, i)
			e := payment(id, "p"+id, "bank", "wallet:1", 1)
			if i == position {
				e.Data = []byte(`{"id":`)
			}
			msg, err := e.Msg()
			require.NoError(t, err)
			batch = append(batch, msg)
		}
		ack, err := jetstreamext.PublishMsgBatch(t.Context(), s.js, batch)
		require.NoError(t, err)
		require.EqualValues(t, 3, ack.BatchSize)
	}
	s.start()
	s.settled()
	require.EqualValues(t, 6, s.balance("wallet:1"))
	letters := s.letters()
	require.Len(t, letters, 3, "first, middle and last of a batch of three")
	for _, l := range letters {
		for name := range l.Header {
			require.False(t, strings.HasPrefix(strings.ToLower(name), "nats-"), name)
		}
	}
	require.Equal(t, 3, s.count(`SELECT count(*) FROM events WHERE state = 'failed' AND dlq_seq IS NOT NULL`))
}

func TestExpiredDelivery(t *testing.T) {
	s := newSystem(t, shop+"\nworker: {ack_wait: 1s}")
	s.publish(payment("evt_1", "p1", "bank", "wallet:1", 5))
	consumer, err := stream.WorkerConsumer(t.Context(), s.js, time.Second)
	require.NoError(t, err)
	batch, err := consumer.Fetch(1)
	require.NoError(t, err)
	expired := <-batch.Messages()
	again, err := consumer.Fetch(1) // waits until the first delivery has expired
	require.NoError(t, err)
	current := <-again.Messages()
	meta, err := current.Metadata()
	require.NoError(t, err)
	require.EqualValues(t, 2, meta.NumDelivered)

	// A worker decides the expired delivery while the current one is with
	// another that dies: the ack removes both, and the event is applied.
	w := newWorker(s.cat, s.log, Tuning{})
	require.NoError(t, w.open(t.Context()))
	defer w.close()
	w.work = t.Context()
	l := &loop{w: w, name: "test"}
	l.process(t.Context(), []delivery{{expired, w.incarnation()}})
	s.settled()
	require.Equal(t, dedupe.Applied, s.row("evt_1").Outcome)
	require.EqualValues(t, 5, s.balance("wallet:1"))
}

func TestOddIDs(t *testing.T) {
	// Case 56: processed once each, no two of them merged.
	s := newSystem(t, shop)
	s.start()
	ids := []string{"a/b", "a b", "a.b.*.>", "a\r\nNats-Msg-Id: x", "日本", "\u00e9", "e\u0301", "%41", "A", strings.Repeat("x", envelope.MaxID)}
	for i, id := range ids {
		for range 2 {
			e := payment("x", fmt.Sprint("p", i), "bank", "wallet:1", 1)
			e.ID = id
			s.publish(e)
		}
	}
	s.settled()
	require.EqualValues(t, len(ids), s.balance("wallet:1"))
	require.Equal(t, len(ids), s.count(`SELECT count(*) FROM events WHERE state = 'completed'`))
}
