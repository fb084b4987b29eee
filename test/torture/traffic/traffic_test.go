package traffic

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deliveries plays a stream to its end.
func deliveries(t *testing.T, seed uint64, n int) (*Stream, []Delivery) {
	t.Helper()
	s := New(seed, 100)
	var list []Delivery
	for len(list) < n {
		d, ok := s.Next()
		require.True(t, ok)
		list = append(list, d)
	}
	s.Finish()
	for {
		d, ok := s.Next()
		if !ok {
			return s, list
		}
		list = append(list, d)
	}
}

func TestSameSeedSameTraffic(t *testing.T) {
	_, a := deliveries(t, 7, 2000)
	_, b := deliveries(t, 7, 2000)
	_, c := deliveries(t, 8, 2000)
	require.Len(t, b, len(a))
	for i := range a {
		require.Equal(t, string(a[i].Body()), string(b[i].Body()), "delivery %d", i)
	}
	require.NotEqual(t, string(a[0].Body()), string(c[0].Body()))
}

func TestEveryContentIsDelivered(t *testing.T) {
	s, list := deliveries(t, 3, 20_000)
	type form struct {
		e       *Event
		content int
	}
	sent := map[form]int{}
	bodies := map[string]bool{}
	for _, d := range list {
		sent[form{d.Event, d.Content}]++
		bodies[string(d.Body())] = true
	}
	fates := map[string]int{}
	for _, e := range s.Events {
		fates[e.Reason]++
		for i := range e.Contents {
			require.Positive(t, sent[form{e, i}], "content %d of %s", i, e)
		}
	}
	require.Greater(t, len(list), len(s.Events)*3/2, "providers resend")
	require.Greater(t, len(bodies), len(s.Events), "and write the same in other ways")
	for _, reason := range []string{"", "currency_unknown", "amount_missing", "no_operation", "amount_overflow", "unmatched", "bad_json", "ambiguous_json", "no_event_id", "insufficient_funds"} {
		require.Positive(t, fates[reason], reason)
	}
}

func TestFormsMeanTheSame(t *testing.T) {
	s := New(1, 100)
	body := s.charge().Contents[0].JSON
	var first map[string]any
	require.NoError(t, json.Unmarshal(body.form(0), &first))
	seen := map[string]bool{}
	for n := range Forms {
		var other map[string]any
		require.NoError(t, json.Unmarshal(body.form(n), &other))
		require.Equal(t, first, other)
		seen[string(body.form(n))] = true
	}
	require.Len(t, seen, Forms)
}

// The signatures are those of the providers' own documents.
func TestSignatures(t *testing.T) {
	now := time.Unix(1614265330, 0)
	orders := Secrets{Orders: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
	h := orders.Header(Delivery{Event: &Event{Source: Orders, ID: "msg_p5jXN8AQM9LWM0D4loKWxJek"}}, []byte(`{"test": 2432232314}`), now)
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", h.Get("webhook-signature"))
}
