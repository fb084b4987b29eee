package receiver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/faultpoint"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/internal/telemetry"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// retryAfter is what a 503 asks for, in seconds: long enough for a broker to
// restart, short enough that a backlog does not build up at the sender.
const retryAfter = "5"

// outcome says what became of a request; it is a label of metrics.
type outcome string

const (
	accepted      outcome = "accepted"  // stored by this request
	coalesced     outcome = "coalesced" // identical to one that is stored
	unknownPath   outcome = "unknown_source"
	wrongMethod   outcome = "wrong_method"
	wrongEncoding outcome = "wrong_encoding"
	aborted       outcome = "aborted"
	badSignature  outcome = "bad_signature"
	tooLarge      outcome = "too_large"
	rejected      outcome = "rejected" // by the broker, though it was well formed
	unavailable   outcome = "stream_away"
	full          outcome = "stream_full"
	busy          outcome = "busy"
	unverifiable  outcome = "unverifiable" // now: a key is away
	handshake     outcome = "handshake"
	overdue       outcome = "deadline"
)

// answer is what a request gets, and what is counted of it.
type answer struct {
	status  int
	outcome outcome
	text    string
	err     error
	ack     provider.Ack // the provider's own answer; without one, status and text
	faults  []string     // reasons of accepted events that could not be read
}

// ServeHTTP answers one delivery: read, verify, wrap, store, and only then 2xx.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := s.now()
	name, _ := route(r.URL.Path)
	source := s.sources[name]
	if source == nil {
		name = "" // a stranger's word is no label
	}
	a := s.receive(w, r, source)
	a.write(w)
	s.observe(delivered{source: name, answer: a, remote: r.RemoteAddr, took: s.now().Sub(began)})
	if a.hangsUp() {
		linger(w, r.Body, s.limits.linger)
	}
}

func (s *Server) receive(w http.ResponseWriter, r *http.Request, source *catalog.Source) answer {
	if source == nil {
		return answer{status: http.StatusNotFound, outcome: unknownPath, text: "there is no such webhook source"}
	}
	request := provider.Request{Method: r.Method, Query: r.URL.RawQuery, Header: r.Header}
	if ack, ok := source.Handshake(request, false); ok {
		return answer{status: ack.Status, outcome: handshake, ack: ack}
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return answer{status: http.StatusMethodNotAllowed, outcome: wrongMethod, text: "webhooks are sent with POST"}
	}
	body, err := readBody(r, s.maxBody, s.bodies)
	if err != nil {
		return failed(err)
	}
	defer body.release()
	// What is signed, hashed and stored is the body, not how it travelled.
	if err := body.inflate(r.Header.Values("Content-Encoding"), s.maxBody); err != nil {
		w.Header().Set("Accept-Encoding", "gzip, deflate, identity")
		return failed(err)
	}
	request.Body = body.bytes
	a := s.take(r.Context(), source, request)
	if a.status == http.StatusServiceUnavailable && len(source.Again().Body) > 0 {
		a.ack = source.Again()
	}
	return a
}

// take verifies and stores one request: all its events, or it is not accepted.
func (s *Server) take(ctx context.Context, source *catalog.Source, request provider.Request) answer {
	now := s.now()
	switch err := source.Verify(ctx, request, now); {
	case errors.Is(err, provider.ErrUnavailable):
		return answer{status: source.Again().Status, outcome: unverifiable, text: "cannot verify now, please send again", err: err, ack: source.Again()}
	case err != nil:
		return answer{status: source.Reject().Status, outcome: badSignature, text: "signature does not verify", err: err, ack: source.Reject()}
	}
	if ack, ok := source.Handshake(request, true); ok {
		return answer{status: ack.Status, outcome: handshake, ack: ack}
	}
	a := answer{status: source.Ack().Status, outcome: accepted, ack: source.Ack()}
	events := source.Events(request, now)
	joined, err := s.storeAll(ctx, events)
	if err != nil {
		return failed(err)
	}
	if joined {
		a.outcome = coalesced
	}
	for _, event := range events {
		if event.Fault != "" {
			a.faults = append(a.faults, event.Fault)
		}
	}
	return a
}

// storeAll stores every event of a request and reports whether all of them
// joined others. If one cannot be stored the request is refused: the others are
// in the stream then, and its resend finds them there.
func (s *Server) storeAll(ctx context.Context, events []*envelope.Event) (joined bool, err error) {
	if len(events) == 1 {
		return s.store(ctx, events[0])
	}
	var fresh atomic.Int64
	group := new(errgroup.Group)
	group.SetLimit(storeAtOnce)
	for _, event := range events {
		group.Go(func() error {
			joined, err := s.store(ctx, event)
			if !joined {
				fresh.Add(1)
			}
			return err
		})
	}
	err = group.Wait()
	return fresh.Load() == 0, err
}

// storeAtOnce bounds the events of one request that wait for the committer
// together: enough to fill its batch, not its queue.
const storeAtOnce = 512

// store publishes event, or shares the outcome of an identical one. An event
// with a generated id is never like another and would only fill the memory.
func (s *Server) store(ctx context.Context, event *envelope.Event) (joined bool, err error) {
	publish := func() error {
		msg, err := s.wrap(event)
		if err != nil {
			return err
		}
		faultpoint.Reach(faultpoint.Unstored)
		if _, err = s.publisher.publish(msg); err != nil {
			return err
		}
		faultpoint.Reach(faultpoint.Stored)
		return nil
	}
	if event.Fault != "" {
		return false, publish()
	}
	return s.seen.do(ctx, keyOf(event), publish)
}

// failed is the table of what a request is told that could not be taken.
func failed(err error) answer {
	again := func(o outcome, text string) answer {
		return answer{status: http.StatusServiceUnavailable, outcome: o, text: text + ", please send again", err: err}
	}
	switch {
	case errors.Is(err, errTooLarge):
		return answer{status: http.StatusRequestEntityTooLarge, outcome: tooLarge, text: "the body is too large", err: err}
	case errors.Is(err, errEncoding):
		return answer{status: http.StatusUnsupportedMediaType, outcome: wrongEncoding, text: "the Content-Encoding is none of gzip, deflate and identity", err: err}
	case errors.Is(err, errInflate):
		return answer{status: http.StatusBadRequest, outcome: wrongEncoding, text: "the body is not in its Content-Encoding", err: err}
	case errors.Is(err, errAborted):
		return answer{status: http.StatusRequestTimeout, outcome: aborted, text: "the body did not arrive", err: err}
	case errors.Is(err, errFull):
		return again(full, "the event store is full")
	case errors.Is(err, errBusy):
		return again(busy, "too many deliveries are waiting")
	case errors.Is(err, errDeadline):
		return again(overdue, "the event store is slow")
	case errors.Is(err, errAway):
		return again(unavailable, "the event store is away")
	default:
		return answer{status: http.StatusInternalServerError, outcome: rejected, text: "the delivery cannot be stored", err: err}
	}
}

// hangsUp says that the rest of the request is not wanted.
func (a answer) hangsUp() bool {
	return a.status == http.StatusRequestEntityTooLarge || a.status == http.StatusRequestTimeout
}

// linger drops what a sender still sends while its answer is on the way: to
// close on unread bytes resets the connection, which may take the answer with
// it (RFC 9112, section 9.6), and a sender that never hears 413 sends for ever.
func linger(w http.ResponseWriter, body io.Reader, limit time.Duration) {
	c := http.NewResponseController(w)
	if errors.Join(c.Flush(), c.SetReadDeadline(time.Now().Add(limit))) == nil {
		_, _ = io.Copy(io.Discard, body)
	}
}

func (a answer) write(w http.ResponseWriter) {
	h := w.Header()
	switch a.status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", retryAfter)
	}
	if a.hangsUp() {
		h.Set("Connection", "close")
	}
	text, contentType := []byte(a.text+"\n"), "text/plain; charset=utf-8"
	if a.text == "" || len(a.ack.Body) > 0 {
		text, contentType = a.ack.Body, a.ack.ContentType
	}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	h.Set("X-Content-Type-Options", "nosniff")
	if a.status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(text)))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(text) // the sender went away: it will send again
}

// report logs what a person should know of, without bodies, secrets or the
// signature, and at most once per source and outcome within sampleEvery.
func (s *Server) report(d delivered) {
	var hint string
	switch d.outcome {
	case unverifiable:
		hint = "the source's decryption key is wrong, or a key of the provider cannot be fetched; see the error"
	case badSignature:
		hint = "compare the source's secrets with the provider's settings; onceledger verify explains a captured request"
	case rejected:
		hint = "the broker refuses a message that is well formed; report it"
	case tooLarge:
		hint = "raise receiver.max_body, or the broker's max_payload"
	default:
		return
	}
	skipped, ok := s.sample.take(d.source+" "+string(d.outcome), s.now())
	if !ok {
		return
	}
	s.log.Warn().Err(d.err).
		Str(telemetry.KeySource, d.source).
		Str(telemetry.KeyReason, string(d.outcome)).
		Str(telemetry.KeyRemote, d.remote).
		Int(telemetry.KeyStatus, d.status).
		Int(telemetry.KeySkipped, skipped).
		Str(telemetry.KeyHint, hint).
		Msg("delivery refused")
}

// sampleEvery is how often one kind of refusal is logged.
const sampleEvery = 10 * time.Second
