package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/exit"
	"github.com/onceledger/onceledger/internal/operator"
	"github.com/onceledger/onceledger/internal/review"
	"github.com/onceledger/onceledger/internal/stream"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// against runs the command for the rules that the file has now.
func (s *system) against(filter review.Filter) ([]operator.DifferingEvent, operator.StreamCheck) {
	s.t.Helper()
	out, err := s.run(true, func(ctx context.Context, o *operator.Session) error {
		return operator.CheckAgainstStream(ctx, o, s.env["ONCELEDGER_CONFIG"], filter)
	})
	list := strings.Split(strings.TrimSpace(out), "\n")
	var sum operator.StreamCheck
	require.NoError(s.t, json.Unmarshal([]byte(list[len(list)-1]), &sum), out)
	differences := lines[operator.DifferingEvent](s.t, strings.Join(list[:len(list)-1], "\n"))
	require.Len(s.t, differences, sum.Differences)
	if sum.Differences == 0 {
		require.NoError(s.t, err)
	} else {
		require.Equal(s.t, exit.Found, exit.Code(err))
	}
	return differences, sum
}

// kinds says of each difference which event it is and how it differs.
func (s *system) kinds(filter review.Filter) []string {
	s.t.Helper()
	differences, _ := s.against(filter)
	list := []string{}
	for _, d := range differences {
		list = append(list, d.EventID+" "+d.Kind)
	}
	return list
}

func refund(id, amount string) *envelope.Event {
	return event(id, "refunded", `{"id":"`+id+`","type":"refunded","payment":"`+id+`","from":"purse:a","to":"shop:due","amount":`+amount+`,"asset":"EUR"}`)
}

func TestCheckAgainstStream(t *testing.T) {
	s := newSystem(t)
	s.decide(
		payment("evt_paid", "p1", "500", "EUR"), payment("evt_paid", "p1", "500", "EUR"), payment("evt_paid", "p1", "700", "EUR"), // repeat, conflict
		payment("evt_again", "p1", "500", "EUR"), // money that is there already
		refund("evt_refund", "100"), event("evt_note", "noted", `{"id":"evt_note","type":"noted"}`),
		payment("evt_many", "p2", `"many"`, "EUR"), payment("evt_gems", "p3", "7", "GEMS"))
	paid := `      - when: event.type == "paid"`
	amount := "amount: body.amount"

	t.Run("nothing differs while the rules are the same", func(t *testing.T) {
		differences, sum := s.against(review.Filter{})
		require.Empty(t, differences)
		require.Equal(t, []int{8, 6, 0}, []int{sum.Messages, sum.Compared, sum.Outside})
		require.EqualValues(t, 1, sum.First)
		require.EqualValues(t, 8, sum.Last)
		out, err := s.run(false, func(ctx context.Context, o *operator.Session) error {
			return operator.CheckAgainstStream(ctx, o, s.env["ONCELEDGER_CONFIG"], review.Filter{})
		})
		require.NoError(t, err)
		require.Contains(t, out, "no event differs, of 6 events compared from message 1")
	})
	t.Run("an ignored type that would be posted", func(t *testing.T) {
		s.rules(paid, `      - when: event.type in ["paid", "refunded"]`)
		require.Equal(t, []string{"evt_refund would_post"}, s.kinds(review.Filter{}))
	})
	t.Run("an applied type that would be ignored", func(t *testing.T) {
		s.rules(paid, `      - when: event.type == "bought"`)
		require.Equal(t, []string{"evt_paid would_ignore", "evt_gems would_ignore", "evt_many would_ignore_parked"}, sorted(s.kinds(review.Filter{})))
	})
	t.Run("other money", func(t *testing.T) {
		s.rules("credit: body.to", `credit: '"purse:all"'`)
		differences, _ := s.against(review.Filter{})
		require.Equal(t, "would_post_differently", differences[0].Kind)
		require.Equal(t, []string{"purse:a", "purse:all"}, []string{differences[0].Stands[0].Credit, differences[0].Would.Transfers[0].Credit})
		// The operation of evt_again has another content than the one that stands.
		require.Equal(t, []string{"evt_paid would_post_differently", "evt_gems would_post_differently", "evt_again would_post"}, sorted(s.kinds(review.Filter{})))
	})
	t.Run("what cannot be decided any more, and what can be now", func(t *testing.T) {
		s.rules(amount, "amount: body.total")
		require.Equal(t, []string{"evt_paid would_park", "evt_again would_park", "evt_gems would_park"}, sorted(s.kinds(review.Filter{})))
		s.rules(amount, `amount: 'body.amount == "many" ? 3 : body.amount'`)
		require.Equal(t, []string{"evt_many would_apply"}, s.kinds(review.Filter{}))
	})
	t.Run("a source that the configuration no longer has", func(t *testing.T) {
		s.rules("  shop:\n    provider", "  store:\n    provider")
		differences, _ := s.against(review.Filter{})
		require.Len(t, differences, 5)
		for _, d := range differences {
			require.Equal(t, []string{"would_park", "source_unknown"}, []string{d.Kind, d.Would.Reason})
		}
	})
	t.Run("a duplicate whose operation is gone", func(t *testing.T) {
		s.write(configuration)
		s.backUp()
		s.alter(unbook("evt_paid"))
		differences, _ := s.against(review.Filter{})
		require.Equal(t, []string{"evt_paid would_post_differently", "evt_again would_post"}, sorted(s.kinds(review.Filter{})))
		require.Empty(t, differences[0].Stands)
		s.alter(`DELETE FROM transfers`, `INSERT INTO transfers SELECT * FROM saved_transfers`)
		require.Equal(t, []string{"evt_again would_post"}, sorted(s.kinds(review.Filter{})),
			"a transfer without its operation stands, but nobody has the operation")
		s.restore()
		require.Empty(t, s.kinds(review.Filter{}))
	})
	t.Run("both forms", func(t *testing.T) {
		s.renumber()
		s.rules(paid, `      - when: event.type == "refunded" || event.type == "paid" && body.asset == "GEMS"`)
		for suffix, json := range map[string]bool{".txt": false, ".json": true} {
			out, err := s.run(json, func(ctx context.Context, o *operator.Session) error {
				return operator.CheckAgainstStream(ctx, o, s.env["ONCELEDGER_CONFIG"], review.Filter{})
			})
			require.EqualError(t, err, "3 events would be treated in another way")
			compare(t, "check_against_stream"+suffix, strings.ReplaceAll(out, s.env["ONCELEDGER_CONFIG"], "onceledger.yaml"))
		}
	})
	t.Run("filters select", func(t *testing.T) {
		s.rules(amount, "amount: body.total")
		for want, f := range map[string]review.Filter{
			"3": {}, "3 ": {Source: "shop"}, "0": {Source: "stripe"}, "0 ": {Type: "ref*"}, "3  ": {Type: "pa*"}, "1": {From: 2, To: 4}, "2": {To: 4},
			"0   ": {Since: time.Now().Add(time.Minute)}, "3   ": {Since: time.Now().Add(-time.Hour)}, "0    ": {Until: time.Now().Add(-time.Hour)},
			"3     ": {Until: time.Now().Add(time.Minute)},
		} {
			require.Equal(t, strings.TrimSpace(want), fmt.Sprint(len(s.kinds(f))), "%+v", f)
		}
	})
	t.Run("what was trimmed is not compared, and counted", func(t *testing.T) {
		events, err := s.js.Stream(t.Context(), stream.Events)
		require.NoError(t, err)
		require.NoError(t, events.Purge(t.Context(), jetstream.WithPurgeSequence(4)))
		_, sum := s.against(review.Filter{})
		require.Equal(t, []int{5, 5, 1, 2}, []int{sum.Messages, sum.Compared, sum.Outside, sum.Differences})
		_, sum = s.against(review.Filter{Type: "ref*"})
		require.Zero(t, sum.Outside)
		require.NoError(t, events.Purge(t.Context()))
		_, sum = s.against(review.Filter{})
		require.Equal(t, []int{0, 0, 2}, []int{sum.Messages, sum.Compared, sum.Outside})
	})
	t.Run("faults of the file are those of config check", func(t *testing.T) {
		writeFile(t, s.env["ONCELEDGER_CONFIG"], "sources: {shop: {provider: nobody}}")
		_, err := s.run(false, func(ctx context.Context, o *operator.Session) error {
			return operator.CheckAgainstStream(ctx, o, s.env["ONCELEDGER_CONFIG"], review.Filter{})
		})
		require.Equal(t, exit.Usage, exit.Code(err))
	})
}

// sorted orders by kind's urgency, then as they came.
func sorted(list []string) []string {
	var out []string
	for _, k := range review.Kinds() {
		for _, one := range list {
			if strings.HasSuffix(one, " "+string(k)) {
				out = append(out, one)
			}
		}
	}
	return out
}
