package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/catalog"
)

const (
	// senders is how many requests are under way at once.
	senders = 128
	// sendTries and sendTimeout are a patient provider's.
	sendTries   = 30
	sendTimeout = 10 * time.Second
	// sendPause is the wait after an answer that names none.
	sendPause = 200 * time.Millisecond
)

// sender sends a plan as providers would: signed when it is sent, over
// connections that are kept, and again until it is answered.
type sender struct {
	cat    *catalog.Catalog
	url    string
	client *http.Client
	// sent is called after each delivery that was answered.
	sent func()

	acks []time.Duration // of each accepted delivery: its last try; 0 for the others
	// retries counts repeated tries, by delivery: one without an answer may
	// have been stored all the same.
	retries []int
	refused atomic.Int64 // by 401
}

func newSender(cat *catalog.Catalog, url string, p *plan, sent func()) *sender {
	return &sender{
		cat: cat,
		url: url,
		client: &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: senders, MaxConnsPerHost: senders},
			Timeout:       sendTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		sent:    sent,
		acks:    make([]time.Duration, len(p.deliveries)),
		retries: make([]int, len(p.deliveries)),
	}
}

// send sends every delivery of p, in its order, and returns when all are
// answered. An answer that no provider should get is an error.
func (s *sender) send(ctx context.Context, p *plan) error {
	defer s.client.CloseIdleConnections()
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range senders {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(p.deliveries) || ctx.Err() != nil {
					return ctx.Err()
				}
				if err := s.deliver(ctx, i, p.deliveries[i]); err != nil {
					return err
				}
				s.sent()
			}
		})
	}
	return group.Wait()
}

// deliver sends one delivery until it is answered for good.
func (s *sender) deliver(ctx context.Context, i int, d delivery) error {
	for {
		began := time.Now()
		status, wait, err := s.post(ctx, d)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && d.forged && status == http.StatusUnauthorized:
			s.refused.Add(1)
			return nil
		case err == nil && !d.forged && status >= 200 && status < 300:
			s.acks[i] = took
			return nil
		case err == nil && status != http.StatusServiceUnavailable:
			return fmt.Errorf("send event %s of %s: answered with %d", d.event.id, d.event.source, status)
		case s.retries[i] == sendTries:
			return fmt.Errorf("send event %s of %s: no answer after %d tries: status %d, %w", d.event.id, d.event.source, sendTries, status, err)
		}
		s.retries[i]++
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// post sends one request. wait is how long to wait before another try.
func (s *sender) post(ctx context.Context, d delivery) (status int, wait time.Duration, err error) {
	signed := d.body
	if d.forged {
		signed = d.event.contents[0].bytes()
	}
	signature, err := s.cat.Sources[d.event.source].Sign(signed, d.event.id, time.Now())
	if err != nil {
		return 0, sendPause, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/webhooks/"+d.event.source, bytes.NewReader(d.body))
	if err != nil {
		return 0, sendPause, err
	}
	request.Header = signature.Header
	response, err := s.client.Do(request)
	if err != nil {
		return 0, sendPause, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0, sendPause, err
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		return response.StatusCode, time.Duration(seconds) * time.Second, nil
	}
	return response.StatusCode, sendPause, nil
}

// maybeTwice counts the deliveries without an id that were tried again: each try
// may have left a row of its own.
func (s *sender) maybeTwice(p *plan) map[keylessRow]int {
	extra := map[keylessRow]int{}
	for i, n := range s.retries {
		if e := p.deliveries[i].event; e.keyless {
			extra[keylessRow{e.source, e.want}] += n
		}
	}
	return extra
}
