package audit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/audit"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// advance runs the audit on, without patience.
func (s *system) advance() *audit.Progress {
	s.t.Helper()
	p, err := audit.Advance(s.t.Context(), audit.Options{JS: s.js, Pool: s.pool, Meaning: audit.Meaning(s.cat), Grace: time.Nanosecond})
	require.NoError(s.t, err)
	sum := p.Sum
	require.Equal(s.t, sum.Messages, sum.Applied+sum.Ignored+sum.DuplicateOperation+sum.Duplicates+
		sum.Parked+sum.Discarded+sum.Redriven+sum.InFlight+sum.Unaccounted, "the terms add up: %+v", sum)
	return p
}

// agrees holds an incremental run against a full one. A parked message whose
// content comes again after another one was applied is a duplicate of that, for
// the full audit; the incremental one has counted it before.
func (s *system) agrees() {
	s.t.Helper()
	p, full := s.advance(), s.audit()
	for _, sum := range []*audit.Sum{&full.Sum, &p.Sum} {
		sum.Duplicates, sum.Parked = sum.Duplicates+sum.Parked, 0
	}
	require.Equal(s.t, full.Sum, p.Sum, "%+v\n%+v", full.Findings, p.Findings)
	require.Equal(s.t, full.Books.Assets, p.Books.Assets)
	require.ElementsMatch(s.t, kinds(full), kinds(&p.Report), "%+v\n%+v", full.Findings, p.Findings)
}

// TestAdvanceAgreesWithRun lets a system live in random steps and compares the
// two audits after some of them; in the end it loses rows, and they still agree.
func TestAdvanceAgreesWithRun(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newSystem(t)
	stop := s.work()
	published := 0
	for range 12 {
		for range random.IntN(30) {
			published++
			id := fmt.Sprintf("evt_%d", random.IntN(published+1))
			amount := []string{"500", "500", "500", "900", `"many"`}[random.IntN(5)]
			s.publish(payment(id, id, amount, []string{"", `,"note":"resent"`}[random.IntN(2)]))
		}
		switch random.IntN(3) {
		case 0:
			s.settle()
			s.agrees()
		case 1:
			s.advance()
		}
	}
	s.settle()
	stop()
	s.agrees()
	require.Zero(t, s.advance().Problems)

	stop = s.work()
	fresh := payment("evt_new", "new", "100", "")
	s.publish(fresh)
	s.publish(payment("evt_new_2", "new 2", "100", ""))
	s.settle()
	stop()
	s.exec(
		`DELETE FROM events WHERE event_id = 'evt_new'`,
		`UPDATE events SET state = 'pending', outcome = NULL WHERE event_id = 'evt_new_2'`,
		`UPDATE accounts SET credits_posted = credits_posted + 1`,
	)
	s.agrees()
	p := s.advance()
	require.Equal(t, 2, p.Sum.Unaccounted)
	require.Len(t, p.Unaccounted, 2)
	require.Equal(t, audit.Lost, p.Unaccounted[0].Kind)
	require.Equal(t, "evt_new", p.Unaccounted[0].Key.ID)
	require.Equal(t, 5, p.MoneyDifferences, "two transfers without applied events, two balances, a total: %+v", p.Findings)

	s.work()
	s.publish(fresh) // what the sweep would do
	s.settle()
	p = s.advance()
	require.Equal(t, 1, p.Sum.Unaccounted, "the first has its event again")
}

func TestAdvance(t *testing.T) {
	t.Run("carries what is open until it is decided", func(t *testing.T) {
		s := newSystem(t)
		s.decide(payment("evt_1", "p1", "500", ""))
		s.publish(payment("evt_2", "p2", "500", ""))
		p := s.advance()
		require.Equal(t, audit.Sum{Messages: 2, Applied: 1, InFlight: 1}, p.Sum)
		require.Equal(t, uint64(1), p.Accounted, "what was not delivered is not read")
		s.decide()
		p = s.advance()
		require.Equal(t, audit.Sum{Messages: 2, Applied: 2}, p.Sum)
		require.Equal(t, uint64(2), p.Accounted)
		require.Zero(t, p.Open)
		require.False(t, p.More)
	})

	t.Run("finds changed balances, also of accounts that nothing moves on", func(t *testing.T) {
		s := newSystem(t)
		s.decide(payment("evt_1", "p1", "500", ""), payment("evt_2", "p2", "700", ""))
		require.True(t, s.advance().Clean)
		require.True(t, s.advance().Clean)
		s.decide(payment("evt_3", "p3", "1", ""))
		require.True(t, s.advance().Clean, "sums go on where they ended")
		s.exec(`UPDATE accounts SET credits_posted = credits_posted + 1 WHERE name = 'purse:a'`)
		for range 2 {
			p := s.advance()
			require.Equal(t, []audit.Kind{audit.BalanceDiffers, audit.TotalDiffers}, kinds(&p.Report))
			require.Equal(t, 2, p.MoneyDifferences)
		}
	})

	t.Run("keeps wrong transfers reported until they are right", func(t *testing.T) {
		s := newSystem(t)
		s.decide(payment("evt_1", "p1", "500", ""))
		require.True(t, s.advance().Clean)
		s.exec(`INSERT INTO transfers (event_no, n, operation, debit, credit, asset, amount) VALUES (777777, 0, 'forged', 'a', 'b', 'EUR', 5)`)
		for range 3 {
			p := s.advance()
			require.ElementsMatch(t, []audit.Kind{audit.NoEvent, audit.NoOperation, audit.BalanceDiffers, audit.BalanceDiffers}, kinds(&p.Report))
		}
	})

	t.Run("builds its sums anew where the database came from another server", func(t *testing.T) {
		s := newSystem(t)
		s.decide(payment("evt_1", "p1", "500", ""))
		require.True(t, s.advance().Clean)
		// What a dump leaves behind: transactions of another server, far ahead.
		s.exec(`UPDATE transfers SET posted_in = '99999999999'`)
		_, err := s.pool.Exec(t.Context(), `UPDATE audit_ledger SET cluster = 1, posted_before = 99999999990`)
		require.NoError(t, err)
		require.True(t, s.advance().Clean)
		var sum int64
		require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT sum(debits)::bigint FROM audit_balances`).Scan(&sum))
		require.Equal(t, int64(500), sum, "they are not read again in every run")
		s.decide(payment("evt_2", "p2", "700", ""))
		require.True(t, s.advance().Clean)
		s.exec(`UPDATE accounts SET credits_posted = credits_posted + 1 WHERE name = 'purse:a'`)
		require.False(t, s.advance().Clean)
	})

	t.Run("builds its sums anew where a dump brought transfers that they lack", func(t *testing.T) {
		s := newSystem(t)
		s.decide(payment("evt_1", "p1", "500", ""))
		require.True(t, s.advance().Clean)
		s.decide(payment("evt_2", "p2", "700", ""))
		s.exec(`UPDATE transfers SET amount = amount`) // written by another transaction than they say
		require.True(t, s.advance().Clean)
		require.True(t, s.advance().Clean)
	})

	t.Run("builds its sums anew where they were damaged and an operator took their mark away", func(t *testing.T) {
		s := newSystem(t)
		s.decide(payment("evt_1", "p1", "500", ""))
		require.True(t, s.advance().Clean)
		_, err := s.pool.Exec(t.Context(), `DELETE FROM audit_balances`)
		require.NoError(t, err)
		for range 2 {
			require.Equal(t, []audit.Kind{audit.BalanceDiffers, audit.BalanceDiffers}, kinds(&s.advance().Report))
		}
		require.True(t, s.audit().Clean)
		_, err = s.pool.Exec(t.Context(), `DELETE FROM audit_ledger`)
		require.NoError(t, err)
		require.True(t, s.advance().Clean)
		require.True(t, s.advance().Clean)
	})

	t.Run("names messages that were trimmed before they were accounted for", func(t *testing.T) {
		s := newSystem(t)
		s.decide(payment("evt_1", "p1", "500", ""))
		require.True(t, s.advance().Clean)
		s.decide(payment("evt_2", "p2", "500", ""), payment("evt_3", "p3", "500", ""), payment("evt_4", "p4", "500", ""))
		events, err := s.js.Stream(t.Context(), stream.Events)
		require.NoError(t, err)
		require.NoError(t, events.DeleteMsg(t.Context(), 1))
		require.True(t, s.advance().Clean, "it was accounted for")
		_, err = s.pool.Exec(t.Context(), `UPDATE audit_marks SET seq = 1`) // as of an older backup
		require.NoError(t, err)
		require.NoError(t, events.DeleteMsg(t.Context(), 2))
		require.NoError(t, events.DeleteMsg(t.Context(), 3))
		for range 2 {
			p := s.advance()
			require.Equal(t, []audit.Kind{audit.Gone}, kinds(&p.Report))
			require.Contains(t, p.Findings[0].Detail, "2 messages")
		}
		require.Equal(t, []audit.Kind{audit.Gone}, kinds(s.audit()), "the full audit knows, too")
		require.Equal(t, audit.Acknowledged{Messages: 2}, s.acknowledge())
		s.clean()
		require.True(t, s.advance().Clean)
		_, err = s.pool.Exec(t.Context(), `UPDATE audit_marks SET seq = 1, gone = gone - 1`)
		require.NoError(t, err)
		require.Contains(t, s.advance().Findings[0].Detail, "1 message ", "what goes later is found again")
	})

	t.Run("names what was in flight in a stream that was made anew", func(t *testing.T) {
		s := newSystem(t)
		s.decide(payment("evt_1", "p1", "500", ""))
		s.publish(payment("evt_2", "p2", "500", ""))
		consumer, err := s.js.Consumer(t.Context(), stream.Events, stream.Consumer)
		require.NoError(t, err)
		batch, err := consumer.Fetch(1)
		require.NoError(t, err)
		<-batch.Messages()
		require.Equal(t, 1, s.advance().Open)
		require.True(t, s.acknowledge().None(), "which does not cover what is lost later")
		require.NoError(t, s.js.DeleteStream(t.Context(), stream.Events))
		require.NoError(t, stream.Ensure(t.Context(), s.js, s.cat.Config.NATS))
		require.Equal(t, []audit.Kind{audit.Gone, audit.Gone}, kinds(&s.advance().Report), "one, and what nobody had looked at")
		s.decide(payment("evt_2", "p2", "500", "")) // the provider sends it again
		p := s.advance()
		require.Equal(t, []audit.Kind{audit.Gone}, kinds(&p.Report))
		require.Contains(t, p.Findings[0].Detail, "was accounted for up to message 2")
		require.Equal(t, []audit.Kind{audit.Gone}, kinds(s.audit()))
		require.Equal(t, audit.Acknowledged{Undecided: 1, Streams: 1}, s.acknowledge())
		require.True(t, s.advance().Clean)
		s.clean()
	})

	t.Run("begins anew where the stream was restored from an older copy", func(t *testing.T) {
		for name, fresh := range map[string]int{"shorter than it was": 1, "and is longer by now": 4} {
			t.Run(name, func(t *testing.T) {
				s := newSystem(t)
				s.decide(payment("evt_1", "p1", "500", ""))
				require.True(t, s.advance().Clean)
				backup := s.backUp()
				s.decide(payment("evt_2", "p2", "500", ""), payment("evt_3", "p3", "500", ""))
				require.Equal(t, uint64(3), s.advance().Accounted)
				s.restore(backup)
				for i := range fresh {
					s.publish(payment(fmt.Sprint("evt_new_", i), fmt.Sprint("new", i), "500", ""))
				}
				s.decide()
				p := s.advance()
				require.Equal(t, []audit.Kind{audit.Gone}, kinds(&p.Report), "a person is told")
				require.Equal(t, audit.Sum{Messages: 1 + fresh, Applied: 1 + fresh}, p.Sum)
				require.Equal(t, []audit.Kind{audit.Gone}, kinds(&s.advance().Report), "until it is acknowledged")
				require.True(t, s.acknowledge().Restored)
				require.True(t, s.acknowledge().None())
				p = s.advance()
				require.Empty(t, p.Findings)
				require.Equal(t, audit.Sum{Messages: 1 + fresh, Applied: 1 + fresh}, p.Sum)
				s.decide(payment("evt_2", "p2", "500", "")) // its sender sends it again
				want := audit.Sum{Messages: 2 + fresh, Applied: 1 + fresh, Duplicates: 1}
				require.Equal(t, want, s.advance().Sum)
				require.Equal(t, want, s.clean().Sum, "whose events name sequences that others have now")
			})
		}
	})

	t.Run("is explained by a superseded content after its letter is removed", func(t *testing.T) {
		s := newSystem(t)
		bad := payment("evt_1", "p1", `"many"`, "")
		resent := payment("evt_1", "p1", `"many"`, `,"note":"resent"`) // other bytes, the same meaning
		s.decide(bad, resent, payment("evt_1", "p1", "500", ""))
		full := s.clean()
		require.Equal(t, 1, full.Letters.Stale)
		require.Equal(t, audit.Sum{Messages: 3, Applied: 1, Duplicates: 1, Parked: 1}, full.Sum)
		p := s.advance()
		require.True(t, p.Clean, "%+v", p.Findings)
		require.Equal(t, full.Sum, p.Sum)
		s.deleteLetter(1)
		require.Equal(t, []audit.Kind{audit.OtherContent, audit.OtherContent}, kinds(s.audit()), "nothing explains them")
		hash := s.hash(1)
		require.NoError(t, dedupe.Supersede(t.Context(), s.pool, []dedupe.Superseded{{
			Key: dedupe.Key{Source: "shop", ID: "evt_1"}, BodyHash: hash, Reason: "amount_format",
			Position: dedupe.Position{StreamCreated: p.Stream.Created, Seq: 1},
		}}))
		require.Equal(t, full.Sum, s.clean().Sum)
	})

	t.Run("is done by one at a time", func(t *testing.T) {
		s := newSystem(t)
		for i := range 50 {
			s.publish(payment(fmt.Sprintf("evt_%d", i), fmt.Sprint(i), "1", ""))
		}
		s.decide()
		var group errgroup.Group
		for range 8 {
			group.Go(func() error {
				_, err := audit.Advance(context.Background(), audit.Options{JS: s.js, Pool: s.pool, Meaning: audit.Meaning(s.cat)})
				if errors.Is(err, audit.ErrFenced) {
					return nil
				}
				return err
			})
		}
		require.NoError(t, group.Wait())
		p := s.advance()
		require.True(t, p.Clean, "%+v", p.Findings)
		require.Equal(t, audit.Sum{Messages: 50, Applied: 50}, p.Sum)
	})
}
