package operator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/devstack"
	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/dlq"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// rules changes what the workers that start from now on make of the shop.
func (s *system) rules(from, to string) {
	s.t.Helper()
	text := strings.Replace(configuration, from, to, 1)
	require.NotEqual(s.t, configuration, text)
	s.write(text)
}

func (s *system) write(text string) {
	s.t.Helper()
	writeFile(s.t, s.env["ONCELEDGER_CONFIG"], text)
	var err error
	s.cat, err = catalog.Load(s.env["ONCELEDGER_CONFIG"], s.lookup)
	require.NoError(s.t, err)
}

// redrive runs the command and returns its JSON lines.
func (s *system) redrive(m operator.LetterMove) ([]operator.MovedLetter, error) {
	s.t.Helper()
	m.Rate = operator.DefaultRate
	out, err := s.run(true, func(ctx context.Context, o *operator.Session) error { return operator.RedriveLetters(ctx, o, m) })
	return lines[operator.MovedLetter](s.t, out), err
}

func (s *system) discard(m operator.LetterMove) ([]operator.MovedLetter, error) {
	s.t.Helper()
	m.Rate = operator.DefaultRate
	out, err := s.run(true, func(ctx context.Context, o *operator.Session) error { return operator.DiscardLetters(ctx, o, m) })
	return lines[operator.MovedLetter](s.t, out), err
}

func lines[T any](t *testing.T, out string) []T {
	t.Helper()
	var list []T
	for line := range strings.Lines(out) {
		var one T
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		list = append(list, one)
	}
	return list
}

func (s *system) event(id string) operator.Event {
	s.t.Helper()
	out, err := s.run(true, func(ctx context.Context, o *operator.Session) error { return operator.ShowEvent(ctx, o, "shop", id) })
	require.NoError(s.t, err)
	return lines[operator.Event](s.t, out)[0]
}

func (s *system) list(q operator.LetterQuery) []operator.Letter {
	s.t.Helper()
	out, err := s.run(true, func(ctx context.Context, o *operator.Session) error { return operator.ListLetters(ctx, o, q) })
	require.NoError(s.t, err)
	return lines[operator.Letter](s.t, out)
}

func (s *system) auditClean() {
	s.t.Helper()
	out, err := s.run(false, func(ctx context.Context, o *operator.Session) error { return operator.Audit(ctx, o, time.Nanosecond) })
	require.NoError(s.t, err, out)
}

// Case 9: what is sent again is really processed, once.
func TestRedriveAfterTheRuleIsCorrected(t *testing.T) {
	s := newSystem(t)
	s.rules("amount: body.amount", "amount: body.total")
	s.decide(payment("evt_A9", "p9", "1999", "EUR"))
	before := s.list(operator.LetterQuery{})
	require.Len(t, before, 1)
	require.Equal(t, "parked", before[0].Standing)

	// Within the duplicate window of the stream, which would swallow a repeat.
	s.write(configuration)
	moved, err := s.redrive(operator.LetterMove{Seqs: []uint64{before[0].Seq}, Actor: "ada", Note: "the rule is corrected"})
	require.NoError(t, err)
	require.Len(t, moved, 1)
	require.Equal(t, "redriven", moved[0].Result)
	require.EqualValues(t, 2, moved[0].Message)
	s.decide()

	event := s.event("evt_A9")
	require.Equal(t, []string{"completed", "applied"}, []string{event.State, event.Outcome})
	require.Len(t, event.Transfers, 1)
	require.Equal(t, 1, event.Redrives)
	require.Len(t, event.Actions, 1)
	require.Equal(t, []string{"ada", "redrive", "the rule is corrected"}, []string{event.Actions[0].Actor, event.Actions[0].Verb, event.Actions[0].Note})
	require.Empty(t, s.list(operator.LetterQuery{}))
	s.auditClean()

	t.Run("a second redrive gives 0 more", func(t *testing.T) {
		_, err := s.redrive(operator.LetterMove{Seqs: []uint64{before[0].Seq}})
		require.ErrorIs(t, err, dlq.ErrNotFound)
		s.decide()
		require.Len(t, s.event("evt_A9").Transfers, 1)
	})
	t.Run("nor does one of a letter that was left behind", func(t *testing.T) {
		msg, err := payment("evt_A9", "p9", "1999", "EUR").Msg()
		require.NoError(t, err)
		seq, err := dlq.Park(t.Context(), s.js, dlq.Letter{Source: "shop", EventID: "evt_A9", Reason: dlq.AmountMissing, Header: msg.Header, Data: msg.Data})
		require.NoError(t, err)
		moved, err := s.redrive(operator.LetterMove{Seqs: []uint64{seq}})
		require.ErrorContains(t, err, "was stale and is deleted")
		require.Equal(t, "stale", moved[0].Result)
		s.decide()
		require.Equal(t, 1, s.event("evt_A9").Redrives)
		_, err = dlq.Get(t.Context(), s.js, seq)
		require.ErrorIs(t, err, dlq.ErrNotFound)
		s.auditClean()
	})
}

// Some providers send back what they were given to know them by.
func TestALetterShowsNoSecret(t *testing.T) {
	s := newSystem(t)
	const body = `{"id":"evt_1","clientState":"secret-of-the-shop"}`
	seq, err := dlq.Park(t.Context(), s.js, dlq.Letter{Source: "shop", EventID: "evt_1", Reason: dlq.Unmatched, Data: []byte(body)})
	require.NoError(t, err)
	for _, asJSON := range []bool{false, true} {
		out, err := s.run(asJSON, func(ctx context.Context, o *operator.Session) error { return operator.ShowLetter(ctx, o, seq, false) })
		require.NoError(t, err)
		require.NotContains(t, out, "secret-of-the-shop")
		require.Contains(t, out, "[secret]")
	}
	out, err := s.run(false, func(ctx context.Context, o *operator.Session) error { return operator.ShowLetter(ctx, o, seq, true) })
	require.NoError(t, err)
	require.Equal(t, body, out)
}

func TestDiscardStaysVisible(t *testing.T) {
	s := newSystem(t)
	s.decide(payment("evt_1", "p1", `"many"`, "EUR"))

	_, err := s.discard(operator.LetterMove{Seqs: []uint64{1}})
	require.ErrorContains(t, err, "needs --note")
	require.Equal(t, exit.Usage, exit.Code(err))

	moved, err := s.discard(operator.LetterMove{Seqs: []uint64{1}, Note: "a test of the provider"})
	require.NoError(t, err)
	require.Equal(t, "discarded", moved[0].Result)
	require.Empty(t, s.list(operator.LetterQuery{}))
	event := s.event("evt_1")
	require.Equal(t, "discarded", event.State)
	require.Equal(t, "a test of the provider", event.Actions[0].Note)
	require.NotEmpty(t, event.Actions[0].Actor, "the user of this machine")
	out, err := s.run(false, func(ctx context.Context, o *operator.Session) error {
		return operator.ShowEvent(ctx, o, "shop", "evt_1")
	})
	require.NoError(t, err)
	require.Contains(t, out, "a test of the provider")
	out, err = s.run(false, func(ctx context.Context, o *operator.Session) error { return operator.Audit(ctx, o, time.Nanosecond) })
	require.NoError(t, err)
	require.Regexp(t, `discarded +1\n`, out)
}

func TestMoveMany(t *testing.T) {
	s := newSystem(t)
	s.decide(payment("ord_1", "p1", `"many"`, "EUR"), payment("ord_2", "p2", `"many"`, "EUR"), payment("inv_1", "p3", "5", "XXL"),
		event("inv_2", "refunded", `{"id":`))
	_, err := s.js.Publish(t.Context(), "events.shop.paid", []byte("hello"))
	require.NoError(t, err)
	s.decide()

	t.Run("filters select", func(t *testing.T) {
		for want, q := range map[string]operator.LetterQuery{
			"ord_1 ord_2":       {Key: "ord_*"},
			"ord_2":             {Key: "ord_2"},
			"inv_2":             {Type: "ref*"},
			"inv_1":             {Reason: "currency_unknown"},
			"ord_2 inv_1":       {Seq: "2-3"},
			"ord_1 ord_2 inv_1": {Seq: "-3", Source: "shop", Type: "paid"},
			"":                  {Age: "+1h"},
			"ord_1":             {Age: "-1h", Key: "ord_1"},
		} {
			var ids []string
			for _, l := range s.list(q) {
				ids = append(ids, l.EventID)
			}
			require.Equal(t, want, strings.Join(ids, " "), "%+v", q)
		}
	})
	t.Run("what is asked wrongly is a usage error", func(t *testing.T) {
		for text, m := range map[string]operator.LetterMove{
			"or --all for all":      {Query: operator.LetterQuery{Source: "shop"}},
			"not both":              {Seqs: []uint64{1}, All: true},
			"is unknown":            {All: true, Query: operator.LetterQuery{Reason: "x"}},
			"write +2h for older":   {All: true, Query: operator.LetterQuery{Age: "2h"}},
			"is not an age":         {All: true, Query: operator.LetterQuery{Age: "+soon"}},
			"neither a sequence":    {All: true, Query: operator.LetterQuery{Seq: "9-2"}},
			"nobody is at a termin": {All: true},
		} {
			_, err := s.redrive(m)
			require.ErrorContains(t, err, text)
			require.Equal(t, exit.Usage, exit.Code(err))
		}
	})
	t.Run("a dry run only counts", func(t *testing.T) {
		s.golden("redrive_preview", func(ctx context.Context, o *operator.Session) error {
			return operator.RedriveLetters(ctx, o, operator.LetterMove{All: true, DryRun: true, Rate: 1})
		})
		require.Len(t, s.list(operator.LetterQuery{}), 5)
	})
	t.Run("a person is asked", func(t *testing.T) {
		for answer, want := range map[string]int{"n\n": 5, "\n": 5, "": 5, "y\n": 4} {
			var out, asked bytes.Buffer
			session := &operator.Session{Env: s.lookup, Out: &out, Err: &asked, In: strings.NewReader(answer), Terminal: true}
			err := operator.DiscardLetters(t.Context(), session, operator.LetterMove{
				All: true, Query: operator.LetterQuery{Reason: "bad_envelope"}, Note: "who was that", Rate: 10,
			})
			if want == 5 {
				require.EqualError(t, err, "nothing was done")
			} else {
				require.NoError(t, err)
			}
			require.Contains(t, asked.String(), "discard 1 dead letter?")
			require.Len(t, s.list(operator.LetterQuery{}), want)
			if want == 4 {
				break
			}
		}
	})
	t.Run("all that match go", func(t *testing.T) {
		moved, err := s.redrive(operator.LetterMove{All: true, Yes: true, Query: operator.LetterQuery{Key: "ord_*"}})
		require.NoError(t, err)
		require.Len(t, moved, 2)
		s.decide()
		require.Equal(t, 1, s.event("ord_1").Redrives)
		require.Zero(t, s.event("inv_1").Redrives)
		require.Len(t, s.list(operator.LetterQuery{}), 4, "the rule is as it was: they are parked again")
	})
	s.auditClean()
}

func TestMoveNone(t *testing.T) {
	s := newSystem(t)
	for _, json := range []bool{true, false} {
		out, err := s.run(json, func(ctx context.Context, o *operator.Session) error {
			return operator.RedriveLetters(ctx, o, operator.LetterMove{All: true, Rate: 10})
		})
		require.NoError(t, err, "nobody has to be asked")
		require.Equal(t, json, out == "")
	}
	require.Empty(t, s.list(operator.LetterQuery{}))

	// A letter that never was is told from one that is gone.
	one := func(seq uint64) []error {
		_, shown := s.run(false, func(ctx context.Context, o *operator.Session) error { return operator.ShowLetter(ctx, o, seq, false) })
		_, redriven := s.redrive(operator.LetterMove{Seqs: []uint64{seq}, Rate: 1})
		_, corrected := s.run(false, func(ctx context.Context, o *operator.Session) error {
			return operator.CorrectByLetters(ctx, o, operator.LetterMove{Seqs: []uint64{seq}, DryRun: true}, false)
		})
		return []error{shown, redriven, corrected}
	}
	for _, err := range one(999) {
		require.ErrorContains(t, err, "there has been no dead letter yet")
	}
	s.rules("amount: body.amount", "amount: body.total")
	s.decide(payment("evt_1", "p1", "1999", "EUR"))
	dir := t.TempDir()
	addresses, err := json.Marshal(devstack.Addresses{DatabaseURL: s.env["DATABASE_URL"]})
	require.NoError(t, err)
	writeFile(t, filepath.Join(dir, "stack.json"), string(addresses))
	out, err := s.run(false, func(ctx context.Context, o *operator.Session) error {
		o.Data = dir
		return operator.ShowEvent(ctx, o, "shop", "evt_1")
	})
	require.NoError(t, err)
	require.Contains(t, out, "see: onceledger dlq show 1 --data "+dir, "what can be pasted")
	moved, err := s.discard(operator.LetterMove{Seqs: []uint64{1}, Rate: 1, Note: "n"})
	require.NoError(t, err)
	require.Equal(t, "discarded", moved[0].Result)
	for _, err := range one(999) {
		require.ErrorIs(t, err, dlq.ErrNotFound)
		require.ErrorContains(t, err, "there never was one: the newest was 1")
	}
	for _, err := range one(1) {
		require.ErrorContains(t, err, "its event was sent again, decided or discarded since")
	}
}

// many is enough for several pages of everything.
const many = 3000

func TestMoveThousands(t *testing.T) {
	s := newSystem(t)
	s.rules("amount: body.amount", "amount: body.total")
	events := make([]*envelope.Event, many)
	for i := range events {
		events[i] = payment(fmt.Sprintf("evt_%05d", i), fmt.Sprint("p", i), "1", "EUR")
	}
	s.decideTogether(events...)
	require.Len(t, s.list(operator.LetterQuery{}), many)

	s.write(configuration)
	out, err := s.run(true, func(ctx context.Context, o *operator.Session) error {
		return operator.RedriveLetters(ctx, o, operator.LetterMove{All: true, Yes: true, Rate: operator.MaxRate})
	})
	require.NoError(t, err)
	moved := lines[operator.MovedLetter](t, out)
	require.Len(t, moved, many)
	for _, m := range moved {
		require.Equal(t, "redriven", m.Result)
	}
	require.Empty(t, s.list(operator.LetterQuery{}))
	s.decideTogether()
	require.EqualValues(t, many, s.balance("purse:a"))
	require.Empty(t, s.list(operator.LetterQuery{}))
	s.auditClean()
}

// The rate is kept, and a command that is stopped says how far it came.
func TestMoveKeepsItsRate(t *testing.T) {
	s := newSystem(t)
	const all = 100
	for i := range all {
		msg, err := payment(fmt.Sprint("evt_", i), fmt.Sprint("p", i), "1", "EUR").Msg()
		require.NoError(t, err)
		_, err = dlq.Park(t.Context(), s.js, dlq.Letter{Source: "shop", EventID: fmt.Sprint("evt_", i), Reason: dlq.RuleError, Header: msg.Header, Data: msg.Data})
		require.NoError(t, err)
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- operator.RedriveLetters(ctx, &operator.Session{Env: s.lookup, Out: &out}, operator.LetterMove{All: true, Yes: true, Rate: 10})
	}()
	letters, err := s.js.Stream(t.Context(), stream.DLQ)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		info, err := letters.Info(t.Context())
		return err == nil && info.State.Msgs <= all-20
	}, time.Minute, 5*time.Millisecond, "two pages are moved")
	require.GreaterOrEqual(t, time.Since(began), time.Second)
	time.AfterFunc(300*time.Millisecond, cancel) // between two pages, if it is in time
	require.ErrorIs(t, <-ended, context.Canceled)
	said := regexp.MustCompile(`(\d+) letters redriven`).FindStringSubmatch(out.String())
	require.NotNil(t, said, out.String())
	told, err := strconv.Atoi(said[1])
	require.NoError(t, err)
	left := len(s.list(operator.LetterQuery{}))
	require.Positive(t, left)
	require.GreaterOrEqual(t, told, 10)
	// Of a page that the stop met nothing is told yet.
	const page = 10
	require.Contains(t, []int{0, 1}, (all-left-told+page-1)/page, "%d are told, %d left", told, left)
	events, err := s.js.Stream(t.Context(), stream.Events)
	require.NoError(t, err)
	require.Contains(t, []int{0, 1}, (int(events.CachedInfo().State.Msgs)-told+page-1)/page, "%d are told", told)
}
