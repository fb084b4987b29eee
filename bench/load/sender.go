package load

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/bench/traffic"
	"github.com/onceledger/onceledger/internal/catalog"
)

// run is what the senders of one plan share.
type run struct {
	address, path string
	sign          func(body []byte, now time.Time) (http.Header, error)
	charges       *traffic.Charges
	next          atomic.Int64
	twice         int
	from, until   time.Time // the measured time

	mu       sync.Mutex
	result   Result
	accepted []bool // by event
}

// send carries out plan in this process.
func send(ctx context.Context, plan Plan) (*Result, error) {
	target, err := url.Parse(plan.URL)
	if err != nil {
		return nil, fmt.Errorf("read address: %w", err)
	}
	cat, err := catalog.Load(plan.Config, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	source, ok := cat.Sources[plan.Source]
	if !ok {
		return nil, fmt.Errorf("source %q is not configured", plan.Source)
	}
	r := &run{
		address: target.Host, path: target.Path,
		sign: func(body []byte, now time.Time) (http.Header, error) {
			request, err := source.Sign(body, "", now)
			return request.Header, err
		},
		charges: traffic.NewCharges(plan.Tag, plan.Size), twice: plan.Twice,
		result: Result{Refused: map[int]int{}, Latency: NewHistogram()},
	}
	conns := make([]*conn, plan.Senders)
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	for i := range conns {
		if conns[i], err = dial(ctx, r.address); err != nil {
			return nil, err
		}
	}

	r.result.Began = time.Now()
	r.from = r.result.Began.Add(plan.WarmUp)
	r.until = r.from.Add(plan.Measure)
	var senders errgroup.Group
	for i := range conns {
		senders.Go(func() error { return r.loop(ctx, &conns[i]) })
	}
	if err := senders.Wait(); err != nil {
		return nil, err
	}
	r.sum()
	return &r.result, nil
}

// loop sends one event after the other until the time is over. A connection
// that breaks is replaced.
func (r *run) loop(ctx context.Context, c **conn) error {
	var body, request []byte
	for time.Now().Before(r.until) {
		event := traffic.Delivery(int(r.next.Add(1)-1), r.twice)
		body = r.charges.Append(body[:0], event)
		header, err := r.sign(body, time.Now())
		if err != nil {
			return err
		}
		request = appendRequest(request[:0], r.address, r.path, header, body)
		began := time.Now()
		status, closed, err := (*c).do(request)
		r.count(event, status, err, began, time.Now())
		if closed {
			(*c).Close()
			if *c, err = dial(ctx, r.address); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *run) count(event, status int, err error, began, ended time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.accepted) <= event {
		r.accepted = append(r.accepted, false)
	}
	switch {
	case err != nil:
		r.result.Unanswered++
	case status/100 != 2:
		r.result.Refused[status]++
	default:
		r.result.Accepted++
		r.accepted[event] = true
		if ended.Before(r.from) || !ended.Before(r.until) {
			return
		}
		r.result.Measured++
		_ = r.result.Latency.RecordValue(min(max(ended.Sub(began).Microseconds(), shortest), longest)) // within its range
	}
}

// sum says which events were sent and which of them nobody took.
func (r *run) sum() {
	r.result.Events = len(r.accepted)
	for event, accepted := range r.accepted {
		if !accepted {
			r.result.Lacking = append(r.result.Lacking, event)
		}
	}
}
