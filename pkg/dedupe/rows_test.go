package dedupe_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

func TestReserveKeepsEveryPart(t *testing.T) {
	t.Parallel()
	pool := open(t)
	rows := []*dedupe.Row{
		in(dedupe.Completed, ignored(1, "completed")),
		in(dedupe.Failed, ignored(2, "failed")),
		in(dedupe.Pending, ignored(3, "pending")),
		in(dedupe.Processing, ignored(4, "processing")),
		in(dedupe.Discarded, ignored(5, "discarded")),
	}
	rows[1].Error = "unexpected end of JSON"
	rows[1].Key = dedupe.Conflict(rows[1].Key, rows[1].BodyHash)
	insert(t, pool, rows...)
	for _, want := range rows {
		have := read(t, pool, want.Key)
		require.WithinDuration(t, time.Now(), have.Created, time.Minute)
		require.Equal(t, have.Created, have.Decided)
		have.Created, have.Decided = time.Time{}, time.Time{}
		have.Occurred, have.StreamCreated = have.Occurred.UTC(), have.StreamCreated.UTC()
		require.Equal(t, want, have)
	}
	require.Nil(t, read(t, pool, dedupe.Key{Source: "stripe", ID: "failed"}))
	require.Nil(t, read(t, pool, dedupe.Key{Source: "github", ID: "completed"}))
}

func TestReserveLeavesACommittedRowAlone(t *testing.T) {
	t.Parallel()
	pool := open(t)
	insert(t, pool, ignored(1, "evt"))
	before := read(t, pool, ignored(1, "evt").Key)

	second := in(dedupe.Failed, ignored(2, "evt"))
	second.BodyHash = sha256.Sum256([]byte("other"))
	within(t, pool, func(tx pgx.Tx) {
		reserved, err := reserve(t.Context(), tx, second, ignored(3, "new"))
		require.NoError(t, err)
		require.False(t, reserved.New(2))
		require.True(t, reserved.New(3))
		known, err := dedupe.Read(t.Context(), tx, []dedupe.Key{second.Key})
		require.NoError(t, err)
		known[second.Key].BegunFor = 0 // it moves with the clock
		require.Equal(t, before, known[second.Key])
	})
	require.Equal(t, before, read(t, pool, second.Key))
}

func TestOfEqualKeysInOneBatchTheFirstIsNew(t *testing.T) {
	t.Parallel()
	pool := open(t)
	var rows []*dedupe.Row
	for n := range int64(400) {
		rows = append(rows, ignored(n, "evt_"+strings.Repeat("x", int(n%3))))
	}
	within(t, pool, func(tx pgx.Tx) {
		reserved, err := reserve(t.Context(), tx, rows...)
		require.NoError(t, err)
		for n := range int64(400) {
			require.Equal(t, n < 3, reserved.New(n), n)
		}
	})
}

func TestReserveOfNothing(t *testing.T) {
	t.Parallel()
	pool := open(t)
	within(t, pool, func(tx pgx.Tx) {
		_, err := reserve(t.Context(), tx)
		require.NoError(t, err)
		known, err := dedupe.Read(t.Context(), tx, nil)
		require.NoError(t, err)
		require.Empty(t, known)
	})
	require.NoError(t, dedupe.Parked(t.Context(), pool, nil))
}

// Case 56: ids with a meaning to somebody on the way.
func TestOddIDsAreEachTheirOwn(t *testing.T) {
	t.Parallel()
	pool := open(t)
	odd := []string{
		"a/b", "a b", "a.b.*.>", "a\r\nNats-Msg-Id: x", "日本", "\u00e9", "e\u0301", "", " ", "a ", " a",
		"'; DROP TABLE events; --", `\`, `\x00`, `{a,"b"}`, "NULL", "null", "%", "a:b", "\u202e", "🎉", "A", "a",
		strings.Repeat("日", 170) + "xx", strings.Repeat("x", 512), strings.Repeat("x", 511) + "y",
	}
	var rows []*dedupe.Row
	for n, id := range odd {
		rows = append(rows, ignored(int64(n), id))
	}
	insert(t, pool, rows...)
	for n, id := range odd {
		row := read(t, pool, dedupe.Key{Source: "stripe", ID: id})
		require.NotNil(t, row, "%q", id)
		require.EqualValues(t, n, row.No, "%q", id)
	}
}

func TestAnyStorableIDIsFoundAgain(t *testing.T) {
	t.Parallel()
	pool := open(t)
	var numbers dedupe.Numbers
	rapid.Check(t, func(rt *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.String().Filter(func(s string) bool {
			return len(s) <= 512 && !strings.Contains(s, "\x00")
		}), 1, 20, rapid.ID).Draw(rt, "ids")
		tx, err := pool.Begin(t.Context())
		require.NoError(rt, err)
		defer func() { _ = tx.Rollback(t.Context()) }()
		require.NoError(rt, numbers.Reserve(t.Context(), tx, len(ids)))
		rows, keys := make([]*dedupe.Row, len(ids)), make([]dedupe.Key, len(ids))
		for i, id := range ids {
			rows[i] = ignored(numbers.Take(), id)
			keys[i] = rows[i].Key
		}
		_, err = reserve(t.Context(), tx, rows...)
		require.NoError(rt, err)
		known, err := dedupe.Read(t.Context(), tx, keys)
		require.NoError(rt, err)
		require.Len(rt, known, len(ids))
		for i := 1; i < len(rows); i++ { // Go's order is the database's
			var sorted bool
			require.NoError(rt, tx.QueryRow(t.Context(), `SELECT $1::text COLLATE "C" < $2::text COLLATE "C"`, rows[i-1].ID, rows[i].ID).Scan(&sorted))
			require.True(rt, sorted, "%q %q", rows[i-1].ID, rows[i].ID)
		}
	})
}

func TestUnstorableTextIsRefusedByTheDatabase(t *testing.T) {
	t.Parallel()
	pool := open(t)
	for outcome, id := range map[string]string{"NUL": "a\x00b", "not UTF-8": "a\xffb", "half a surrogate pair": "a\xed\xa0\x80"} {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = reserve(t.Context(), tx, ignored(1, "fine"), ignored(2, id))
		require.Equal(t, "22021", state(err), outcome)
		require.Error(t, tx.Commit(t.Context()))
	}
	require.Nil(t, read(t, pool, ignored(1, "fine").Key))
}

func TestLock(t *testing.T) {
	t.Parallel()
	pool := open(t)

	t.Run("of no row is nil", func(t *testing.T) {
		within(t, pool, func(tx pgx.Tx) {
			row, err := dedupe.Lock(t.Context(), tx, dedupe.Key{Source: "stripe", ID: "none"})
			require.NoError(t, err)
			require.Nil(t, row)
		})
	})
	t.Run("shows the waiter what the holder committed", func(t *testing.T) {
		row := in(dedupe.Pending, ignored(1, "evt"))
		insert(t, pool, row)
		holder, err := pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = dedupe.Lock(t.Context(), holder, row.Key)
		require.NoError(t, err)

		waiter, err := pool.Begin(t.Context())
		require.NoError(t, err)
		seen := make(chan *dedupe.Row)
		go func() {
			row, _ := dedupe.Lock(t.Context(), waiter, row.Key)
			seen <- row
		}()
		waiting(t, pool, waiter)
		row.Attempts = 3
		var b pgx.Batch
		dedupe.Save(&b, row, 0)
		require.NoError(t, holder.SendBatch(t.Context(), &b).Close())
		require.NoError(t, holder.Commit(t.Context()))
		locked := <-seen
		require.NotNil(t, locked)
		require.Equal(t, 3, locked.Attempts)
		require.NoError(t, waiter.Rollback(t.Context()))
	})
}

func TestSaveRewritesEverythingButKeyAndNumber(t *testing.T) {
	t.Parallel()
	pool := open(t)
	row := in(dedupe.Failed, ignored(1, "evt"))
	insert(t, pool, row)
	created := read(t, pool, row.Key).Created

	row.State, row.Outcome, row.Reason, row.Error = dedupe.Pending, "", "insufficient_funds", "5 against 3"
	row.Type, row.Occurred = "charge.refunded", row.Occurred.Add(time.Hour)
	row.Content = dedupe.Content{BodyHash: sha256.Sum256([]byte("b")), Fingerprint: sha256.Sum256([]byte("f")), Rules: -9}
	row.Position = dedupe.Position{StreamCreated: row.StreamCreated.Add(time.Hour), Seq: 1 << 40}
	row.Attempts, row.DLQSeq = 4, 1<<41
	save(t, pool, row, time.Minute)

	have := read(t, pool, row.Key)
	require.Equal(t, created, have.Created)
	require.True(t, have.Decided.After(created))
	require.InDelta(t, time.Minute, have.RetryIn, float64(10*time.Second))
	have.Created, have.Decided, have.RetryIn, have.FailingFor = time.Time{}, time.Time{}, 0, 0
	have.Occurred, have.StreamCreated = have.Occurred.UTC(), have.StreamCreated.UTC()
	require.Equal(t, row, have)
}

// The age of an event and the time of its next try are the database's: neither
// the clock here nor what the row in memory says has a part in them.
func TestSaveCountsByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	url := pgtest.Migrated(t, stack.DatabaseURL)
	pool := pgtest.Patient(t, url, postgres.Worker)
	row := in(dedupe.Pending, ignored(1, "evt"))
	insert(t, pool, row)
	have := read(t, pool, row.Key)
	require.Zero(t, have.FailingFor)
	require.Zero(t, have.RetryIn)

	row.Attempts, row.FailingFor, row.RetryIn = 1, 1000*time.Hour, 1000*time.Hour
	save(t, pool, row, 20*time.Second)
	have = read(t, pool, row.Key)
	require.Less(t, have.FailingFor, 10*time.Second)
	require.InDelta(t, 15*time.Second, have.RetryIn, float64(5*time.Second))

	// Later failures do not make it younger.
	pgtest.Exec(t, url, `UPDATE events SET first_failed_at = first_failed_at - interval '1 hour', next_try_at = now() - interval '1 hour'`)
	require.Zero(t, read(t, pool, row.Key).RetryIn)
	row.Attempts = 2
	save(t, pool, row, 90_500*time.Millisecond)
	have = read(t, pool, row.Key)
	require.GreaterOrEqual(t, have.FailingFor, time.Hour)
	require.Less(t, have.FailingFor, time.Hour+10*time.Second)
	require.Greater(t, have.RetryIn, time.Minute)
	require.LessOrEqual(t, have.RetryIn, 90_500*time.Millisecond)

	// A row that no longer waits has no next try, and keeps its age.
	save(t, pool, in(dedupe.Failed, row), time.Minute)
	have = read(t, pool, row.Key)
	require.Zero(t, have.RetryIn)
	require.GreaterOrEqual(t, have.FailingFor, time.Hour)

	// An attempt that is given back leaves no age.
	row.Attempts = 0
	save(t, pool, in(dedupe.Pending, row), 0)
	have = read(t, pool, row.Key)
	require.Zero(t, have.FailingFor)
}

func TestSaveCannotChangeACompletedRow(t *testing.T) {
	t.Parallel()
	pool := open(t)
	row := ignored(1, "evt")
	insert(t, pool, row)
	before := read(t, pool, row.Key)
	var b pgx.Batch
	dedupe.Save(&b, in(dedupe.Pending, row), 0)
	require.Equal(t, "23001", state(pool.SendBatch(t.Context(), &b).Close()))
	require.Equal(t, before, read(t, pool, row.Key))
}

func TestParkedRecordsALetterOnce(t *testing.T) {
	t.Parallel()
	pool := open(t)
	failed, parked, done, waits := in(dedupe.Failed, ignored(1, "failed")), in(dedupe.Failed, ignored(2, "parked")),
		ignored(3, "done"), in(dedupe.Pending, ignored(4, "waits"))
	insert(t, pool, failed, parked, done, waits)
	require.NoError(t, dedupe.Parked(t.Context(), pool, []dedupe.Parking{{No: 2, Letter: 20}}))
	require.False(t, read(t, pool, failed.Key).Terminal())

	require.NoError(t, dedupe.Parked(t.Context(), pool, []dedupe.Parking{
		{No: 1, Letter: 11}, {No: 2, Letter: 12}, {No: 3, Letter: 13}, {No: 4, Letter: 14}, {No: 99, Letter: 15},
	}))
	require.EqualValues(t, 11, read(t, pool, failed.Key).DLQSeq)
	require.EqualValues(t, 20, read(t, pool, parked.Key).DLQSeq)
	require.Zero(t, read(t, pool, done.Key).DLQSeq)
	require.Zero(t, read(t, pool, waits.Key).DLQSeq)
	require.True(t, read(t, pool, failed.Key).Terminal())
}

// A worker has stored a letter and hangs. By the time it records where, the event
// was parked anew: by a content that took it over, or after a redrive, which has
// deleted that letter.
func TestALetterIsOfOneDecision(t *testing.T) {
	t.Parallel()
	pool := open(t)
	row := in(dedupe.Failed, ignored(1, "evt"))
	insert(t, pool, row)
	late := dedupe.Parking{No: 1, Attempt: row.Attempt, Redrives: row.Redrives, Letter: 10}
	anew := func(change func()) *dedupe.Row {
		change()
		now := read(t, pool, row.Key)
		require.Equal(t, dedupe.Failed, now.State)
		require.NotEqual(t, row.LetterName(row.BodyHash), now.LetterName(now.BodyHash), "it gets a letter of its own")
		require.NoError(t, dedupe.Parked(t.Context(), pool, []dedupe.Parking{late}))
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return dedupe.Reletter(t.Context(), tx, row, 10, dedupe.Action{Actor: "sweep"})
		})
		require.ErrorIs(t, err, dedupe.ErrState)
		require.False(t, read(t, pool, row.Key).Terminal())
		return now
	}
	anew(func() {
		again := *row
		again.Attempt++
		save(t, pool, in(dedupe.Failed, &again), 0)
	})
	now := anew(func() {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := dedupe.Redrive(t.Context(), tx, row.Key, dedupe.Action{Actor: "ada", Verb: dedupe.VerbRedrive})
			return err
		})
		require.NoError(t, err)
		save(t, pool, in(dedupe.Failed, row), 0) // as a conflict is, which needs no attempt
	})
	require.NoError(t, dedupe.Parked(t.Context(), pool, []dedupe.Parking{{No: 1, Attempt: now.Attempt, Redrives: now.Redrives, Letter: 11}}))
	require.EqualValues(t, 11, read(t, pool, row.Key).DLQSeq)
}
