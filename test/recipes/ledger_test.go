package recipes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/worker"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// ledgerRun applies a recipe's events to a ledger as a worker does: an event once,
// what is refused for now again later, what is refused for good never. Each run has
// accounts and operations of its own, by a prefix.
type ledgerRun struct {
	pool     *pgxpool.Pool
	cat      *catalog.Catalog
	runs     int
	eventNos int64

	prefix  string
	settled map[string]bool       // by event key: applied, ignored or parked
	waiting []event               // refused for now
	parked  map[string]dlq.Reason // by event key; of those that wait, why they do
}

// outcome is what a run came to.
type outcome struct {
	balances, held map[string]map[string]int64
	parked         map[string]string
}

// run delivers each event one to three times, in an order and in batches that are
// drawn, and then what waits until nothing more can be applied.
func (l *ledgerRun) run(rt *rapid.T, told []event) outcome {
	l.runs++
	l.prefix = fmt.Sprintf("run%d/", l.runs)
	l.settled, l.waiting, l.parked = map[string]bool{}, nil, map[string]dlq.Reason{}

	l.deliver(rt, told)
	for before := -1; before != len(l.waiting); {
		before = len(l.waiting)
		l.apply(rt, slices.Clone(l.waiting))
	}
	return l.outcome(rt, told)
}

func (l *ledgerRun) deliver(rt *rapid.T, told []event) {
	var copies []string
	byName := map[string]event{}
	for _, e := range told {
		byName[e.name] = e
		copies = append(copies, slices.Repeat([]string{e.name}, rapid.IntRange(1, 3).Draw(rt, "copies of "+e.name))...)
	}
	order := rapid.Permutation(copies).Draw(rt, "order")
	for len(order) > 0 {
		n := min(rapid.SampledFrom([]int{1, 2, 5, 10, 50}).Draw(rt, "batch"), len(order))
		var batch []event
		for _, name := range order[:n] {
			batch = append(batch, byName[name])
		}
		if rapid.Bool().Draw(rt, "retry") {
			batch = append(batch, l.waiting...)
		}
		l.apply(rt, batch)
		order = order[n:]
	}
}

// apply posts a batch of deliveries in one transaction.
func (l *ledgerRun) apply(rt *rapid.T, batch []event) {
	var tried []event
	var postings []*ledger.Posting
	for _, e := range batch {
		if l.settled[e.key] || slices.ContainsFunc(tried, func(o event) bool { return o.key == e.key }) {
			continue
		}
		if e.decision.Parked != "" {
			l.settled[e.key], l.parked[e.key] = true, e.decision.Parked
			continue
		}
		l.eventNos++
		tried = append(tried, e)
		postings = append(postings, &ledger.Posting{EventNo: l.eventNos, Transfers: l.prefixed(e.decision.Transfers)})
	}
	if len(postings) == 0 {
		return
	}
	require.NoError(rt, pgx.BeginFunc(context.Background(), l.pool, func(tx pgx.Tx) error { return l.post(tx, postings) }))
	for i, e := range tried {
		l.waiting = slices.DeleteFunc(l.waiting, func(o event) bool { return o.key == e.key })
		delete(l.parked, e.key)
		var reason dlq.Reason
		if err := postings[i].Err; err != nil {
			reason = worker.Refusal(err)
			l.parked[e.key] = reason
		}
		if info, _ := reason.Info(); info.Transient {
			l.waiting = append(l.waiting, e)
		} else {
			l.settled[e.key] = true
		}
	}
}

func (l *ledgerRun) post(tx pgx.Tx, postings []*ledger.Posting) error {
	batch := ledger.NewBatch(l.limit, postings)
	var reserve, write pgx.Batch
	batch.Reserve(&reserve)
	if err := tx.SendBatch(context.Background(), &reserve).Close(); err != nil {
		return fmt.Errorf("reserve postings: %w", err)
	}
	if err := batch.Decide(context.Background(), tx); err != nil {
		return err
	}
	batch.Write(&write)
	if err := tx.SendBatch(context.Background(), &write).Close(); err != nil {
		return fmt.Errorf("write postings: %w", err)
	}
	return nil
}

func (l *ledgerRun) prefixed(transfers []ledger.Transfer) []ledger.Transfer {
	own := slices.Clone(transfers)
	for i := range own {
		t := &own[i]
		for _, name := range []*string{&t.Operation, &t.Debit, &t.Credit, &t.Parent} {
			if *name != "" {
				*name = l.prefix + *name
			}
		}
	}
	return own
}

func (l *ledgerRun) limit(account string) (ledger.Limit, bool) {
	_, name, _ := strings.Cut(account, "/")
	return l.cat.Limit(name)
}

// outcome reads what stands, and holds it to what must hold of any books.
func (l *ledgerRun) outcome(rt *rapid.T, told []event) outcome {
	got := outcome{balances: l.accounts(rt), held: l.held(rt), parked: map[string]string{}}
	sums := map[string]int64{}
	for name, assets := range got.balances {
		for asset, balance := range assets {
			sums[asset] += balance
			limit, ok := l.cat.Limit(name)
			if ok && limit.Enforce && limit.Rule == ledger.DebitsMustNotExceedCredits {
				require.GreaterOrEqual(rt, balance, int64(0), name)
			}
		}
	}
	for asset, sum := range sums {
		require.Zero(rt, sum, asset)
	}
	require.Equal(rt, l.transfers(rt), got.balances, "balances are the sums of the transfers")
	for _, e := range told {
		if reason, ok := l.parked[e.key]; ok {
			got.parked[e.name] = string(reason)
		}
	}
	return got
}

// accounts are the balances as the accounts have them.
func (l *ledgerRun) accounts(rt *rapid.T) map[string]map[string]int64 {
	return l.balances(rt, `
		SELECT name, asset, credits_posted - debits_posted
		FROM accounts
		WHERE starts_with(name, $1)`)
}

// held is what is held of the accounts' debits, once whatever has expired is released.
func (l *ledgerRun) held(rt *rapid.T) map[string]map[string]int64 {
	require.NoError(rt, pgx.BeginFunc(context.Background(), l.pool, func(tx pgx.Tx) error {
		_, err := ledger.ReleaseExpired(context.Background(), tx, l.limit, 1000)
		return err
	}))
	return l.balances(rt, `
		SELECT name, asset, debits_pending
		FROM accounts
		WHERE starts_with(name, $1)`)
}

// transfers are the balances as the transfers come to.
func (l *ledgerRun) transfers(rt *rapid.T) map[string]map[string]int64 {
	return l.balances(rt, `
		SELECT name, asset, sum(amount)::bigint
		FROM (
		    SELECT debit AS name, asset, -amount AS amount, operation FROM transfers
		    UNION ALL
		    SELECT credit, asset, amount, operation FROM transfers) AS sides
		WHERE starts_with(name, $1)
		GROUP BY name, asset`)
}

func (l *ledgerRun) balances(rt *rapid.T, query string) map[string]map[string]int64 {
	all := map[string]map[string]int64{}
	var name, asset string
	var balance int64
	rows, _ := l.pool.Query(context.Background(), query, l.prefix)
	_, err := pgx.ForEachRow(rows, []any{&name, &asset, &balance}, func() error {
		name = strings.TrimPrefix(name, l.prefix)
		if balance == 0 {
			return nil
		}
		if all[name] == nil {
			all[name] = map[string]int64{}
		}
		all[name][asset] = balance
		return nil
	})
	require.NoError(rt, err)
	return all
}
