// Package client sends deliveries as providers do: signed at the moment they are
// sent, by many at once, each until it is answered; some give up after a moment
// and send again. Every try is written into a history.
//
//	senders := &client.Senders{URLs: urls, Secrets: secrets, Rate: 700, History: file}
//	err := senders.Run(ctx, next)
package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/test/torture/traffic"
)

const (
	// senders is how many requests may be under way.
	senders = 96
	// patience is when a sender takes a try for lost; impatience when one that
	// does not wait does.
	patience, impatience = 8 * time.Second, 250 * time.Millisecond
	// pause bounds the wait before a delivery is sent again.
	pause = 400 * time.Millisecond
)

// Senders is a set of clients.
type Senders struct {
	// URLs are the receivers; each try goes to one of them.
	URLs    []string
	Secrets traffic.Secrets
	// Rate is how many deliveries a second begin; what an outage holds up is made
	// up for.
	Rate int
	// History is told of each try, a line each.
	History io.Writer

	client *http.Client
	began  time.Time

	mu      sync.Mutex
	history *bufio.Writer
	next    int
	result  Result
	lastAck time.Time
}

// Result is what became of the deliveries.
type Result struct {
	Deliveries int `json:"deliveries"`
	Tries      int `json:"tries"`
	// TimedOut and Refused are tries without an answer, and with one that asks to
	// send again; Unreachable found nobody.
	TimedOut    int `json:"timed_out"`
	Refused     int `json:"refused"`
	Unreachable int `json:"unreachable"`
	// Forged were sent with a bad signature, and all answered 401.
	Forged int `json:"forged"`
	// Outage is the longest time in which no delivery was accepted anywhere.
	Outage time.Duration `json:"longest_outage_ns"`
	// Wrong are answers that no sender should get.
	Wrong []string `json:"wrong"`
	// Acked are the deliveries answered with 2xx, by source and body.
	Acked map[Body]Acked `json:"-"`
}

// Body names what was sent: a hash over source and bytes.
type Body [16]byte

// BodyOf returns the name of bytes that came for a source.
func BodyOf(source string, body []byte) Body { return nameOf(source, sha256.Sum256(body)) }

func nameOf(source string, hash [sha256.Size]byte) (b Body) {
	sum := sha256.Sum256(append(hash[:], source...))
	copy(b[:], sum[:])
	return b
}

// Acked is how often a body was accepted, and how often it was tried.
type Acked struct {
	Event       *traffic.Event
	Content     int
	Hash        [sha256.Size]byte // of the body alone
	Acks, Tries int
}

// Run sends what next returns, at the planned rate, until there is no more and
// everything is answered, or ctx ends.
func (s *Senders) Run(ctx context.Context, next func() (traffic.Delivery, bool)) (Result, error) {
	s.client = &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: senders, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer s.client.CloseIdleConnections()
	s.history, s.began = bufio.NewWriterSize(s.History, 1<<20), time.Now()
	s.lastAck, s.result.Acked = s.began, map[Body]Acked{}
	fmt.Fprintln(s.history, "# milliseconds delivery source event content form receiver status")
	group, running := errgroup.WithContext(ctx)
	for range senders {
		group.Go(func() error {
			for {
				n, at := s.turn()
				if wait := time.Until(at); wait > 0 {
					select {
					case <-time.After(wait):
					case <-running.Done():
						return running.Err()
					}
				}
				d, ok := next()
				if !ok {
					return nil
				}
				if err := s.deliver(running, n, d); err != nil {
					return err
				}
			}
		})
	}
	err := group.Wait()
	if flushed := s.history.Flush(); err == nil {
		err = flushed
	}
	return s.result, err
}

// turn returns the number of the next delivery, and when it is due.
func (s *Senders) turn() (int, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.next, s.began.Add(time.Duration(s.next) * time.Second / time.Duration(s.Rate))
}

// deliver sends one delivery until it is answered for good.
func (s *Senders) deliver(ctx context.Context, n int, d traffic.Delivery) error {
	body := d.Body()
	name := Acked{Event: d.Event, Content: d.Content, Hash: sha256.Sum256(body)}
	for try := 1; ctx.Err() == nil; try++ {
		limit := patience
		if d.Impatient && try <= 3 {
			limit = impatience
		}
		receiver := rand.IntN(len(s.URLs)) //nolint:gosec // which one is no secret
		status, err := s.post(ctx, s.URLs[receiver], d, body, limit)
		done, failed := s.tell(n, d, name, receiver, status, err)
		if failed != nil || done {
			return failed
		}
		select {
		case <-time.After(time.Duration(rand.Int64N(int64(pause)))): //nolint:gosec // as above
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func (s *Senders) post(ctx context.Context, url string, d traffic.Delivery, body []byte, limit time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/webhooks/"+d.Event.Source, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header = s.Secrets.Header(d, body, time.Now())
	response, err := s.client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return -1, err
		}
		return 0, err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // so that the connection is kept
	return response.StatusCode, nil
}

// tell notes a try, and reports whether it was the last one.
func (s *Senders) tell(n int, d traffic.Delivery, body Acked, receiver, status int, err error) (done bool, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := strconv.AppendInt(s.history.AvailableBuffer(), time.Since(s.began).Milliseconds(), 10)
	line = fmt.Appendf(line, " %d %s %s %d %d %d %d\n", n, d.Event.Source, d.Event.ID, d.Content, d.Form, receiver+1, status)
	if _, err := s.history.Write(line); err != nil {
		return true, fmt.Errorf("write history: %w", err)
	}
	s.result.Tries++
	if !d.Event.Forged {
		name := nameOf(d.Event.Source, body.Hash)
		a, known := s.result.Acked[name]
		if !known {
			a = body
		}
		a.Tries++
		if status >= 200 && status < 300 {
			a.Acks++
		}
		s.result.Acked[name] = a
	}
	switch {
	case err != nil && status == -1:
		s.result.TimedOut++
	case err != nil:
		s.result.Unreachable++
	case d.Event.Forged && status == http.StatusUnauthorized:
		s.result.Forged++
		s.result.Deliveries++
		return true, nil
	case !d.Event.Forged && status >= 200 && status < 300:
		s.result.Deliveries++
		s.result.Outage = max(s.result.Outage, time.Since(s.lastAck))
		s.lastAck = time.Now()
		return true, nil
	case status == http.StatusServiceUnavailable:
		s.result.Refused++
	default:
		s.result.Wrong = append(s.result.Wrong, fmt.Sprintf("delivery %d, event %s: answered with %d", n, d.Event, status))
		return true, nil
	}
	return false, nil
}
