package dedupe_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

func TestReadings(t *testing.T) {
	t.Parallel()
	const budget = 2
	pool := open(t)
	key := dedupe.Key{Source: "shop", ID: "evt_1"}
	reading := func(redrive int) dedupe.Reading { return dedupe.NewReading(key, [32]byte{1}, redrive) }
	begin := func(r dedupe.Reading, quiet time.Duration) dedupe.Readable {
		t.Helper()
		readable, err := dedupe.BeginReading(t.Context(), pool, r, quiet, budget)
		require.NoError(t, err)
		return readable
	}
	end := func(readings ...dedupe.Reading) {
		t.Helper()
		require.NoError(t, dedupe.EndReadings(t.Context(), pool, readings))
	}
	const soon, late = time.Hour, 0 // within which its reader counts as alive

	first := reading(0)
	require.Equal(t, dedupe.Begun, begin(first, soon))
	require.Equal(t, dedupe.Busy, begin(reading(0), soon), "it is being read")
	other := dedupe.NewReading(key, [32]byte{2}, 0)
	require.Equal(t, dedupe.Begun, begin(other, soon), "another content")
	end(other, reading(0))
	require.Equal(t, dedupe.Busy, begin(reading(0), soon), "only its reader ends it")
	end(first)
	slow, second := reading(0), reading(0)
	require.Equal(t, dedupe.Begun, begin(slow, soon))
	require.Equal(t, dedupe.Begun, begin(second, late), "one worker died of it")
	end(slow)
	require.Equal(t, dedupe.Busy, begin(reading(0), soon), "who was taken for dead ends nothing")
	require.Equal(t, dedupe.Deadly, begin(reading(0), late), "two did")
	require.Equal(t, dedupe.Deadly, begin(reading(0), late), "time does not help")
	end(second)
	require.Equal(t, dedupe.Deadly, begin(reading(0), late), "nor does the last but one")

	t.Run("one that is kept is not dead", func(t *testing.T) {
		key := dedupe.Key{Source: "shop", ID: "evt_2"}
		r, other := dedupe.NewReading(key, [32]byte{1}, 0), dedupe.NewReading(key, [32]byte{1}, 0)
		require.Equal(t, dedupe.Begun, begin(r, soon))
		old := func() {
			_, err := pool.Exec(t.Context(), `UPDATE readings SET begun_at = begun_at - interval '1 hour' WHERE event_id = 'evt_2'`)
			require.NoError(t, err)
		}
		old()
		require.NoError(t, dedupe.KeepReadings(t.Context(), pool, []dedupe.Reading{r}))
		require.Equal(t, dedupe.Busy, begin(other, time.Minute))
		old()
		require.NoError(t, dedupe.KeepReadings(t.Context(), pool, []dedupe.Reading{other}))
		require.NotEqual(t, dedupe.Busy, begin(other, time.Minute), "only its reader keeps it")
	})

	require.Equal(t, dedupe.Begun, begin(reading(1), soon), "an operator sent it again")
	require.Equal(t, dedupe.Begun, begin(reading(0), late), "one died of it since")
	require.Equal(t, dedupe.Deadly, begin(reading(1), late))
}

// A restart of the server ends readings, and nobody dies of that.
func TestRestartKillsNoReader(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, stack.DatabaseURL)
	pool := pgtest.Patient(t, url, postgres.Worker)
	for range 5 {
		readable, err := dedupe.BeginReading(t.Context(), pool, dedupe.NewReading(dedupe.Key{Source: "shop", ID: "evt_1"}, [32]byte{1}, 0), time.Second, 1)
		require.NoError(t, err)
		require.Equal(t, dedupe.Begun, readable)
		pgtest.Exec(t, url, `UPDATE readings SET begun_at = pg_postmaster_start_time() - interval '2 seconds'`)
	}
}

func TestReadingsAreLockedInKeyOrder(t *testing.T) {
	t.Parallel()
	pool := open(t)
	var readings []dedupe.Reading
	for _, id := range []string{"evt_b", "evt_a"} {
		r := dedupe.NewReading(dedupe.Key{Source: "shop", ID: id}, [32]byte{1}, 0)
		_, err := dedupe.BeginReading(t.Context(), pool, r, time.Hour, 3)
		require.NoError(t, err)
		readings = append(readings, r)
	}
	holder, err := pool.Begin(t.Context())
	require.NoError(t, err)
	lock := func(id string) {
		_, err := holder.Exec(t.Context(), `SELECT FROM readings WHERE event_id = $1 FOR UPDATE`, id)
		require.NoError(t, err)
	}
	lock("evt_a")
	other, err := pool.Begin(t.Context())
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		done <- errors.Join(dedupe.EndReadings(t.Context(), other, readings), other.Commit(t.Context()))
	}()
	waiting(t, pool, other)
	lock("evt_b") // nobody holds it
	require.NoError(t, holder.Commit(t.Context()))
	require.NoError(t, <-done)
}
