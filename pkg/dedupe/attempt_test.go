package dedupe_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// begin asks for the attempt after the one that each row has had.
func begin(ctx context.Context, pool *pgxpool.Pool, rows ...dedupe.Row) (*dedupe.Reservation, error) {
	next := make([]*dedupe.Row, len(rows))
	for i := range rows {
		next[i] = &rows[i]
		next[i].Attempt++
	}
	var b pgx.Batch
	begun := dedupe.Begin(&b, next)
	return begun, pool.SendBatch(ctx, &b).Close()
}

func TestBeginTakesWhatIsAsItWasRead(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, stack.DatabaseURL)
	pool := pgtest.Patient(t, url, postgres.Worker)
	for no, change := range []string{
		"", // as it was read
		`state = 'processing'`,
		`state = 'failed', reason = 'rule_error'`,
		`state = 'completed', outcome = 'applied'`,
		`state = 'discarded'`,
		`attempts = 1`,
		`crashes = 1`,
		`attempt = attempt + 1`,
		`redrives = redrives + 1`,
		`body_hash = '\x` + fmt.Sprintf("%064x", 1) + `'`,
	} {
		row := in(dedupe.Pending, ignored(int64(no), fmt.Sprint("evt", no)))
		insert(t, pool, row)
		pgtest.Exec(t, url, fmt.Sprintf(`UPDATE events SET redrives = 2, attempt = 5 WHERE no = %d`, no))
		as := *read(t, pool, row.Key)
		if change != "" {
			pgtest.Exec(t, url, fmt.Sprintf(`UPDATE events SET %s WHERE no = %d`, change, no))
		}
		before := read(t, pool, row.Key)
		as.Position = dedupe.Position{StreamCreated: as.StreamCreated.Add(time.Hour), Seq: 77}
		begun, err := begin(t.Context(), pool, as)
		require.NoError(t, err, change)
		require.Equal(t, change == "", begun.New(int64(no)), change)
		have := read(t, pool, row.Key)
		if change != "" {
			require.Equal(t, before, have, change)
			continue
		}
		require.Equal(t, dedupe.Processing, have.State)
		require.Equal(t, []int{6, 0, 0, 2}, []int{have.Attempt, have.Attempts, have.Crashes, have.Redrives})
		require.EqualValues(t, 77, have.Seq)
		require.True(t, have.StreamCreated.Equal(as.StreamCreated), "the message that decides it is known")

		// It is an attempt like any other: it can be given back, and begun again.
		require.NoError(t, dedupe.GiveBack(t.Context(), pool, []dedupe.Attempt{{No: int64(no), Number: 6}}))
		begun, err = begin(t.Context(), pool, *read(t, pool, row.Key))
		require.NoError(t, err)
		require.True(t, begun.New(int64(no)))
		require.Equal(t, 7, read(t, pool, row.Key).Attempt)
	}
}

// sendAgain locks rows as an operator's redrive does, and makes them wait.
func sendAgain(ctx context.Context, pool *pgxpool.Pool, keys []dedupe.Key) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		rows, err := dedupe.LockAll(ctx, tx, keys)
		if err != nil {
			return err
		}
		var numbers []int64
		for _, row := range rows {
			numbers = append(numbers, row.No)
		}
		_, err = tx.Exec(ctx, `UPDATE events SET state = 'pending' WHERE no = ANY($1)`, numbers)
		return err
	})
}

// Workers begin the same events in any order, while operators send them again:
// nobody waits in a circle, and each attempt is begun by one of them.
func TestOverlappingBeginsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	const n = 60
	url := pgtest.Migrated(t, stack.DatabaseURL)
	pool := pgtest.Patient(t, url, postgres.Owner)
	keys := make([]dedupe.Key, n)
	for i := range n {
		id := fmt.Sprintf("evt%x", sha256.Sum256([]byte{byte(i)})) // keys in another order than numbers
		row := in(dedupe.Pending, ignored(int64(i), id))
		keys[i] = row.Key
		insert(t, pool, row)
	}
	pgtest.Exec(t, url, `UPDATE events SET redrives = 1`)
	begunBy := make([][]dedupe.Attempt, 4)
	var group errgroup.Group
	for worker := range begunBy {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(uint64(worker), 5))
			for range 30 {
				known, err := dedupe.Read(t.Context(), pool, keys)
				if err != nil {
					return err
				}
				var rows []dedupe.Row
				for _, i := range random.Perm(n)[:n/2] {
					rows = append(rows, *known[keys[i]])
				}
				begun, err := begin(t.Context(), pool, rows...)
				if err != nil && state(err) != "55P03" {
					return err
				}
				for _, r := range rows {
					if err == nil && begun.New(r.No) {
						begunBy[worker] = append(begunBy[worker], dedupe.Attempt{No: r.No, Number: r.Attempt})
					}
				}
				some := make([]dedupe.Key, 0, n/2)
				for _, i := range random.Perm(n)[:n/2] {
					some = append(some, keys[i])
				}
				if err := sendAgain(t.Context(), pool, some); err != nil && state(err) != "55P03" {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, group.Wait())
	seen := map[dedupe.Attempt]bool{}
	for _, attempts := range begunBy {
		for _, a := range attempts {
			require.False(t, seen[a], "attempt %+v was begun twice", a)
			seen[a] = true
		}
	}
	require.GreaterOrEqual(t, len(seen), n)
}
