package audit_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/stream"
)

func TestSum(t *testing.T) {
	t.Run("is empty and clean before anything happened", func(t *testing.T) {
		s := newSystem(t)
		report := s.clean()
		require.Equal(t, audit.Sum{}, report.Sum)
		require.Empty(t, report.Books.Assets)
	})

	t.Run("has a term for every message", func(t *testing.T) {
		s := newSystem(t)
		paid := payment("evt_1", "p1", "500", "")
		conflict := payment("evt_1", "p1", "900", "")
		fault := event("generated/1", "paid", "not json")
		fault.Fault = "bad_json"
		wrong := payment("evt_4", "p4", `"many"`, "")
		s.decide(
			paid,
			paid, // the same bytes
			payment("evt_1", "p1", "500", `,"note":"resent"`), // other bytes, the same meaning
			conflict,
			conflict,                          // the same conflict again
			payment("evt_2", "p1", "500", ""), // the same payment under another id
			event("evt_3", "looked at", `{"id":"evt_3","type":"looked at"}`),
			fault,
			wrong, // parked, and superseded below
			wrong,
			payment("evt_4", "p4", "700", ""),
		)
		s.store(&nats.Msg{Subject: "events.stranger", Data: []byte("no envelope")})
		s.decide()
		s.publish(payment("evt_5", "p5", "100", "")) // nobody works on these two
		s.publish(payment("evt_5", "p5", "100", ""))

		report := s.clean()
		require.Equal(t, audit.Sum{
			Messages: 14, Applied: 2, Ignored: 1, DuplicateOperation: 1, Duplicates: 4, Parked: 4, InFlight: 2,
		}, report.Sum)
		require.Equal(t, audit.Letters{Stored: 4, Stale: 1, Failed: 3}, report.Letters)
		require.Equal(t, uint64(14), report.Stream.Last)
		require.Equal(t, uint64(12), report.Stream.AckFloor)
		require.Equal(t, audit.Books{
			Events: 7, Transfers: 2, Operations: 2, Accounts: 2,
			Assets: []audit.AssetTotal{{Asset: "EUR", Exponent: 2, Accounts: 2, Debits: "1200", Credits: "1200"}},
		}, report.Books)
	})

	t.Run("a conflict that nobody has looked at yet is in flight", func(t *testing.T) {
		s := newSystem(t)
		s.decide(payment("evt_1", "p1", "500", ""))
		s.publish(payment("evt_1", "p1", "900", "")) // its worker is stopped, or has it in its hands
		require.Equal(t, audit.Sum{Messages: 2, Applied: 1, InFlight: 1}, s.clean().Sum)
	})

	t.Run("goes past messages that look like the broker's word", func(t *testing.T) {
		s := newSystem(t)
		liars := []nats.Header{
			{"Status": {"404"}},
			{"Status": {"204"}, "Description": {"EOB"}},
			{"Nats-Sequence": {"many"}, "Nats-Time-Stamp": {"yesterday"}},
			{"Nats-Sequence": {"1"}, "Nats-Time-Stamp": {"2001-01-01T00:00:00Z"}, "Nats-Num-Pending": {"0"}},
		}
		s.decide(payment("evt_1", "p1", "500", ""))
		for i, header := range liars {
			s.store(&nats.Msg{Subject: "events.stranger", Header: header, Data: []byte("no envelope")})
			msg, err := payment(fmt.Sprintf("evt_liar_%d", i), fmt.Sprint(i), "500", "").Msg()
			require.NoError(t, err)
			maps.Copy(msg.Header, header)
			s.store(msg)
		}
		s.decide(payment("evt_2", "p2", "500", ""))
		want := audit.Sum{Messages: 10, Applied: 6, Parked: 4}
		require.Equal(t, want, s.clean().Sum)
		p := s.advance()
		require.Empty(t, p.Findings)
		require.Equal(t, want, p.Sum)
		s.exec(`DELETE FROM events WHERE event_id = 'evt_2'`)
		require.Equal(t, uint64(10), s.audit().Findings[0].Seq, "what follows them is seen")
	})

	t.Run("knows discarded and redriven events", func(t *testing.T) {
		s := newSystem(t)
		wrong := payment("evt_1", "p1", "500", "")
		s.decide(wrong, payment("evt_2", "p2", `"many"`, ""))
		// What a redrive of evt_1 after a corrected rule leaves behind, and a discard.
		s.exec(
			`DELETE FROM transfers`, `DELETE FROM operations`, `DELETE FROM accounts`,
			`UPDATE events SET state = 'pending', outcome = NULL, redrives = 1 WHERE event_id = 'evt_1'`,
			`UPDATE events SET state = 'discarded', dlq_seq = NULL WHERE event_id = 'evt_2'`,
		)
		require.Equal(t, audit.Sum{Messages: 2, InFlight: 1, Discarded: 1}, s.clean().Sum)

		again := *wrong
		again.Redrive = 1
		s.decide(&again)
		require.Equal(t, audit.Sum{Messages: 3, Applied: 1, Redriven: 1, Discarded: 1}, s.clean().Sum)
	})

	t.Run("an answered message waits while another one of its event is decided", func(t *testing.T) {
		s := newSystem(t)
		s.decide(payment("evt_1", "p1", `"many"`, ""))
		// A redriven copy has just failed again, and its letter is on its way.
		s.exec(`UPDATE events SET dlq_seq = NULL, redrives = 1, seq = 99, decided_at = now() + interval '1 minute'`)
		report := s.audit()
		require.Equal(t, audit.Sum{Messages: 1, InFlight: 1}, report.Sum)

		s.exec(`UPDATE events SET decided_at = now() - interval '1 minute'`)
		require.Equal(t, 1, s.audit().Sum.InFlight, "that one is not answered yet")
		s.exec(`UPDATE events SET seq = 1`)
		require.Equal(t, 1, s.audit().Sum.Unaccounted, "nobody is at it any more")
	})

	t.Run("an event may wait for a message that says the same in other bytes", func(t *testing.T) {
		s := newSystem(t)
		s.decide(payment("evt_1", "p1", `"many"`, ""))
		// It was sent again, from a letter that another form of it had brought.
		s.exec(`UPDATE events SET state = 'pending', reason = NULL, dlq_seq = NULL, redrives = 1, body_hash = sha256('x')`)
		require.Equal(t, audit.Sum{Messages: 1, InFlight: 1}, s.clean().Sum)
	})

	t.Run("begins where the stream begins", func(t *testing.T) {
		s := newSystem(t)
		s.decide(payment("evt_1", "p1", "500", ""), payment("evt_2", "p2", "500", ""), payment("evt_3", "p3", "500", ""))
		events, err := s.js.Stream(t.Context(), stream.Events)
		require.NoError(t, err)
		require.NoError(t, events.DeleteMsg(t.Context(), 1))
		require.NoError(t, events.DeleteMsg(t.Context(), 2))
		report := s.clean()
		require.Equal(t, audit.Sum{Messages: 1, Applied: 1}, report.Sum)
		require.Equal(t, uint64(3), report.Stream.First)
	})
}

// What is parked for want of money leaves the account that it asked for, empty.
func TestAnEmptyAccountOfAParkedEventIsClean(t *testing.T) {
	s := newSystem(t, "accounts: [{match: 'shop:*', limit: debits_must_not_exceed_credits, policy: enforce}]\nretry: {attempts: 1}\n"+shop)
	s.decide(payment("evt_1", "p1", "500", ""))
	report := s.clean()
	require.Equal(t, 1, report.Sum.Parked)
	var accounts, transfers int
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM accounts), (SELECT count(*) FROM transfers)`).Scan(&accounts, &transfers))
	require.Equal(t, []int{1, 0}, []int{accounts, transfers})
}

func TestLiveSystemIsClean(t *testing.T) {
	t.Run("without any patience while nothing is parked", func(t *testing.T) { auditLive(t, time.Nanosecond, "100") })
	// A letter is missing for as long as the worker that has to store it stands still.
	t.Run("with parked events among them", func(t *testing.T) { auditLive(t, time.Second, `"many"`, audit.LetterMissing) })
	t.Run("with parked events and patience", func(t *testing.T) { auditLive(t, audit.DefaultGrace, `"many"`) })
}

// auditLive audits again and again while four senders and two workers run, and may
// find what passes; every seventh event has the other amount.
func auditLive(t *testing.T, grace time.Duration, other string, passes ...audit.Kind) {
	const messages, audits = 600, 15
	s := newSystem(t)
	stopWorkers := []func(){s.work(), s.work()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	group, sending := errgroup.WithContext(ctx)
	var sent atomic.Int64
	for sender := range 4 {
		group.Go(func() error {
			for i := 0; sending.Err() == nil; i++ {
				// Two senders share each event.
				id, amount := fmt.Sprintf("evt_%d_%d", sender/2, i), "100"
				if i%7 == 0 {
					amount = other
				}
				msg, err := payment(id, id, amount, "").Msg()
				if err != nil {
					return err
				}
				if _, err := s.js.PublishMsg(sending, msg); err != nil {
					if ctx.Err() != nil {
						return nil
					}
					return err
				}
				sent.Add(1)
			}
			return nil
		})
	}
	for n := 0; (n < audits || sent.Load() < messages) && sending.Err() == nil; n++ {
		for _, f := range s.auditAfter(grace).Findings {
			require.Contains(t, passes, f.Kind, "%+v", f)
		}
	}
	cancel()
	require.NoError(t, group.Wait())
	s.settle()
	for _, stop := range stopWorkers {
		stop()
	}
	report := s.clean()
	require.Zero(t, report.Sum.InFlight)
	require.NotZero(t, report.Sum.Applied)
	t.Logf("%d messages", report.Sum.Messages)
}

func TestRunFailsWhereItCannotLook(t *testing.T) {
	s := newSystem(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	_, err := audit.Run(ctx, audit.Options{JS: s.js, Pool: s.pool, Meaning: audit.Meaning(s.cat)})
	require.ErrorIs(t, err, context.Canceled)
}
