package operator_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/postgres"
	"github.com/onceledger/onceledger/internal/postgres/pgtest"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// backedUp are the tables that a restore takes back.
var backedUp = []string{
	"events", "transfers", "operations", "accounts", "superseded",
	"audit_marks", "audit_open", "audit_copies", "audit_balances", "audit_ledger",
}

// alter runs statements as the owner, past every guard.
func (s *system) alter(statements ...string) {
	s.t.Helper()
	all := []string{"BEGIN"}
	for _, table := range backedUp[:4] {
		all = append(all, `ALTER TABLE `+table+` DISABLE TRIGGER USER`)
	}
	all = append(all, statements...)
	for _, table := range backedUp[:4] {
		all = append(all, `ALTER TABLE `+table+` ENABLE TRIGGER USER`)
	}
	pgtest.Exec(s.t, s.env["DATABASE_URL"], append(all, "COMMIT")...)
}

func (s *system) backUp() {
	s.t.Helper()
	for _, table := range backedUp {
		s.alter(`CREATE TABLE saved_` + table + ` AS TABLE ` + table)
	}
}

// restore takes the database back to the backup; the stream goes on.
func (s *system) restore() {
	s.t.Helper()
	for _, table := range backedUp {
		s.alter(`DELETE FROM `+table, `INSERT INTO `+table+` SELECT * FROM saved_`+table)
	}
}

func (s *system) pool() *pgxpool.Pool {
	s.t.Helper()
	return pgtest.Open(s.t, s.env["DATABASE_URL"], postgres.Owner)
}

func (s *system) count(query string) (n int) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.env["DATABASE_URL"])
	require.NoError(s.t, err)
	defer conn.Close(context.Background())
	require.NoError(s.t, conn.QueryRow(s.t.Context(), query).Scan(&n))
	return n
}

func (s *system) last() uint64 {
	s.t.Helper()
	events, err := s.js.Stream(s.t.Context(), stream.Events)
	require.NoError(s.t, err)
	return events.CachedInfo().State.LastSeq
}

// replay runs the command without patience and returns its JSON lines.
func (s *system) replay(r operator.Replay) ([]operator.ReplayedMessage, error) {
	s.t.Helper()
	r.Yes, r.Grace = true, time.Nanosecond
	if r.Rate == 0 {
		r.Rate = operator.MaxRate
	}
	if r.Since.IsZero() && r.FromSeq == 0 {
		r.FromSeq = 1
	}
	out, err := s.run(true, func(ctx context.Context, o *operator.Session) error { return operator.ReplayMessages(ctx, o, r) })
	if r.DryRun {
		return nil, err
	}
	return lines[operator.ReplayedMessage](s.t, out), err
}

// plan is what a dry run says, a group a line.
func (s *system) plan(r operator.Replay) (operator.ReplayPreview, []string) {
	s.t.Helper()
	r.DryRun, r.Rate, r.Grace = true, 1, time.Nanosecond
	out, err := s.run(true, func(ctx context.Context, o *operator.Session) error { return operator.ReplayMessages(ctx, o, r) })
	require.NoError(s.t, err)
	preview := lines[operator.ReplayPreview](s.t, out)[0]
	var groups []string
	for _, g := range preview.Groups {
		groups = append(groups, strings.TrimSpace(fmt.Sprint(g.Messages, " ", g.Plan, " ", g.Why)))
	}
	return preview, groups
}

func TestReplayAfterARestore(t *testing.T) {
	s := newSystem(t)
	s.decide(payment("evt_1", "p1", "100", "EUR"), payment("evt_bad", "p2", `"many"`, "EUR"))
	s.backUp()
	s.decide(payment("evt_2", "p3", "10", "EUR"), payment("evt_2", "p3", "10", "EUR"), payment("evt_2", "p3", "11", "EUR"),
		event("evt_other", "opened", `{"id":"evt_other","type":"opened"}`), payment("evt_bad2", "p4", `"few"`, "EUR"))
	_, err := s.js.Publish(t.Context(), "events.shop.paid", []byte("hello"))
	require.NoError(t, err)
	s.decide()
	s.auditClean()
	require.EqualValues(t, 110, s.balance("purse:a"))
	s.restore()
	require.EqualValues(t, 100, s.balance("purse:a"))

	s.golden("replay_preview", func(ctx context.Context, o *operator.Session) error {
		return operator.ReplayMessages(ctx, o, operator.Replay{FromSeq: 1, DryRun: true, Rate: 1, Grace: time.Nanosecond})
	})
	require.EqualValues(t, 8, s.last(), "a dry run sends nothing")

	done, err := s.replay(operator.Replay{FromSeq: 2, Actor: "ada", Note: "restored the backup of noon"})
	require.NoError(t, err)
	var results []string
	for _, m := range done {
		results = append(results, fmt.Sprint(m.Seq, " ", m.EventID, " ", m.Result, " ", m.Copy))
	}
	require.ElementsMatch(t, []string{"3 evt_2 sent 9", "6 evt_other sent 10", "7 evt_bad2 sent 11",
		strings.Replace(results[0], "sent", "parked", 1)}, results)
	t.Run("copies are what was received, and one redrive more", func(t *testing.T) {
		events, err := s.js.Stream(t.Context(), stream.Events)
		require.NoError(t, err)
		was, err := events.GetMsg(t.Context(), 3)
		require.NoError(t, err)
		is, err := events.GetMsg(t.Context(), 9)
		require.NoError(t, err)
		require.Equal(t, was.Data, is.Data)
		require.Equal(t, "1", is.Header.Get(envelope.HeaderRedrive))
		is.Header.Del(envelope.HeaderRedrive)
		for _, name := range []string{jetstream.SequenceHeader, jetstream.TimeStampHeaer} {
			was.Header.Del(name)
			is.Header.Del(name)
		}
		require.Equal(t, was.Header, is.Header)
	})
	t.Run("a second replay finds the copies on their way", func(t *testing.T) {
		done, err := s.replay(operator.Replay{})
		require.NoError(t, err)
		require.Empty(t, sent(done))
		require.EqualValues(t, 11, s.last())
	})
	t.Run("another content of an event follows once the first is decided", func(t *testing.T) {
		s.decide()
		done, err := s.replay(operator.Replay{})
		require.NoError(t, err)
		require.Equal(t, []string{"5 other_content"}, sent(done))
	})
	// The letter of what holds no event is the sweep's to store, after a minute.
	s.alter(`UPDATE events SET decided_at = now() - interval '1 hour' WHERE source = 'unknown'`)
	s.work(func() {
		s.settle()
		require.Eventually(t, func() bool {
			return s.count(`SELECT count(*) FROM events WHERE state = 'failed' AND dlq_seq IS NULL`) == 0
		},
			2*time.Minute, 20*time.Millisecond)
	})
	require.EqualValues(t, 110, s.balance("purse:a"))
	s.auditClean()
	_, groups := s.plan(operator.Replay{FromSeq: 1})
	require.Equal(t, []string{"11 done", "1 done"}, groups)

	t.Run("one action says who, what and why", func(t *testing.T) {
		var actor, note, detail string
		require.NoError(t, s.pool().QueryRow(t.Context(), `
			SELECT actor, note, detail::text FROM actions WHERE verb = 'replay' AND event_no IS NULL AND actor = 'ada'`).Scan(&actor, &note, &detail))
		require.Equal(t, []string{"ada", "restored the backup of noon"}, []string{actor, note})
		require.JSONEq(t, `{"from_seq":2,"to_seq":8,"count":4,"first_seq":3,"last_seq":8,"events":[
			{"seq":3,"source":"shop","event_id":"evt_2"},{"seq":6,"source":"shop","event_id":"evt_other"},
			{"seq":7,"source":"shop","event_id":"evt_bad2"},{"seq":8,"source":"unknown","event_id":"`+unknownID(t, s)+`"}]}`, detail)
	})
}

// sent are the messages that were.
func sent(done []operator.ReplayedMessage) (list []string) {
	for _, m := range done {
		if m.Result == "sent" {
			list = append(list, fmt.Sprint(m.Seq, " ", m.Why))
		}
	}
	return list
}

func unknownID(t *testing.T, s *system) (id string) {
	t.Helper()
	require.NoError(t, s.pool().QueryRow(t.Context(), `SELECT event_id FROM events WHERE source = 'unknown'`).Scan(&id))
	return id
}

// What the backup knows only as waiting is decided again under its row.
func TestReplayOfUndecidedEvents(t *testing.T) {
	s := newSystem(t)
	s.decide(payment("evt_1", "p1", "100", "EUR"), payment("evt_1", "p1", "100", "EUR"), payment("evt_2", "p2", "20", "EUR"))
	for id, state := range map[string]string{"evt_1": "pending", "evt_2": "processing"} {
		s.alter(unbook(id), `UPDATE events SET state = '`+state+`', outcome = NULL, attempt = 1, redrives = 1, decided_at = now() - interval '1 hour' WHERE event_id = '`+id+`'`)
	}
	s.alter(`DELETE FROM audit_marks`)
	_, groups := s.plan(operator.Replay{FromSeq: 1})
	require.Equal(t, []string{"2 send undecided", "1 repeat"}, groups)

	done, err := s.replay(operator.Replay{Note: "restored"})
	require.NoError(t, err)
	require.Len(t, done, 2)
	for _, m := range done {
		require.Equal(t, []string{"sent", "undecided"}, []string{m.Result, m.Why})
	}
	done, err = s.replay(operator.Replay{})
	require.NoError(t, err)
	require.Empty(t, done, "the copies are on their way")
	s.decide()
	require.EqualValues(t, 120, s.balance("purse:a"))
	require.Equal(t, 2, s.event("evt_1").Redrives)
	require.Equal(t, "replay", s.event("evt_1").Actions[0].Verb)
	s.auditClean()
}

// unbook takes an event's money back, as if it had never been posted.
func unbook(id string) string {
	no := `(SELECT no FROM events WHERE event_id = '` + id + `' AND variant = '')`
	return `WITH gone AS (DELETE FROM transfers WHERE event_no = ` + no + ` RETURNING *),
		 taken AS (DELETE FROM operations WHERE event_no = ` + no + `)
		UPDATE accounts a
		SET debits_posted = debits_posted - CASE WHEN a.name = g.debit THEN g.amount ELSE 0 END,
		    credits_posted = credits_posted - CASE WHEN a.name = g.credit THEN g.amount ELSE 0 END
		FROM gone g
		WHERE a.name IN (g.debit, g.credit) AND a.asset = g.asset`
}

// What nothing is wrong with is left alone, however it came to its outcome.
func TestReplayLeavesAloneWhatIsDone(t *testing.T) {
	s := newSystem(t)
	s.decide(payment("evt_1", "p1", `"many"`, "EUR"), payment("evt_1", "p1", "5", "EUR"), // the second takes the event over
		payment("evt_2", "p2", "7", "EUR"), payment("evt_2", "p2", "8", "EUR"), // a conflict
		payment("evt_3", "p2", "7", "EUR")) // the money of evt_2
	s.publish(payment("evt_4", "p4", "1", "EUR"))
	_, groups := s.plan(operator.Replay{FromSeq: 1})
	require.Equal(t, []string{"1 wait", "5 done"}, groups)

	t.Run("also once its letter is removed", func(t *testing.T) {
		_, err := s.discard(operator.LetterMove{Seqs: []uint64{2}, Note: "a test"})
		require.NoError(t, err)
		_, err = s.redrive(operator.LetterMove{Seqs: []uint64{1}}) // stale: deleted
		require.Error(t, err)
		_, groups := s.plan(operator.Replay{FromSeq: 1})
		require.Equal(t, []string{"1 wait", "5 done"}, groups)
	})
	t.Run("but not where the database forgets", func(t *testing.T) {
		s.alter(`DELETE FROM superseded`)
		_, groups := s.plan(operator.Replay{FromSeq: 1})
		require.Equal(t, []string{"1 send other_content", "1 wait", "4 done"}, groups)
	})
}

func TestReplayBounds(t *testing.T) {
	s := newSystem(t)
	t.Run("an empty stream has nothing to replay", func(t *testing.T) {
		for _, r := range []operator.Replay{{FromSeq: 1}, {Since: time.Now().Add(-time.Hour)}, {FromSeq: 9}} {
			r.Rate = 1
			out, err := s.run(false, func(ctx context.Context, o *operator.Session) error { return operator.ReplayMessages(ctx, o, r) })
			require.NoError(t, err)
			require.Contains(t, out, "EVENTS is empty")
		}
	})
	s.decide(payment("evt_1", "p1", "1", "EUR"), payment("evt_2", "p2", "2", "EUR"), payment("evt_3", "p3", "4", "EUR"))
	events, err := s.js.Stream(t.Context(), stream.Events)
	require.NoError(t, err)
	second, err := events.GetMsg(t.Context(), 2)
	require.NoError(t, err)
	s.alter(unbook("evt_1"), unbook("evt_2"), unbook("evt_3"), `DELETE FROM events`, `DELETE FROM audit_marks`)

	t.Run("the range and the source bound what is looked at", func(t *testing.T) {
		for want, r := range map[string]operator.Replay{
			"1-3": {FromSeq: 1}, "2-3": {Since: second.Time}, "2-2": {FromSeq: 2, ToSeq: 2}, "2-3 ": {FromSeq: 2, ToSeq: 99},
			"4-3": {Since: time.Now().Add(time.Hour)}, "9-3": {FromSeq: 9},
		} {
			preview, _ := s.plan(r)
			require.Equal(t, strings.TrimSpace(want), fmt.Sprintf("%d-%d", preview.From, preview.To))
			require.Equal(t, max(0, int(preview.To)-int(preview.From)+1), preview.Messages)
		}
		preview, _ := s.plan(operator.Replay{FromSeq: 1, Source: "stripe"})
		require.Zero(t, preview.Messages)
	})
	t.Run("what left the stream is said to be gone", func(t *testing.T) {
		require.NoError(t, events.Purge(t.Context(), jetstream.WithPurgeSequence(3)))
		preview, groups := s.plan(operator.Replay{FromSeq: 1})
		require.EqualValues(t, 2, preview.Gone)
		require.Equal(t, []string{"1 send lost"}, groups)
		out, err := s.run(false, func(ctx context.Context, o *operator.Session) error {
			return operator.ReplayMessages(ctx, o, operator.Replay{Since: time.Now().Add(-time.Hour), Rate: 1, DryRun: true})
		})
		require.NoError(t, err)
		require.Contains(t, out, "messages before 3 are gone from EVENTS")
	})
	t.Run("what is asked wrongly is a usage error", func(t *testing.T) {
		for text, r := range map[string]operator.Replay{
			"say where to begin":  {Rate: 1},
			"not both":            {FromSeq: 1, Since: time.Now(), Rate: 1},
			"is before":           {FromSeq: 5, ToSeq: 4, Rate: 1},
			"--rate must be from": {FromSeq: 1},
			"nobody is at":        {FromSeq: 1, Rate: 1, Grace: time.Nanosecond},
		} {
			var out bytes.Buffer
			err := operator.ReplayMessages(t.Context(), &operator.Session{Env: s.lookup, Out: &out}, r)
			require.ErrorContains(t, err, text)
			require.Equal(t, exit.Usage, exit.Code(err))
		}
	})
	t.Run("a person is asked, and the rate is kept", func(t *testing.T) {
		var out, asked bytes.Buffer
		session := &operator.Session{Env: s.lookup, Out: &out, Err: &asked, In: strings.NewReader("n\n"), Terminal: true}
		err := operator.ReplayMessages(t.Context(), session, operator.Replay{FromSeq: 1, Rate: 1, Grace: time.Nanosecond})
		require.EqualError(t, err, "nothing was done")
		require.Contains(t, asked.String(), "replay 1 message?")
		require.EqualValues(t, 3, s.last())
		session.In = strings.NewReader("y\n")
		require.NoError(t, operator.ReplayMessages(t.Context(), session, operator.Replay{FromSeq: 1, Rate: 1, Grace: time.Nanosecond}))
		require.Contains(t, out.String(), "1 message sent again")
	})
}

// Thousands are replayed page by page while workers decide them.
func TestReplayThousands(t *testing.T) {
	s := newSystem(t)
	s.backUp()
	events := make([]*envelope.Event, many)
	for i := range events {
		events[i] = payment(fmt.Sprintf("evt_%05d", i/3*2), fmt.Sprint("p", i/3*2), "1", "EUR") // some are resends
	}
	s.decideTogether(events...)
	want := s.balance("purse:a")
	s.restore()
	s.work(func() {
		done, err := s.replay(operator.Replay{})
		require.NoError(t, err)
		sent := 0
		for _, m := range done {
			if m.Result == "sent" {
				sent++
			}
		}
		require.EqualValues(t, want, sent, "one copy an event")
		s.settle()
	})
	require.Equal(t, want, s.balance("purse:a"))
	s.auditClean()
}

// A replay that dies after its claim, before anything is sent, holds the others
// up for a minute; one that dies after a copy is stored costs a duplicate.
func TestReplayTakesDeadClaimsOver(t *testing.T) {
	s := newSystem(t)
	s.decide(payment("evt_1", "p1", "1", "EUR"))
	s.alter(unbook("evt_1"), `DELETE FROM events`, `DELETE FROM audit_marks`,
		`INSERT INTO audit_copies (stream_created, source, event_id, body_hash)
		 SELECT '`+s.created()+`', 'shop', 'evt_1', sha256('`+string(payment("evt_1", "p1", "1", "EUR").Data)+`')`)
	done, err := s.replay(operator.Replay{})
	require.NoError(t, err)
	require.Equal(t, "elsewhere", done[0].Result)
	require.EqualValues(t, 1, s.last())

	s.alter(`UPDATE audit_copies SET claimed_at = now() - interval '2 minutes'`)
	done, err = s.replay(operator.Replay{})
	require.NoError(t, err)
	require.Equal(t, "sent", done[0].Result)
	s.decide()
	require.EqualValues(t, 1, s.balance("purse:a"))
	s.auditClean()
}

// created is the stream's incarnation as the database has it.
func (s *system) created() string {
	s.t.Helper()
	events, err := s.js.Stream(s.t.Context(), stream.Events)
	require.NoError(s.t, err)
	return events.CachedInfo().Created.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
}
