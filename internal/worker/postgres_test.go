package worker

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dedupe"
)

// admin runs statements outside of the test's schema.
func (s *system) admin(statements ...string) {
	s.t.Helper()
	ctx := context.WithoutCancel(s.t.Context())
	conn, err := pgx.Connect(ctx, stack.DatabaseURL)
	require.NoError(s.t, err)
	defer conn.Close(ctx)
	for _, statement := range statements {
		_, err := conn.Exec(ctx, statement)
		require.NoError(s.t, err, statement)
	}
}

// endSessions ends every session but the admin's own.
const endSessions = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'onceledger'`

// sessions counts those that endSessions would end.
func (s *system) sessions() int {
	s.t.Helper()
	return s.count(`SELECT count(*) FROM pg_stat_activity WHERE application_name = 'onceledger'`)
}

// fault is an outage of Postgres.
type fault struct {
	begin func(*testing.T, *system)
	end   func(*testing.T, *system)
}

func faults() map[string]fault {
	var held []*pgx.Conn
	schema := func(s *system) string {
		u, err := url.Parse(s.url)
		require.NoError(s.t, err)
		return u.Query().Get("search_path")
	}
	start := func(t *testing.T, _ *system) { require.NoError(t, stack.Postgres.Start(t.Context())) }
	return map[string]fault{
		"shut down": {func(t *testing.T, _ *system) { require.NoError(t, stack.Postgres.Stop(t.Context())) }, start},
		"killed":    {func(t *testing.T, _ *system) { require.NoError(t, stack.Postgres.Kill()) }, start},
		"hanging": {
			func(t *testing.T, _ *system) { require.NoError(t, stack.Postgres.Pause()) },
			func(t *testing.T, _ *system) { require.NoError(t, stack.Postgres.Resume()) },
		},
		"read-only": {
			func(_ *testing.T, s *system) {
				s.admin(`ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`)
			},
			func(_ *testing.T, s *system) {
				s.admin(`ALTER SYSTEM RESET default_transaction_read_only`, `SELECT pg_reload_conf()`)
			},
		},
		outOfConnections: {
			func(t *testing.T, s *system) {
				s.admin(endSessions)
				for {
					conn, err := pgx.Connect(t.Context(), stack.DatabaseURL)
					if err != nil {
						require.ErrorContains(t, err, "53300")
						return
					}
					held = append(held, conn)
				}
			},
			func(t *testing.T, _ *system) {
				for _, conn := range held {
					require.NoError(t, conn.Close(t.Context()))
				}
			},
		},
		"without its schema": {
			func(_ *testing.T, s *system) { s.admin(fmt.Sprintf(`ALTER SCHEMA %s RENAME TO gone`, schema(s))) },
			func(_ *testing.T, s *system) { s.admin(fmt.Sprintf(`ALTER SCHEMA gone RENAME TO %s`, schema(s))) },
		},
		"without a right": {
			func(_ *testing.T, s *system) {
				s.admin(fmt.Sprintf(`REVOKE INSERT ON %s.transfers FROM onceledger_worker`, schema(s)))
			},
			func(_ *testing.T, s *system) {
				s.admin(fmt.Sprintf(`GRANT INSERT ON %s.transfers TO onceledger_worker`, schema(s)))
			},
		},
	}
}

const outOfConnections = "out of connections"

func TestPostgresOutages(t *testing.T) {
	const few = 50
	for name, f := range faults() {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t, shop)
			var w *worker
			s.start(func(started *worker) { w = started }, hasty)
			s.payments(0, few)
			s.settled()
			ended := false
			t.Cleanup(func() { // a failure must not leave the outage to the tests that follow
				if !ended {
					f.end(t, s)
				}
			})
			f.begin(t, s)
			s.payments(few, few)
			s.eventually(func() bool { return away(w, "postgres") }, "the outage shows")
			require.Equal(t, 1, s.logged("postgres is unavailable"))
			s.pass(time.Second)
			require.True(t, away(w, "postgres"), "it lasts")
			ended = true
			f.end(t, s)
			s.settled()
			require.Equal(t, 2*few, s.transfers())
			s.free()
			s.eventually(func() bool { return !away(w, "postgres") }, "its end shows")
			began, back := s.logged("postgres is unavailable"), s.logged("postgres is back")
			require.Equal(t, began, back, "a line at its start, and one at its end")
			if name != outOfConnections { // which come back one by one, so that it may end more than once
				require.Equal(t, 1, began)
			}
		})
	}
}

// pass lets time pass, for an outage that must last.
func (s *system) pass(d time.Duration) {
	s.t.Helper()
	select {
	case <-time.After(d):
	case <-s.t.Context().Done():
	}
}

// A backend that dies takes the others along: the server recovers from its log,
// and was never started anew.
func TestPostgresCrashRecovery(t *testing.T) {
	s := newSystem(t, shop)
	s.start()
	s.payments(0, 50)
	s.settled()
	var pid int
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid))
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	s.payments(50, 1000)
	s.eventually(func() bool { return s.pool.Ping(t.Context()) == nil }, "the server recovers")
	s.settled()
	require.Equal(t, 1050, s.transfers())
	s.free()
}

// Somebody holds a lock for longer than anybody waits for it.
func TestSlowPostgres(t *testing.T) {
	s := newSystem(t, shop)
	var w *worker
	s.start(func(started *worker) { w = started; w.slow.Settle = 5 * time.Second }) // no batch waits for a lock that long
	s.payments(0, 10)
	s.settled()
	tx, err := s.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SET idle_in_transaction_session_timeout = 0; LOCK TABLE events IN SHARE MODE`)
	require.NoError(t, err)
	s.payments(10, 10)
	s.eventually(func() bool { return away(w, "postgres_slow") }, "it shows")
	require.NoError(t, tx.Rollback(t.Context()))
	s.settled()
	require.Equal(t, 20, s.transfers())
	s.free()
	s.eventually(func() bool { return s.logged("no longer slow") == 1 }, "its end shows")
	require.Equal(t, 1, s.logged("postgres is slow"))
	require.Zero(t, s.logged("postgres is unavailable"))
}

// behind makes the workers that start next reach a service through a proxy.
func (s *system) behind(variable, url, yaml string) *proxy {
	s.t.Helper()
	cable, instead := newProxy(s.t, url)
	s.env[variable] = instead
	s.cat = s.load(yaml)
	return cable
}

// The connection is lost after COMMIT was carried out and before its answer.
func TestLostAnswersToCommit(t *testing.T) {
	s := newSystem(t, shop)
	cable := s.behind("DATABASE_URL", s.url, shop)
	s.payments(0, 2000)
	left := cable.loseAnswers(4, committed)
	s.start(func(w *worker) { w.tuning.Batch = 100 })
	s.eventually(func() bool { return left() == 0 }, "answers are lost")
	s.settled()
	require.Equal(t, 2000, s.transfers())
	s.free()
}

// As above, where events are tried alone: what is lost is the answer to the
// begin of an attempt, or to its end.
func TestLostAnswersToAttempts(t *testing.T) {
	yaml := strings.Replace(shop, "attempts: 3", "attempts: 1000", 1)
	s := newSystem(t, yaml)
	for i := range 10 {
		id := fmt.Sprint("evt_spend", i)
		s.publish(payment(id, "p_"+id, fmt.Sprint("purse:", i), "bank", 5))
	}
	cable := s.behind("DATABASE_URL", s.url, yaml)
	s.start(hasty)
	s.decided("evt_spend0", dedupe.Pending)
	left := cable.loseAnswers(20, committed)
	s.eventually(func() bool { return left() == 0 }, "answers are lost")
	for i := range 10 {
		id := fmt.Sprint("evt_fund", i)
		s.publish(payment(id, "p_"+id, "bank", fmt.Sprint("purse:", i), 5))
	}
	s.settled()
	require.Equal(t, 20, s.transfers())
	require.Zero(t, s.count(`SELECT count(*) FROM events WHERE crashes > 0`), "no worker died")
	require.Empty(t, s.letters())
}

// expire lets n deliveries end without an answer, as those of a dead worker do.
func (s *system) expire(n int) {
	s.t.Helper()
	consumer, err := stream.WorkerConsumer(s.t.Context(), s.js, s.cat.Config.Worker.AckWait)
	require.NoError(s.t, err)
	taken := 0
	for taken < n {
		batch, err := consumer.Fetch(n - taken)
		require.NoError(s.t, err)
		for range batch.Messages() {
			taken++
		}
	}
}

// COMMIT itself fails, after everything else went well.
func TestFailedCommits(t *testing.T) {
	s := newSystem(t, shop)
	_, err := s.pool.Exec(t.Context(), `
		CREATE SEQUENCE commits;
		GRANT USAGE ON commits TO onceledger_worker;
		CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('commits') <= 3 THEN
				RAISE EXCEPTION 'the disk is gone' USING ERRCODE = '58030';
			END IF;
			RETURN NULL;
		END $$;
		CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON transfers DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()`)
	require.NoError(t, err)
	s.payments(0, 100)
	s.start()
	s.settled()
	require.Equal(t, 100, s.transfers())
	s.free()
	require.Positive(t, s.logged("the disk is gone"))
}

// A backlog that is older than the age budget meets a Postgres that comes and
// goes twenty times.
func TestPostgresFlaps(t *testing.T) {
	yaml := strings.Replace(shop, "age: 1h", "age: 1s", 1) + "\nworker: {ack_wait: 5s}"
	s := newSystem(t, yaml)
	const n, flaps = 4000, 20
	s.payments(0, n)
	s.expire(n) // and each was delivered before
	for range 2 {
		s.start(func(w *worker) { w.tuning.Batch = 50 })
	}
	for i := range flaps {
		s.pass(100 * time.Millisecond)
		if i%2 == 0 {
			require.NoError(t, stack.Postgres.Kill())
		} else {
			require.NoError(t, stack.Postgres.Stop(t.Context()))
		}
		require.NoError(t, stack.Postgres.Start(t.Context()))
	}
	s.settled()
	require.Equal(t, n, s.transfers())
	s.free()
}

// The cable between one worker and a Postgres that runs on is cut, again and
// again, between the two round trips of a batch whose attempts are marked; and
// the answer to the marking gets lost. The other worker must not take that for
// the death of the first.
func TestNetworkFlaps(t *testing.T) {
	yaml := strings.Replace(shop, "age: 1h", "age: 1s", 1) + "\nworker: {ack_wait: 5s}"
	s := newSystem(t, yaml)
	const n, flaps = 4000, 20
	s.payments(0, n)
	s.expire(n)
	cable := s.behind("DATABASE_URL", s.url, yaml)
	var cuts atomic.Int64
	s.start(hasty, func(w *worker) { // the gate tries one batch at a time
		w.tuning.Batch = 20
		w.between = func() {
			if cuts.Add(1) <= flaps {
				cable.cut()
				time.AfterFunc(200*time.Millisecond, cable.mend)
			}
		}
	})
	s.env["DATABASE_URL"] = s.url
	s.cat = s.load(yaml)
	s.start(func(w *worker) {
		w.tuning.Batch = 20
		w.between = func() {
			if cuts.Load() < flaps {
				s.pass(200 * time.Millisecond) // leaves something for the other
			}
		}
	})
	s.eventually(func() bool { return cuts.Load() >= flaps }, "the cable is cut")
	s.settled()
	require.Equal(t, n, s.transfers())
	s.free()
}
