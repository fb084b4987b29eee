package worker

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/pkg/dedupe"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// operate does what an operator's command does, in a transaction of its own.
func (s *system) operate(f func(pgx.Tx) error) {
	s.t.Helper()
	require.NoError(s.t, pgx.BeginFunc(s.t.Context(), s.pool, f))
}

func (s *system) setState(account string, to ledger.State) {
	s.t.Helper()
	s.operate(func(tx pgx.Tx) error {
		_, err := ledger.SetState(s.t.Context(), tx, account, "", to)
		return err
	})
}

func (s *system) openAccount(account string) {
	s.t.Helper()
	s.operate(func(tx pgx.Tx) error {
		_, err := ledger.OpenAccount(s.t.Context(), tx, account, "EUR", nil, nil)
		return err
	})
}

// parkedAs waits until an event is parked, and holds it to its reason and its text.
func (s *system) parkedAs(id string, reason dlq.Reason, text string) {
	s.t.Helper()
	row := s.decided(id, dedupe.Failed)
	require.Equal(s.t, string(reason), row.Reason)
	require.Contains(s.t, row.Error, text)
	require.Zero(s.t, row.Attempts, "it is parked at once")
}

// Which accounts open with their first transfer is the configuration's to say; what
// waits for an operator is applied once it is sent again.
func TestAccountsPolicy(t *testing.T) {
	for _, c := range []struct{ policy, applied, parked string }{
		{policy: "open", applied: "purse:1 clearing:shop stranger clearing:other"},
		{policy: "declared", applied: "purse:1 clearing:shop", parked: "stranger clearing:other"},
		{policy: "explicit", parked: "purse:1 clearing:shop stranger clearing:other"},
	} {
		t.Run(c.policy, func(t *testing.T) {
			s := newSystem(t, "accounts_policy: "+c.policy+strings.Replace(shop, "accounts:", `accounts:
  - {match: bank}
  - {match: "clearing:{source}"}`, 1))
			s.start()
			if c.policy == "explicit" {
				s.openAccount("bank")
			}
			applied, waiting := strings.Fields(c.applied), strings.Fields(c.parked)
			for _, name := range append(applied, waiting...) {
				s.publish(payment("evt_"+name, "p_"+name, "bank", name, 5))
			}
			for _, name := range applied {
				s.decided("evt_"+name, dedupe.Completed)
				require.EqualValues(t, 5, s.balance(name))
			}
			for _, name := range waiting {
				s.parkedAs("evt_"+name, dlq.AccountUnknown, name+" in EUR")
				require.Zero(t, s.count(`SELECT count(*) FROM accounts WHERE name = $1`, name))
			}
			s.settled()
			require.EqualValues(t, -5*len(applied), s.balance("bank"))
			require.Len(t, s.letters(), len(waiting))

			for _, name := range waiting {
				s.openAccount(name)
			}
			s.redriveAll()
			s.settled()
			require.Empty(t, s.letters())
			for _, name := range waiting {
				require.EqualValues(t, 5, s.balance(name), name)
			}
			require.EqualValues(t, -20, s.balance("bank"))
		})
	}
}

func TestFrozenAndClosedAccounts(t *testing.T) {
	s := newSystem(t, shop)
	var w *worker
	s.start(func(started *worker) { w = started })
	s.publish(payment("evt_1", "p1", "bank", "wallet:1", 5), payment("evt_2", "p2", "bank", "open:1", 5), payment("evt_3", "p3", "bank", "purse:1", 5))
	s.settled()
	for _, name := range []string{"wallet:1", "open:1", "purse:1"} {
		s.setState(name, ledger.StateFrozen)
	}
	s.publish(
		payment("evt_in", "p_in", "bank", "wallet:1", 1),
		payment("evt_out", "p_out", "wallet:1", "bank", 1),
		payment("evt_spend", "p_spend", "purse:1", "bank", 1),
		payment("evt_topup", "p_topup", "bank", "open:1", 1),
		payment("evt_fact", "p_fact", "open:1", "bank", 7),
		payment("evt_free", "p_free", "bank", "wallet:2", 1),
	)
	s.parkedAs("evt_in", dlq.AccountFrozen, "wallet:1 in EUR")
	s.parkedAs("evt_out", dlq.AccountFrozen, "wallet:1 in EUR")
	s.parkedAs("evt_spend", dlq.AccountFrozen, "purse:1 in EUR")
	s.parkedAs("evt_topup", dlq.AccountFrozen, "open:1 in EUR")
	s.decided("evt_free", dedupe.Completed)
	require.Equal(t, dedupe.Applied, s.decided("evt_fact", dedupe.Completed).Outcome, "a refund under a limit that records has happened")
	s.settled()
	require.EqualValues(t, -2, s.balance("open:1"))
	require.Equal(t, 1, s.logged("account is frozen: what its limit only records was posted all the same"))
	require.Equal(t, 1, s.logged("account is overdrawn"))
	require.InDelta(t, 1, testutil.ToFloat64(w.metrics.frozen), 0)

	for _, name := range []string{"wallet:1", "open:1", "purse:1"} {
		s.setState(name, ledger.StateOpen)
	}
	s.redriveAll()
	s.settled()
	require.Empty(t, s.letters())
	require.Equal(t, []int64{5, -1, 4}, []int64{s.balance("wallet:1"), s.balance("open:1"), s.balance("purse:1")})

	s.publish(payment("evt_rest", "p_rest", "wallet:1", "bank", 5))
	s.settled()
	s.setState("wallet:1", ledger.StateClosed)
	s.publish(payment("evt_late", "p_late", "bank", "wallet:1", 1))
	s.parkedAs("evt_late", dlq.AccountClosed, "wallet:1 in EUR")
	s.settled()
	s.redriveAll()
	s.settled()
	require.Len(t, s.letters(), 1, "closed is for good")
	require.Equal(t, dlq.AccountClosed, s.letters()[0].Reason)
}

// A freeze that comes between the two round trips of a batch costs a second try, and
// no event an attempt.
func TestAFreezeWhileABatchRuns(t *testing.T) {
	s := newSystem(t, shop)
	stop := s.start()
	s.publish(payment("evt_1", "p1", "bank", "wallet:1", 5))
	s.settled()
	stop()
	events := []*envelope.Event{payment("evt_frozen", "p2", "bank", "wallet:1", 1)}
	for _, id := range []string{"evt_a", "evt_b", "evt_c"} {
		events = append(events, payment(id, "p"+id, "bank", "wallet:2", 1))
	}
	// One of the two loops is held, so that the first batch of the other begins with it.
	held, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	var batches atomic.Int64
	var w *worker
	s.start(func(started *worker) {
		w = started
		w.between = func() {
			switch batches.Add(1) {
			case 1:
				close(held)
				<-goOn
			case 2:
				s.setState("wallet:1", ledger.StateFrozen)
			}
		}
	})
	s.publish(payment("evt_held", "p_held", "bank", "wallet:3", 1))
	<-held
	s.publish(events...)
	s.parkedAs("evt_frozen", dlq.AccountFrozen, "wallet:1 in EUR")
	release()
	s.settled()
	require.InDelta(t, 1, testutil.ToFloat64(w.metrics.again), 0)
	require.Zero(t, testutil.ToFloat64(w.metrics.bisected))
	require.EqualValues(t, 3, s.balance("wallet:2"))
	require.EqualValues(t, 5, s.balance("wallet:1"))
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE attempts > 0`), "no attempt is spent")
}

// An account's declaration may name its assets: money in another one waits for a
// person, and passes once the declaration names it.
func TestAccountsInTheirAssets(t *testing.T) {
	dollars := strings.Replace(shop, `{match: "purse:*",`, `{match: "purse:*", asset: [USD, GBP],`, 1)
	s := newSystem(t, dollars)
	stop := s.start()
	s.publish(payment("evt_eur", "p1", "bank", "purse:1", 5), payment("evt_other", "p2", "bank", "wallet:1", 5))
	s.parkedAs("evt_eur", dlq.CurrencyMismatch, "account purse:1 takes USD, GBP alone, by its declaration purse:*, and no EUR")
	s.decided("evt_other", dedupe.Completed)
	s.settled()
	stop()
	s.cat = s.load(shop)
	s.start()
	s.redriveAll()
	s.settled()
	require.Empty(t, s.letters())
	require.EqualValues(t, 5, s.balance("purse:1"))
}
