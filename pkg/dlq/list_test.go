package dlq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/pkg/dlq"
)

func TestListFilters(t *testing.T) {
	t.Parallel()
	js := broker(t)
	require.Empty(t, list(t, js, dlq.Filter{}))
	for _, l := range []struct {
		reason dlq.Reason
		source string
	}{
		{dlq.BadJSON, "stripe"}, {dlq.RuleError, "stripe"}, {dlq.BadJSON, "github"}, {dlq.BadJSON, "a.b"}, {dlq.BadJSON, "a_b"}, {dlq.BadJSON, "日"},
	} {
		park(t, js, dlq.Letter{Reason: l.reason, Source: l.source, EventID: "e"})
	}
	seqs := func(filter dlq.Filter) (all []uint64) {
		for _, l := range list(t, js, filter) {
			all = append(all, l.Seq)
		}
		return all
	}
	require.Equal(t, []uint64{1, 2, 3, 4, 5, 6}, seqs(dlq.Filter{}))
	require.Equal(t, []uint64{1, 3, 4, 5, 6}, seqs(dlq.Filter{Reason: dlq.BadJSON}))
	require.Equal(t, []uint64{1, 2}, seqs(dlq.Filter{Source: "stripe"}))
	require.Equal(t, []uint64{2}, seqs(dlq.Filter{Reason: dlq.RuleError, Source: "stripe"}))
	require.Empty(t, seqs(dlq.Filter{Reason: dlq.RuleError, Source: "github"}))
	require.Equal(t, []uint64{3, 4, 5, 6}, seqs(dlq.Filter{From: 3}))
	require.Equal(t, []uint64{2}, seqs(dlq.Filter{Source: "stripe", From: 2}))
	require.Empty(t, seqs(dlq.Filter{From: 7}))
	require.Empty(t, seqs(dlq.Filter{From: 1001}))
	// Sources that share a subject are told apart.
	require.Equal(t, []uint64{4}, seqs(dlq.Filter{Source: "a.b"}))
	require.Equal(t, []uint64{5}, seqs(dlq.Filter{Source: "a_b"}))
	require.Equal(t, []uint64{6}, seqs(dlq.Filter{Source: "日"}))
}

func TestListOfManyIsInOrderAndComplete(t *testing.T) {
	t.Parallel()
	js := broker(t)
	const letters = 2000
	var group errgroup.Group
	group.SetLimit(32)
	for n := range letters {
		group.Go(func() error {
			_, err := dlq.Park(t.Context(), js, dlq.Letter{Reason: dlq.BadJSON, Source: fmt.Sprint("s", n%2), EventID: fmt.Sprint(n)})
			return err
		})
	}
	require.NoError(t, group.Wait())
	seen := map[string]bool{}
	last := uint64(0)
	for _, l := range list(t, js, dlq.Filter{}) {
		require.Greater(t, l.Seq, last)
		last = l.Seq
		seen[l.EventID] = true
	}
	require.Len(t, seen, letters)
	require.Len(t, list(t, js, dlq.Filter{Source: "s1"}), letters/2)
}

func TestListEndsAtWhatWasThere(t *testing.T) {
	t.Parallel()
	js := broker(t)
	for range 3 {
		park(t, js, letter())
	}
	seen := 0
	require.NoError(t, dlq.List(t.Context(), js, dlq.Filter{}, func(*dlq.Letter) error {
		seen++
		_, err := dlq.Park(t.Context(), js, letter()) // a letter for every letter, for ever
		return err
	}))
	require.Equal(t, 3, seen)
}

// Letters go away while a list is read: by a redrive, or by another operator.
func TestListOfLettersThatGoAwayEnds(t *testing.T) {
	t.Parallel()
	js := broker(t)
	const stored = 700 // more than one request brings
	for range stored {
		park(t, js, letter())
	}
	letters, err := js.Stream(t.Context(), dlq.Stream)
	require.NoError(t, err)
	began, seen := time.Now(), 0
	require.NoError(t, dlq.List(t.Context(), js, dlq.Filter{}, func(*dlq.Letter) error {
		seen++
		if seen == 1 {
			return letters.Purge(t.Context())
		}
		return nil
	}))
	require.Less(t, time.Since(began), 15*time.Second)
	require.Less(t, seen, stored)
}

func TestListEndsWhenToldTo(t *testing.T) {
	t.Parallel()
	js := broker(t)
	for range 5 {
		park(t, js, letter())
	}
	stop := errors.New("enough")
	seen := 0
	require.Equal(t, stop, dlq.List(t.Context(), js, dlq.Filter{}, func(*dlq.Letter) error { seen++; return stop }))
	require.Equal(t, 1, seen)

	ctx, cancel := context.WithCancel(t.Context())
	seen = 0
	require.ErrorIs(t, dlq.List(ctx, js, dlq.Filter{}, func(*dlq.Letter) error { seen++; cancel(); return nil }), context.Canceled)
	require.Equal(t, 1, seen)
}

// Anybody who may publish can write into the stream.
func TestStrangersMessagesAreShownAsFarAsTheyGo(t *testing.T) {
	t.Parallel()
	js := broker(t)
	for _, msg := range []*nats.Msg{
		{Subject: "dlq.bad_json.stripe", Data: []byte("no headers")},
		{Subject: "dlq.one", Data: nil},
		{Subject: "dlq.a.b.c.d"},
		{Subject: "dlq.bad_json.stripe", Header: nats.Header{
			"Onceledger-Attempts": {"many"}, "Onceledger-Origin-Seq": {"-1"}, "Onceledger-First-Seen": {"yesterday"},
			"Onceledger-Reason": {"%zz"}, "Onceledger-Error": {"é"}, "Onceledger-Source": {"%"}, "Onceledger-Event-Id": {""},
		}},
		{Subject: "dlq.bad_json.stripe", Header: nats.Header{"Onceledger-Reason": {"a", "b"}, "onceledger-source": {"x"}, "Onceledger-Attempts": {"99999999999999999999"}}},
		// What looks like the broker's word about where it lies, or that nothing follows.
		{Subject: "dlq.bad_json.stripe", Header: nats.Header{"Nats-Sequence": {"1"}, "Nats-Time-Stamp": {"2001-01-01T00:00:00Z"}}},
		{Subject: "dlq.bad_json.stripe", Header: nats.Header{"Nats-Sequence": {"many"}, "Nats-Time-Stamp": {"yesterday"}}},
		{Subject: "dlq.bad_json.stripe", Header: nats.Header{"Status": {"404"}}},
		{Subject: "dlq.bad_json.stripe", Header: nats.Header{"Status": {"204"}, "Description": {"EOB"}}},
		{Subject: "dlq.bad_json.stripe"},
	} {
		_, err := js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	all := list(t, js, dlq.Filter{})
	require.Len(t, all, 10)
	for i, l := range all {
		require.EqualValues(t, i+1, l.Seq)
		require.WithinDuration(t, time.Now(), l.Parked, time.Minute)
		require.Empty(t, l.Hint())
		require.Empty(t, l.EventType())
		have, err := dlq.Get(t.Context(), js, l.Seq)
		require.NoError(t, err)
		require.Equal(t, l, have)
	}
	require.Equal(t, "no headers", string(all[0].Data))
	require.Empty(t, list(t, js, dlq.Filter{Reason: dlq.BadJSON}), "none of them says why it was parked")
}

func TestRemoveOfWhatIsGone(t *testing.T) {
	t.Parallel()
	js := broker(t)
	first, second := park(t, js, dlq.Letter{Reason: dlq.BadJSON, EventID: "1"}), park(t, js, dlq.Letter{Reason: dlq.BadJSON, EventID: "2"})
	kept := park(t, js, dlq.Letter{Reason: dlq.BadJSON, EventID: "3"})
	require.NoError(t, dlq.Remove(t.Context(), js))
	require.NoError(t, dlq.Remove(t.Context(), js, first))
	require.NoError(t, dlq.Remove(t.Context(), js, first, second, 1000), "it may be repeated")
	left := list(t, js, dlq.Filter{})
	require.Len(t, left, 1)
	require.Equal(t, kept, left[0].Seq)
}
