package load

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/bench/traffic"
	"github.com/onceledger/onceledger/internal/catalog"
)

// overtime is how long after its end an open loop goes on to send what is due:
// what is left then has met a receiver that cannot keep up.
const overtime = 5 * time.Second

// run is what the senders of one plan share.
type run struct {
	plan                     Plan
	address, path            string
	sign                     func(body []byte, now time.Time) (http.Header, error)
	charges                  *traffic.Charges
	start, from, until, last time.Time // from and until bound the measured time

	mu       sync.Mutex
	order    *order
	accepted tally
	result   Result
}

// send carries out plan in this process.
func send(ctx context.Context, plan Plan) (*Result, error) {
	cat, err := catalog.Load(plan.Config, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	source, ok := cat.Sources[plan.Source]
	if !ok {
		return nil, fmt.Errorf("source %q is not configured", plan.Source)
	}
	return sendSigned(ctx, plan, func(body []byte, now time.Time) (http.Header, error) {
		request, err := source.Sign(body, "", now)
		return request.Header, err
	})
}

func sendSigned(ctx context.Context, plan Plan, sign func([]byte, time.Time) (http.Header, error)) (*Result, error) {
	target, err := url.Parse(plan.URL)
	if err != nil {
		return nil, fmt.Errorf("read address: %w", err)
	}
	r := &run{
		plan: plan, address: target.Host, path: target.Path, sign: sign,
		charges: traffic.NewCharges(plan.Tag, plan.Size), order: newOrder(plan),
		result: Result{Refused: map[int]int{}, Latency: NewHistogram()},
	}
	if plan.Random {
		r.charges = r.charges.Random()
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

	r.start = time.Now()
	r.from = r.start.Add(plan.WarmUp)
	r.until = r.from.Add(plan.Measure)
	r.last = r.until.Add(overtime)
	r.result.From, r.result.First = r.from, r.start
	var senders errgroup.Group
	for i := range conns {
		senders.Go(func() error { return r.loop(ctx, &conns[i]) })
	}
	if err := senders.Wait(); err != nil {
		return nil, err
	}
	r.result.Events, r.result.Sent = r.accepted.sum(), r.order.events
	r.result.Lacking = r.accepted.lacking(r.result.Sent)
	return &r.result, nil
}

// loop sends one delivery after the other until none is left. A connection that
// breaks is replaced.
func (r *run) loop(ctx context.Context, c **conn) error {
	var body, request []byte
	for {
		d, ok := r.take()
		if !ok {
			return nil
		}
		due := r.await(ctx, d)
		if r.plan.Rate > 0 && !time.Now().Before(r.last) {
			r.giveUp(due)
			continue
		}
		if d.conflict {
			body = r.charges.AppendConflict(body[:0], d.event)
		} else {
			body = r.charges.Append(body[:0], d.event)
		}
		header, err := r.sign(body, time.Now())
		if err != nil {
			return err
		}
		request = appendRequest(request[:0], r.address, r.path, header, body)
		if r.plan.Rate == 0 {
			due = time.Now()
		}
		status, closed, err := (*c).do(request)
		r.count(d, status, err, due, time.Now())
		if closed {
			(*c).Close()
			if *c, err = dial(ctx, r.address); err != nil {
				return err
			}
		}
	}
}

// take hands out the deliveries in order.
func (r *run) take() (delivery, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.plan.Rate == 0 && !time.Now().Before(r.until) {
		return delivery{}, false
	}
	return r.order.next()
}

// await returns when d is due, at once if it has been for some time.
func (r *run) await(ctx context.Context, d delivery) (due time.Time) {
	due = r.start.Add(d.due)
	if early := time.Until(due); early > 0 {
		timer := time.NewTimer(early)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return due
}

func (r *run) giveUp(due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Unsent++
	if !due.Before(r.from) {
		r.record(time.Since(due))
	}
}

func (r *run) count(d delivery, status int, err error, due, ended time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.result.Unanswered++
		return
	case status/100 != 2:
		r.result.Refused[status]++
		return
	}
	r.result.Accepted++
	r.accepted.add(d)
	if ended.After(r.result.Last) {
		r.result.Last = ended
	}
	if !ended.Before(r.from) {
		second := int(ended.Sub(r.from) / time.Second)
		for len(r.result.Acks) <= second {
			r.result.Acks = append(r.result.Acks, 0)
		}
		r.result.Acks[second]++
	}
	// What a closed loop is asked is how much was done in that time, what an open
	// one is asked is what became of all that was due in it.
	moment := ended
	if r.plan.Rate > 0 {
		moment = due
	}
	if moment.Before(r.from) || !moment.Before(r.until) {
		return
	}
	r.result.Measured++
	r.record(ended.Sub(due))
}

func (r *run) record(latency time.Duration) {
	_ = r.result.Latency.RecordValue(min(max(latency.Microseconds(), shortest), longest)) // within its range
}
