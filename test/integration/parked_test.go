package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/pkg/envelope"
)

func TestParkedEventAndItsRepeats(t *testing.T) { // case 9
	t.Parallel()
	s := newSystem(t, base)
	receivers := []*program{s.receiver(), s.receiver()}
	s.worker()
	want := newBook()
	spend := payment("evt_A9", "purse:9", "shop", 500)
	s.ack(receivers[0], spend)
	s.verify(want)
	require.Equal(t, row{Source: "shop", ID: "evt_A9", State: "failed", Reason: "insufficient_funds", Attempts: 3, Letter: 1}, s.row("shop", "evt_A9"))
	letter := s.letters()[0]
	require.Equal(t, spend.body, string(letter.Data), "the bytes are untouched")
	require.Equal(t, 3, letter.Attempts)
	require.NotEmpty(t, letter.Error)
	require.NotEmpty(t, letter.Hint())

	s.step("repeats add no letter and no attempt", func(t *testing.T) {
		s.ack(receivers[0], spend, spend.again(1))
		s.ack(receivers[1], spend)
		s.verify(want)
		require.Len(t, s.letters(), 1)
		require.Equal(t, 3, s.row("shop", "evt_A9").Attempts)
	})
	s.step("nor do they spend the money that has come since", func(t *testing.T) {
		s.ack(receivers[0], payment("evt_fund", "bank", "purse:9", 500))
		want.post("bank", "purse:9", 500)
		s.verify(want)
		s.ack(receivers[0], spend.again(2)) // only an operator decides that it may be tried again
		s.verify(want)
		require.Len(t, s.letters(), 1)
	})
	redrive := func() (code int, output string) {
		return s.run(s.Env(), "onceledger", "dlq", "redrive", "--all", "--yes", "--note", "the purse is filled", "--actor", "ada", "--config", s.cat.Config.File)
	}
	s.step("sent again by an operator, it is posted", func(t *testing.T) {
		code, out := redrive() // at once: no window of the broker may take it for a repeat
		require.Zero(t, code, out)
		want.post("purse:9", "shop", 500)
		s.verify(want)
		require.Empty(t, s.letters())
		require.Equal(t, row{Source: "shop", ID: "evt_A9", State: "completed", Outcome: "applied"}, s.row("shop", "evt_A9"))
		last := s.stored()[len(s.stored())-1]
		require.Equal(t, "1", last.header.Get("Onceledger-Redrive"))
		require.Equal(t, spend.body, string(last.event.Data))
	})
	s.step("and a second time gives nothing more", func(t *testing.T) {
		stored := len(s.stored())
		code, out := redrive()
		require.Zero(t, code, out)
		require.Len(t, s.stored(), stored)
		s.verify(want)
		require.Equal(t, 1, s.count(`SELECT count(*) FROM actions WHERE verb = 'redrive' AND actor = 'ada'`))
	})
}

// TestBatchMemberIsParked: a dead letter copies the headers of its event, and
// those of a batch would make the broker wait for the batch's end.
func TestBatchMemberIsParked(t *testing.T) {
	t.Parallel()
	s := newSystem(t, base)
	receiver := s.receiver()
	want, parked := newBook(), map[string]int{}

	s.step("first, middle and last of three", func(t *testing.T) {
		for bad := range 3 {
			var batch []*nats.Msg
			for i := range 3 {
				d := payment(fmt.Sprintf("evt_%d_%d", bad, i), "bank", "wallet", 1)
				if i == bad {
					d.body = d.body[:len(d.body)-1]
				} else {
					want.post("bank", "wallet", 1)
				}
				event := envelope.Event{Source: "shop", ID: d.id, Type: "paid", ContentType: "application/json", Data: []byte(d.body)}
				msg, err := event.Msg()
				require.NoError(t, err)
				batch = append(batch, msg)
			}
			ack, err := jetstreamext.PublishMsgBatch(t.Context(), s.js, batch)
			require.NoError(t, err)
			require.EqualValues(t, 3, ack.BatchSize)
			parked["bad_json"]++
		}
		s.worker()
		s.verify(want)
		require.Equal(t, parked, s.reasons())
	})
	s.step("in a group commit of the receiver", func(t *testing.T) {
		before := s.stored()
		var senders errgroup.Group
		senders.SetLimit(128)
		for i := range 600 {
			d := payment(fmt.Sprintf("evt_group_%d", i), "bank", "wallet", 1)
			if i%5 == 0 {
				d.body = strings.Replace(d.body, `"amount":1`, `"amount":"1,5"`, 1)
				parked["amount_format"]++
			} else {
				want.post("bank", "wallet", 1)
			}
			senders.Go(func() error {
				if r := s.send(receiver, d); r.status != http.StatusOK {
					return fmt.Errorf("status %d, %w", r.status, r.err)
				}
				return nil
			})
		}
		require.NoError(t, senders.Wait())
		s.verify(want)
		require.Equal(t, parked, s.reasons())

		grouped := 0
		for _, m := range s.stored()[len(before):] {
			if m.header.Get(jetstreamext.BatchIDHeader) != "" && strings.Contains(string(m.event.Data), "1,5") {
				grouped++
			}
		}
		require.Positive(t, grouped, "bad events came in atomic batches")
	})
	for _, l := range s.letters() {
		for name := range l.Header {
			require.NotContains(t, strings.ToLower(name), "nats-")
		}
	}
}

func TestPoisonHarmsNoNeighbour(t *testing.T) {
	t.Parallel()
	s := newSystem(t, base)
	receivers := []*program{s.receiver(), s.receiver()}
	s.worker()
	s.worker()
	want, parked := newBook(), map[string]int{}
	var deliveries []delivery
	for i := range 300 {
		d := payment(fmt.Sprintf("evt_%d", i), "till", fmt.Sprintf("wallet:%d", i%7), int64(i+1))
		replace := func(reason, old, with string) {
			require.Contains(t, d.body, old)
			d.body = strings.Replace(d.body, old, with, 1)
			parked[reason]++
		}
		switch {
		case i%30 == 3:
			replace("amount_format", fmt.Sprintf(`"amount":%d`, i+1), `"amount":"12,50"`)
		case i%30 == 13:
			replace("amount_overflow", fmt.Sprintf(`"amount":%d`, i+1), `"amount":9223372036854775808`)
		case i%30 == 23:
			d.id = ""
			replace("bad_json", `"payment":`, `"payment"`)
		case i%30 == 7:
			replace("insufficient_funds", `"from":"till"`, fmt.Sprintf(`"from":"purse:%d"`, i))
		default:
			want.post("till", fmt.Sprintf("wallet:%d", i%7), int64(i+1))
		}
		deliveries = append(deliveries, d)
	}
	var senders errgroup.Group
	senders.SetLimit(64)
	for i, d := range deliveries {
		senders.Go(func() error {
			if r := s.send(receivers[i%2], d); r.status != http.StatusOK {
				return fmt.Errorf("status %d, %w", r.status, r.err)
			}
			return nil
		})
	}
	require.NoError(t, senders.Wait())
	s.verify(want)
	require.Equal(t, map[string]int{"amount_format": 10, "amount_overflow": 10, "bad_json": 10, "insufficient_funds": 10}, parked)
	require.Equal(t, parked, s.reasons())
	require.Equal(t, 260, s.transfers())
	for _, r := range s.rows() {
		switch r.Reason {
		case "":
			require.Equal(t, "applied", r.Outcome)
			require.Zero(t, r.Attempts)
		case "insufficient_funds":
			require.Equal(t, 3, r.Attempts, "its budget is spent")
		default:
			require.Zero(t, r.Attempts, "trying again cannot help")
		}
	}
}
