package dedupe_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

func TestOfManyReservationsOfOneKeyOneIsNew(t *testing.T) {
	t.Parallel()
	pool := open(t)
	for round := range 10 {
		id := fmt.Sprint("evt_", round)
		var news atomic.Int64
		var winner atomic.Pointer[dedupe.Row]
		losers := make(chan *dedupe.Row, 16)
		var group errgroup.Group
		for n := range int64(16) {
			group.Go(func() error {
				return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					row := ignored(int64(round)*100+n, id)
					reserved, err := reserve(t.Context(), tx, row)
					if err != nil {
						return err
					}
					if reserved.New(row.No) {
						news.Add(1)
						winner.Store(row)
						return nil
					}
					known, err := dedupe.Read(t.Context(), tx, []dedupe.Key{row.Key})
					losers <- known[row.Key]
					return err
				})
			})
		}
		require.NoError(t, group.Wait())
		require.EqualValues(t, 1, news.Load())
		require.Len(t, losers, 15)
		for range 15 {
			seen := <-losers
			require.NotNil(t, seen)
			require.Equal(t, winner.Load().No, seen.No)
		}
	}
}

func TestARolledBackHolderLetsTheNextIn(t *testing.T) {
	t.Parallel()
	pool := open(t)
	holder, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = reserve(t.Context(), holder, ignored(1, "evt"))
	require.NoError(t, err)

	waiter, err := pool.Begin(t.Context())
	require.NoError(t, err)
	isNew := make(chan bool)
	go func() {
		reserved, err := reserve(t.Context(), waiter, ignored(2, "evt"))
		isNew <- err == nil && reserved.New(2)
	}()
	waiting(t, pool, waiter)
	require.NoError(t, holder.Rollback(t.Context()))
	require.True(t, <-isNew)
	require.NoError(t, waiter.Commit(t.Context()))
	require.EqualValues(t, 2, read(t, pool, ignored(2, "evt").Key).No)
}

var errRollback = errors.New("rolled back on purpose")

// Eight goroutines reserve overlapping keys in random order; half of them roll
// back, so that keys stay contended. Without the lock order this deadlocks at once.
func TestOverlappingBatchesDoNotDeadlock(t *testing.T) {
	t.Parallel()
	pool := open(t)
	const keys = 80
	var group errgroup.Group
	for worker := range 8 {
		group.Go(func() error {
			var numbers dedupe.Numbers
			random := rand.New(rand.NewPCG(uint64(worker), 1))
			for round := range 30 {
				if err := numbers.Reserve(t.Context(), pool, keys); err != nil {
					return err
				}
				var rows []*dedupe.Row
				for _, k := range random.Perm(keys)[:keys/2] {
					rows = append(rows, ignored(numbers.Take(), fmt.Sprintf("evt_%d_%d", round, k)))
				}
				err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
					if _, err := reserve(t.Context(), tx, rows...); err != nil {
						return err
					}
					if random.IntN(2) == 0 {
						return errRollback
					}
					return nil
				})
				if err != nil && !errors.Is(err, errRollback) {
					return fmt.Errorf("round %d: %w", round, err)
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}

// Letters of the same events are recorded by several workers at once.
func TestOverlappingLettersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, stack.DatabaseURL)
	pool := pgtest.Patient(t, url, postgres.Worker)
	const events = 120
	rows := make([]*dedupe.Row, events)
	for n := range rows {
		rows[n] = in(dedupe.Failed, ignored(int64(n), fmt.Sprint(rand.Uint64())))
	}
	insert(t, pool, rows...)
	for round := range 12 {
		if round == 6 { // the plan that was made for a small table meets statistics
			pgtest.Exec(t, url, `ANALYZE events`)
		}
		pgtest.Exec(t, url, `UPDATE events SET dlq_seq = NULL`)
		var group errgroup.Group
		for range 8 {
			group.Go(func() error {
				var letters []dedupe.Parking
				for _, n := range rand.Perm(events)[:80] {
					letters = append(letters, dedupe.Parking{No: int64(n), Letter: uint64(n) + 1})
				}
				return dedupe.Parked(t.Context(), pool, letters)
			})
		}
		require.NoError(t, group.Wait())
		pool.Reset()
	}
}

func TestNumbersAreUnique(t *testing.T) {
	t.Parallel()
	pool := open(t)
	var mu sync.Mutex
	seen := make(map[int64]bool)
	var group errgroup.Group
	for worker := range 8 {
		group.Go(func() error {
			var numbers dedupe.Numbers
			random := rand.New(rand.NewPCG(uint64(worker), 2))
			for range 50 {
				n := 1 + random.IntN(1000)
				if err := numbers.Reserve(t.Context(), pool, n); err != nil {
					return err
				}
				mu.Lock()
				for range n {
					no := numbers.Take()
					if seen[no] || no < 0 {
						mu.Unlock()
						return fmt.Errorf("number %d was handed out twice", no)
					}
					seen[no] = true
				}
				mu.Unlock()
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
}

func TestNumbersAreReservedFirst(t *testing.T) {
	t.Parallel()
	pool := open(t)
	var numbers dedupe.Numbers
	require.Panics(t, func() { numbers.Take() })
	require.ErrorContains(t, numbers.Reserve(t.Context(), pool, 1001), "exceeds the block")
	require.NoError(t, numbers.Reserve(t.Context(), pool, 1000))
	for want := range int64(1000) {
		require.Equal(t, want, numbers.Take()) // the first block of a new database
	}
	require.Panics(t, func() { numbers.Take() })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, numbers.Reserve(ended, pool, 1), context.Canceled)
}
