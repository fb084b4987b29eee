package keeper_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/keeper"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

func TestSweep(t *testing.T) {
	// Each test damages a system that is in order and waits until it is again.
	tests := []struct {
		name   string
		damage func(s *system)
		kind   string
		check  func(t *testing.T, s *system)
	}{
		{
			name:   "sends again what was answered and has no row",
			damage: func(s *system) { s.exec(takeAway("evt_1")...) },
			kind:   "lost",
			check: func(t *testing.T, s *system) {
				require.Equal(t, "completed", one[string](s, `SELECT state FROM events WHERE event_id = 'evt_1'`))
				require.Equal(t, "1", one[string](s, `SELECT detail->>'count' FROM actions WHERE verb = 'sweep'`))
			},
		},
		{
			name: "sends again an event that waits and whose message was answered",
			damage: func(s *system) {
				s.exec(append(unpost("evt_1"), `UPDATE events SET state = 'pending', outcome = NULL, decided_at = now() - interval '1 hour', next_try_at = now() - interval '1 hour' WHERE event_id = 'evt_1'`)...)
			},
			kind: "undecided",
			check: func(t *testing.T, s *system) {
				require.Equal(t, 1, one[int](s, `SELECT redrives FROM events WHERE event_id = 'evt_1'`))
			},
		},
		{
			name: "sends again an event whose attempt never ended",
			damage: func(s *system) {
				s.exec(append(unpost("evt_1"), `UPDATE events SET state = 'processing', outcome = NULL, attempt = 1, decided_at = now() - interval '1 hour' WHERE event_id = 'evt_1'`)...)
			},
			kind: "undecided",
		},
		{
			name: "ends a redrive that was cut short before its copy was stored",
			damage: func(s *system) {
				s.exec(`UPDATE events SET state = 'pending', redrives = 1, dlq_seq = NULL, reason = NULL, decided_at = now() - interval '1 hour' WHERE event_id = 'evt_bad'`)
			},
			kind: "undecided",
			check: func(t *testing.T, s *system) {
				require.Equal(t, "failed", one[string](s, `SELECT state FROM events WHERE event_id = 'evt_bad'`))
				require.Equal(t, 2, one[int](s, `SELECT redrives FROM events WHERE event_id = 'evt_bad'`))
			},
		},
		{
			name: "ends such a redrive from its letter where the message is trimmed",
			damage: func(s *system) {
				s.exec(`UPDATE events SET state = 'pending', redrives = 1, dlq_seq = NULL, reason = NULL, decided_at = now() - interval '1 hour' WHERE event_id = 'evt_bad'`)
				events, err := s.js.Stream(s.t.Context(), stream.Events)
				require.NoError(s.t, err)
				require.NoError(s.t, events.DeleteMsg(s.t.Context(), one[uint64](s, `SELECT seq FROM events WHERE event_id = 'evt_bad'`)))
			},
			kind: "undecided",
		},
		{
			name: "stores the letter that a failed event never got",
			damage: func(s *system) {
				s.exec(`UPDATE events SET dlq_seq = NULL, decided_at = now() - interval '1 hour' WHERE event_id = 'evt_bad'`)
			},
			kind: "letter",
		},
		{
			name: "stores a letter again that is gone",
			damage: func(s *system) {
				letters, err := s.js.Stream(s.t.Context(), stream.DLQ)
				require.NoError(s.t, err)
				require.NoError(s.t, letters.DeleteMsg(s.t.Context(), one[uint64](s, `SELECT dlq_seq FROM events WHERE event_id = 'evt_bad'`)))
			},
			kind: "letter",
		},
		{
			name: "stores all letters again where their stream was made anew",
			damage: func(s *system) {
				require.NoError(s.t, s.js.DeleteStream(s.t.Context(), stream.DLQ))
				require.NoError(s.t, stream.Ensure(s.t.Context(), s.js, s.cat.Config.NATS))
			},
			kind: "letter",
		},
		{
			name:   "parks again what holds no event",
			damage: func(s *system) { s.exec(`DELETE FROM events WHERE source = 'unknown'`, oldMark) },
			kind:   "unreadable",
		},
		{
			name:   "parks a conflict again whose row is missing",
			damage: func(s *system) { s.exec(`DELETE FROM events WHERE variant <> ''`, oldMark) },
			kind:   "other_content",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSystem(t, "64MiB")
			s.store(&nats.Msg{Subject: "events.stranger", Data: []byte("no envelope")})
			s.decide(payment("evt_1", "p1", "500"), payment("evt_2", "p2", "700"), payment("evt_2", "p2", "800"), payment("evt_bad", "p3", `"many"`))
			k := s.keep()
			require.Equal(t, 5, k.clean().Sum.Messages)
			k.stop()
			test.damage(s)
			k = s.keep().leads()
			s.work()
			require.Eventually(t, func() bool { return k.metric("sweep_repairs_total", test.kind) > 0 }, 20*time.Second, 10*time.Millisecond)
			s.settle()
			k.clean()
			require.Equal(t, 1200, one[int](s, `SELECT sum(amount)::int FROM transfers`), "all money is there, once")
			require.Equal(t, 0.0, k.metric("sweep_unrepairable"))
			require.NotZero(t, one[int](s, `SELECT count(*)::int FROM actions WHERE verb = 'sweep' AND actor = 'keeper'`))
			if test.check != nil {
				test.check(t, s)
			}
			before := k.metric("sweep_repairs_total", test.kind)
			for range 3 {
				k.clean()
			}
			require.Equal(t, before, k.metric("sweep_repairs_total", test.kind), "it is repaired once")
		})
	}
}

// TestSweepLeavesAloneWhatIsInFlight has no worker: everything waits.
func TestSweepLeavesAloneWhatIsInFlight(t *testing.T) {
	s := newSystem(t, "64MiB")
	s.decide(payment("evt_1", "p1", "500"))
	for i := range 20 {
		s.publish(payment(fmt.Sprintf("evt_waits_%d", i), fmt.Sprint(i), "1"))
	}
	// Delivered, never answered.
	consumer, err := s.js.Consumer(t.Context(), stream.Events, stream.Consumer)
	require.NoError(t, err)
	batch, err := consumer.Fetch(10)
	require.NoError(t, err)
	for range batch.Messages() {
	}
	k := s.keep()
	for range 5 {
		r := k.until("a round", func(r round) bool { return r.err == nil })
		require.Equal(t, audit.Sum{Messages: 21, Applied: 1, InFlight: 20}, r.Sum)
		require.Equal(t, 10, r.Open)
	}
	require.Equal(t, -1.0, k.metric("sweep_repairs_total"))
	require.Zero(t, one[int](s, `SELECT count(*)::int FROM actions`))
	require.Positive(t, k.metric("backlog_age_seconds"))
}

// TestRestoredBackup takes Postgres back to a moment before most of the stream
// was decided; the marks go back with it.
func TestRestoredBackup(t *testing.T) {
	s := newSystem(t, "64MiB")
	k := s.keep().leads()
	stop := s.work()
	for i := range 100 {
		s.publish(payment(fmt.Sprintf("evt_%d", i), fmt.Sprint(i), "10"))
	}
	s.settle()
	k.clean()
	all := append([]string{"superseded", "audit_marks", "audit_open", "audit_copies", "audit_balances", "audit_ledger"}, tables...)
	// The keeper goes on meanwhile, and a backup is of one moment.
	err := pgx.BeginTxFunc(t.Context(), s.owner, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		for _, table := range all {
			if _, err := tx.Exec(t.Context(), `CREATE TABLE saved_`+table+` AS TABLE `+table); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, err)
	for i := range 400 {
		id, amount := fmt.Sprintf("evt_%d", 50+i), "10"
		if i%40 == 39 {
			amount = `"many"`
		}
		s.publish(payment(id, fmt.Sprint(50+i), amount)) // some are resends
	}
	s.settle()
	k.clean()
	want := one[int](s, `SELECT sum(amount)::int FROM transfers`)
	k.stop()
	stop()

	for _, table := range all {
		s.exec(`DELETE FROM ` + table)
		if table == "actions" {
			continue // its numbers are the database's
		}
		s.exec(`INSERT INTO ` + table + ` SELECT * FROM saved_` + table)
	}
	require.Equal(t, 1000, one[int](s, `SELECT sum(amount)::int FROM transfers`))

	k = s.keep().leads()
	s.work()
	k.until("what is missing", func(r round) bool { return r.err == nil && r.Sum.Unaccounted > 0 })
	k.until("everything again", func(r round) bool { return r.err == nil && r.Clean && r.Sum.InFlight == 0 })
	require.Equal(t, want, one[int](s, `SELECT sum(amount)::int FROM transfers`), "all money is there, once")
	require.Equal(t, want, one[int](s, `SELECT credits_posted::int FROM accounts WHERE name = 'purse:a'`))
	require.Zero(t, k.metric("audit_money_differences"))
}

// flaky loses copies on their way to the broker.
type flaky struct {
	jetstream.JetStream
	after atomic.Int64
}

func (f *flaky) PublishMsgAsync(msg *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if f.after.Add(-1) < 0 {
		return nil, errors.New("the broker is away")
	}
	return f.JetStream.PublishMsgAsync(msg, opts...)
}

func TestSweepIsCutShort(t *testing.T) {
	s := newSystem(t, "64MiB")
	stop := s.work()
	for i := range 20 {
		s.publish(payment(fmt.Sprintf("evt_%d", i), fmt.Sprint(i), "10"))
	}
	s.settle()
	stop()
	// The worker's own keeper may have accounted for some of them already.
	s.exec(`DELETE FROM events`, `DELETE FROM transfers`, `DELETE FROM operations`, `DELETE FROM accounts`,
		`DELETE FROM audit_balances`, `DELETE FROM audit_open`, oldMark)

	js := &flaky{JetStream: s.js}
	js.after.Store(7)
	k := s.keep(func(o *keeper.Options) { o.JS = js })
	k.until("a failure", func(r round) bool { return r.err != nil })
	k.stop()
	require.Equal(t, uint64(27), s.last(), "seven were sent")

	k = s.keep()
	k.until("the others sent", func(r round) bool { return r.err == nil && s.last() == 40 })
	k.until("another round", func(r round) bool { return r.err == nil })
	require.Equal(t, uint64(40), s.last(), "none is sent twice")
	s.work()
	s.settle()
	r := k.clean()
	require.Equal(t, audit.Sum{Messages: 40, Applied: 20, Duplicates: 20}, r.Sum)
	require.Equal(t, 200, one[int](s, `SELECT sum(amount)::int FROM transfers`))
	require.GreaterOrEqual(t, one[int](s, `SELECT count(*)::int FROM actions WHERE verb = $1`, dedupe.VerbSweep), 2)
}

func (s *system) last() uint64 {
	s.t.Helper()
	events, err := s.js.Stream(s.t.Context(), stream.Events)
	require.NoError(s.t, err)
	return events.CachedInfo().State.LastSeq
}

// takeAway removes an event with its money; unpost only its money.
func takeAway(id string) []string {
	return append(unpost(id), fmt.Sprintf(`DELETE FROM events WHERE event_id = '%s'`, id))
}

func unpost(id string) []string {
	no := fmt.Sprintf(`(SELECT no FROM events WHERE event_id = '%s' AND variant = '')`, id)
	return []string{
		`UPDATE accounts SET debits_posted = debits_posted - 500 WHERE name = 'shop:due'`,
		`UPDATE accounts SET credits_posted = credits_posted - 500 WHERE name = 'purse:a'`,
		`UPDATE audit_balances SET debits = debits - 500 WHERE name = 'shop:due'`,
		`UPDATE audit_balances SET credits = credits - 500 WHERE name = 'purse:a'`,
		`DELETE FROM operations WHERE event_no = ` + no,
		`DELETE FROM transfers WHERE event_no = ` + no,
		oldMark,
	}
}

// oldMark takes the mark back, as a backup that is as old as the damage does.
const oldMark = `UPDATE audit_marks SET seq = 0, sum = '{}', version = version + 1`

// TestLostBytesComeFromTheirSender loses a parked event's letter with the message
// that brought it: nothing here has its bytes any more.
func TestLostBytesComeFromTheirSender(t *testing.T) {
	s := newSystem(t, "64MiB")
	bad := payment("evt_bad", "p1", `"many"`)
	s.decide(bad)
	for _, name := range []string{stream.DLQ, stream.Events} {
		require.NoError(t, s.js.DeleteStream(t.Context(), name))
	}
	require.NoError(t, stream.Ensure(t.Context(), s.js, s.cat.Config.NATS))
	k := s.keep().leads()
	require.Eventually(t, func() bool {
		return one[bool](s, `SELECT dlq_seq IS NULL FROM events WHERE event_id = 'evt_bad'`)
	}, 20*time.Second, 10*time.Millisecond)
	k.until("what cannot be mended", func(r round) bool { return r.err == nil && !r.Clean })
	require.Equal(t, 1.0, k.metric("sweep_unrepairable"))

	s.work()
	s.publish(bad)
	k.until("the letter again", func(r round) bool {
		lost := func(f audit.Finding) bool { return f.Kind == audit.Gone } // the stream, if anybody had looked at it before
		return r.err == nil && !slices.ContainsFunc(r.Findings, func(f audit.Finding) bool { return !lost(f) }) &&
			r.Letters.Stored == 1 && r.Sum.InFlight == 0
	})
	require.Equal(t, "failed", one[string](s, `SELECT state FROM events WHERE event_id = 'evt_bad'`))
	require.Equal(t, 1, one[int](s, `SELECT count(*)::int FROM actions WHERE note LIKE '%only its sender has it'`), "said once")
}

// TestLostLetterComesFromACopy restores a database in which a parked event has
// neither its letter nor its message, while the stream has a copy of it that was
// sent again since.
func TestLostLetterComesFromACopy(t *testing.T) {
	s := newSystem(t, "64MiB")
	bad := payment("evt_bad", "p1", `"many"`)
	s.decide(bad)
	events, err := s.js.Stream(t.Context(), stream.Events)
	require.NoError(t, err)
	stop := s.work()
	again := payment("evt_bad", "p1", `"many"`)
	again.Redrive = 1
	s.publish(again)
	s.settle()
	stop()
	require.NoError(t, events.DeleteMsg(t.Context(), 1))
	letters, err := s.js.Stream(t.Context(), stream.DLQ)
	require.NoError(t, err)
	require.NoError(t, letters.Purge(t.Context()))
	s.exec(oldMark)
	s.work()
	k := s.keep().leads()
	k.until("the letter again", func(r round) bool {
		return r.err == nil && r.Sum.Unaccounted == 0 && len(r.Findings) <= 1 && r.Letters.Stored == 1 && r.Sum.InFlight == 0
	})
	require.Equal(t, "failed", one[string](s, `SELECT state FROM events WHERE event_id = 'evt_bad'`))
	require.Zero(t, k.metric("sweep_unrepairable"))
}
