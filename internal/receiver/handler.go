package receiver

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

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
	overdue       outcome = "deadline"
)

// answer is what a request gets, and what is counted of it.
type answer struct {
	status  int
	outcome outcome
	text    string
	err     error
	ack     provider.Ack // for accepted and coalesced
	fault   string       // reason of an accepted delivery that could not be read
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
}

func (s *Server) receive(w http.ResponseWriter, r *http.Request, source *catalog.Source) answer {
	switch {
	case source == nil:
		return answer{status: http.StatusNotFound, outcome: unknownPath, text: "there is no such webhook source"}
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return answer{status: http.StatusMethodNotAllowed, outcome: wrongMethod, text: "webhooks are sent with POST"}
	case !identity(r.Header.Values("Content-Encoding")):
		w.Header().Set("Accept-Encoding", "identity")
		return answer{
			status: http.StatusUnsupportedMediaType, outcome: wrongEncoding,
			text: "send the body without Content-Encoding; compressed bodies are not supported yet",
		}
	}
	body, err := readBody(r, s.maxBody, s.bodies)
	if err != nil {
		return failed(err)
	}
	defer body.release()

	now := s.now()
	if err := source.Verify(r.Header, body.bytes, now); err != nil {
		return answer{status: source.Reject(), outcome: badSignature, text: "signature does not verify", err: err}
	}
	event := source.Event(r.Header, body.bytes, now)
	joined, err := s.store(r, event)
	if err != nil {
		return failed(err)
	}
	a := answer{status: source.Ack().Status, outcome: accepted, ack: source.Ack(), fault: event.Fault}
	if joined {
		a.outcome = coalesced
	}
	return a
}

// store publishes event, or shares the outcome of an identical one. An event
// with a generated id is never like another and would only fill the memory.
func (s *Server) store(r *http.Request, event *envelope.Event) (joined bool, err error) {
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
	return s.seen.do(r.Context(), keyOf(event), publish)
}

// identity reports whether the body is not encoded.
func identity(encodings []string) bool {
	for _, e := range encodings {
		if e != "" && !strings.EqualFold(strings.TrimSpace(e), "identity") {
			return false
		}
	}
	return true
}

// failed is the table of what a request is told that could not be taken.
func failed(err error) answer {
	again := func(o outcome, text string) answer {
		return answer{status: http.StatusServiceUnavailable, outcome: o, text: text + ", please send again", err: err}
	}
	switch {
	case errors.Is(err, errTooLarge):
		return answer{status: http.StatusRequestEntityTooLarge, outcome: tooLarge, text: "the body is too large", err: err}
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

func (a answer) write(w http.ResponseWriter) {
	h := w.Header()
	switch a.status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", retryAfter)
	case http.StatusRequestEntityTooLarge, http.StatusRequestTimeout:
		// What is still on its way is not read, nor waited for.
		h.Set("Connection", "close")
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	}
	text, contentType := []byte(a.text+"\n"), "text/plain; charset=utf-8"
	if a.outcome == accepted || a.outcome == coalesced {
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
	case badSignature:
		hint = "compare the source's secrets with the provider's settings"
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
