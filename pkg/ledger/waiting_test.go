package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/ledger"
)

// side is one transaction, of the child or of its parent, a step at a time.
type side struct {
	t       *testing.T
	pool    *pgxpool.Pool
	tx      pgx.Tx
	batch   *ledger.Batch
	posting *ledger.Posting
	told    []int64
}

func (s *side) step(name string) {
	s.t.Helper()
	var q pgx.Batch
	switch name {
	case "decide":
		tx, err := s.pool.Begin(s.t.Context())
		require.NoError(s.t, err)
		s.tx, s.batch = tx, ledger.NewBatch(limits, []*ledger.Posting{s.posting})
		s.batch.Reserve(&q)
		require.NoError(s.t, s.tx.SendBatch(s.t.Context(), &q).Close())
		require.NoError(s.t, s.batch.Decide(s.t.Context(), s.tx))
	case "commit":
		s.batch.Write(&q)
		if s.posting.Awaits != "" {
			ledger.Wait(&q, s.posting)
		}
		require.NoError(s.t, s.tx.SendBatch(s.t.Context(), &q).Close())
		require.NoError(s.t, s.tx.Commit(s.t.Context()))
	case "look":
		ledger.Arrived(&q, []*ledger.Posting{s.posting}, func(events []int64) { s.told = append(s.told, events...) })
		if q.Len() > 0 {
			require.NoError(s.t, s.pool.SendBatch(s.t.Context(), &q).Close())
		}
	}
}

// orders are all ways to run two lists of steps at the same time.
func orders(a, b []string) [][]string {
	if len(a) == 0 || len(b) == 0 {
		return [][]string{slices.Concat(a, b)}
	}
	var all [][]string
	for _, rest := range orders(a[1:], b) {
		all = append(all, append([]string{a[0]}, rest...))
	}
	for _, rest := range orders(a, b[1:]) {
		all = append(all, append([]string{b[0]}, rest...))
	}
	return all
}

// Whatever order the steps of a child and of its parent have: either the child
// finds its parent, or one of the two looks finds the child, once.
func TestNoChildIsMissed(t *testing.T) {
	pool := open(t)
	steps := func(who string) []string { return []string{who + " decide", who + " commit", who + " look"} }
	all := orders(steps("child"), steps("parent"))
	require.Len(t, all, 20)
	missed := 0
	for i, order := range all {
		charge := move(fmt.Sprint("charge ", i), "bank", "shop", 10)
		refund := move(fmt.Sprint("refund ", i), "shop", "bank", 4)
		refund.Parent = charge.Operation
		sides := map[string]*side{
			"child":  {t: t, pool: pool, posting: event(refund)},
			"parent": {t: t, pool: pool, posting: event(charge)},
		}
		for _, step := range order {
			who, what, _ := strings.Cut(step, " ")
			sides[who].step(what)
		}
		child := sides["child"].posting
		told := slices.Concat(sides["child"].told, sides["parent"].told)
		if child.Err == nil {
			require.Empty(t, child.Awaits)
			require.Empty(t, told, order)
			continue
		}
		require.ErrorIs(t, child.Err, ledger.ErrMissingParent)
		require.Equal(t, charge.Operation, child.Awaits)
		require.Equal(t, []int64{child.EventNo}, told, order)
		missed++

		mustPost(t, pool, child)
		require.NoError(t, child.Err)
		require.Empty(t, child.Awaits)
	}
	require.Greater(t, missed, 10)
	require.Zero(t, notes(t, pool))
}

func notes(t *testing.T, pool *pgxpool.Pool) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM waiting`).Scan(&n))
	return n
}

// A look in the midst of the child's next try leaves it to the look behind that.
func TestALookLeavesWhoIsTriedAgain(t *testing.T) {
	pool := open(t)
	refund := move("refund", "shop", "bank", 4)
	refund.Parent = "charge"
	child := side{t: t, pool: pool, posting: event(refund)}
	parent := side{t: t, pool: pool, posting: event(move("charge", "bank", "shop", 10))}
	for _, step := range []string{"decide", "commit", "look", "decide"} {
		child.step(step)
	}
	var again pgx.Batch
	ledger.Wait(&again, child.posting) // as commit does, which then takes no part in it
	require.NoError(t, child.tx.SendBatch(t.Context(), &again).Close())
	for _, step := range []string{"decide", "commit", "look"} {
		parent.step(step)
	}
	require.Empty(t, parent.told)
	child.step("commit")
	child.step("look")
	require.Equal(t, []int64{child.posting.EventNo}, child.told)
}

func TestStopWaiting(t *testing.T) {
	pool := open(t)
	refund := move("refund", "shop", "bank", 4)
	refund.Parent = "charge"
	child, other := side{t: t, pool: pool, posting: event(refund)}, side{t: t, pool: pool}
	refund.Operation = "another refund"
	other.posting = event(refund)
	for _, s := range []*side{&child, &other} {
		s.step("decide")
		s.step("commit")
	}
	require.Equal(t, 2, notes(t, pool))
	var q pgx.Batch
	ledger.StopWaiting(&q, child.posting)
	require.NoError(t, pool.SendBatch(t.Context(), &q).Close())
	parent := side{t: t, pool: pool, posting: event(move("charge", "bank", "shop", 10))}
	for _, step := range []string{"decide", "commit", "look"} {
		parent.step(step)
	}
	require.Equal(t, []int64{other.posting.EventNo}, parent.told)
}

// The look finds what it wants by keys, also with a plan that was made while both
// tables were empty.
func TestTheLookIsIndexed(t *testing.T) {
	pool := open(t)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	look := func(operation string) (told []int64) {
		var q pgx.Batch
		ledger.Arrived(&q, []*ledger.Posting{{Posted: []ledger.Transfer{{Operation: operation}}}}, func(events []int64) { told = events })
		require.NoError(t, conn.SendBatch(t.Context(), &q).Close())
		return told
	}
	require.Empty(t, look("none"))
	pgtest.Exec(t, pool.Config().ConnString(),
		`INSERT INTO operations (key, event_no, debit, credit, asset, amount) SELECT 'op ' || i, i, 'a', 'b', 'EUR', 1 FROM generate_series(1, 50000) AS i`,
		`INSERT INTO waiting (operation, event_no) SELECT 'no ' || i, i FROM generate_series(1, 50000) AS i`,
		`INSERT INTO waiting (operation, event_no) VALUES ('op 77', 1), ('op 77', 2)`,
		`SELECT pg_stat_force_next_flush()`)
	read := func() (blocks int) {
		_, err := conn.Exec(t.Context(), `SELECT pg_stat_force_next_flush()`)
		require.NoError(t, err)
		require.NoError(t, conn.QueryRow(t.Context(), `
			SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::int
			FROM pg_statio_user_tables
			WHERE relid IN ('waiting'::regclass, 'operations'::regclass)`).Scan(&blocks))
		return blocks
	}
	before := read()
	require.ElementsMatch(t, []int64{1, 2}, look("op 77"))
	blocks := read() - before
	require.NotZero(t, blocks)
	require.Less(t, blocks, 30)
}
