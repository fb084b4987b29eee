package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
)

// delivery is one request of a provider.
type delivery struct {
	// source is the endpoint, id the key that the event has under it; empty
	// where the event has none and gets a generated one.
	source, id string
	body       string
}

// payment asks the shop's rules for one transfer.
func payment(id, from, to string, amount int64) delivery {
	return delivery{"shop", id, fmt.Sprintf(`{"id":%q,"type":"paid","payment":"p-%s","from":%q,"to":%q,"amount":%d}`, id, id, from, to, amount)}
}

// again is p with other bytes and the same meaning: a resend that no receiver
// can recognise.
func (d delivery) again(retry int) delivery {
	d.body = fmt.Sprintf(`{"retry":%d,`, retry) + strings.TrimPrefix(d.body, "{")
	return d
}

// charge is a Stripe event in live mode: amount leaves the customer's wallet.
func charge(id, customer string, amount int64) delivery {
	return delivery{"stripe", id, stripeBody(id, "charge.succeeded", `"livemode":true,`, customer, amount)}
}

func stripeBody(id, kind, mode, customer string, amount int64) string {
	return fmt.Sprintf(`{"id":%q,"object":"event",%s"created":1700000000,"type":%q,`+
		`"data":{"object":{"id":%q,"object":"charge","amount":%d,"currency":"eur","customer":%q}}}`,
		id, mode, kind, "ch_"+id, amount, customer)
}

// reply is what a sender sees. Its status is 0 where there was no answer.
type reply struct {
	status int
	header http.Header
	took   time.Duration
	err    error
}

// accepted reports whether the sender may forget the event.
func (r reply) accepted() bool { return r.status/100 == 2 }

// send signs d as of now and sends it. It is safe for concurrent use. What was
// accepted is noted: system.verify holds the programs to it.
func (s *system) send(to *program, d delivery) reply {
	signed, err := s.cat.Sources[d.source].Sign([]byte(d.body), "", time.Now())
	if err != nil {
		return reply{err: err}
	}
	return s.request(to, d, signed.Header)
}

func (s *system) request(to *program, d delivery, header http.Header) reply {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, to.url+"/webhooks/"+d.source, strings.NewReader(d.body))
	if err != nil {
		return reply{err: err}
	}
	req.Header = header
	began := time.Now()
	res, err := s.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	r := reply{status: res.StatusCode, header: res.Header, took: time.Since(began), err: err}
	if r.accepted() {
		s.note(d)
	}
	return r
}

func (s *system) note(d delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.id != "" {
		s.acked[key{d.source, d.id}]++
	}
}

// ack sends deliveries in turn, each of which must be accepted.
func (s *system) ack(to *program, deliveries ...delivery) {
	s.t.Helper()
	for _, d := range deliveries {
		r := s.send(to, d)
		require.NoError(s.t, r.err)
		require.Equal(s.t, http.StatusOK, r.status, d.body)
	}
}

// attempt is a delivery and what its sender was told.
type attempt struct {
	delivery
	reply
}

// flood is a steady stream of new deliveries in the background.
type flood struct {
	cancel  context.CancelFunc
	senders sync.WaitGroup

	mu       sync.Mutex
	attempts []attempt
}

// floodSenders is how many requests of a flood are under way at most.
const floodSenders = 16

// flood sends event(0), event(1) … at a pace, each once, to the programs in turn.
func (s *system) flood(pace time.Duration, event func(i int) delivery, to ...*program) *flood {
	ctx, cancel := context.WithCancel(s.t.Context())
	f := &flood{cancel: cancel}
	turns := time.NewTicker(pace)
	next := 0
	for range floodSenders {
		f.senders.Go(func() {
			for {
				select {
				case <-turns.C:
				case <-ctx.Done():
					return
				}
				f.mu.Lock()
				i := next
				next++
				f.mu.Unlock()
				d := event(i)
				r := s.send(to[i%len(to)], d)
				f.mu.Lock()
				f.attempts = append(f.attempts, attempt{d, r})
				f.mu.Unlock()
			}
		})
	}
	s.t.Cleanup(func() { f.end(); turns.Stop() })
	return f
}

// end waits for what is under way and returns everything that was sent.
func (f *flood) end() []attempt {
	f.cancel()
	f.senders.Wait()
	return f.attempts
}

// accepted ends the flood and wants everything accepted. Where the broker took too
// long, and a receiver says so, it is sent again, as its sender would.
func (s *system) accepted(f *flood, receivers ...*program) []attempt {
	s.t.Helper()
	var again []delivery
	for i, a := range f.end() {
		if a.status == http.StatusOK {
			continue
		}
		require.Equal(s.t, http.StatusServiceUnavailable, a.status, "%d: %v", i, a.err)
		again = append(again, a.delivery)
	}
	if len(again) > 0 {
		late := 0
		for _, p := range receivers {
			late += s.logged(p, "storing in EVENTS is unavailable")
		}
		require.Positive(s.t, late, "%d were refused, and not for the broker's sake", len(again))
	}
	s.ack(receivers[0], again...)
	return f.attempts
}

// count returns how many attempts so far were answered with status.
func (f *flood) count(status int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, a := range f.attempts {
		if a.status == status {
			n++
		}
	}
	return n
}
