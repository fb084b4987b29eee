package keeper_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/keeper"
)

func TestKeeperForgetsWhoWaitsNoLonger(t *testing.T) {
	s := newSystem(t, "64MiB")
	stop := s.work()
	s.publish(payment("evt_done", "p1", "5"))
	s.publish(payment("evt_bad", "p2", `"many"`))
	s.publish(payment("evt_waits", "p3", `"much"`))
	s.settle()
	stop()
	s.exec(
		`UPDATE events SET state = 'pending', dlq_seq = NULL, redrives = 1, next_try_at = now() + interval '1 hour' WHERE event_id = 'evt_waits'`,
		`INSERT INTO waiting (operation, event_no) SELECT 'parent', no FROM events`,
		`INSERT INTO waiting (operation, event_no) VALUES ('parent', 999)`, // of nothing
	)
	k := s.keep(func(o *keeper.Options) { o.Grace, o.ForgetEvery = time.Hour, time.Nanosecond })
	var waiting []string
	require.Eventually(t, func() bool {
		rows, err := s.pool.Query(t.Context(), `SELECT COALESCE(e.event_id, '') FROM waiting w LEFT JOIN events e ON e.no = w.event_no`)
		require.NoError(t, err)
		waiting, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return len(waiting) == 1
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, []string{"evt_waits"}, waiting)
	k.until("a round", func(r round) bool { return r.err == nil && len(r.Findings) == 0 })
}
