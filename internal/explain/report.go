package explain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/provider"
	"github.com/onceledger/onceledger/pkg/envelope"
)

// Report is what the receiver makes of a captured request, and why.
type Report struct {
	// Request is what was verified: of a compressed body, what was in it.
	Request provider.Request
	// At is the receiver's clock.
	At time.Time
	// Notes say what is odd about the capture.
	Notes []string
	// Explanation holds the verdict and its steps. Err may be a refusal without
	// steps: the receiver looks at method, size and encoding first.
	provider.Explanation
	// Handshake: it sets up an endpoint and is no event.
	Handshake bool
	// Answer is what the receiver answers; a refusal before the signature has a
	// status alone.
	Answer provider.Ack
	// Events are what a good request becomes.
	Events []*envelope.Event
	// Causes are what is wrong with a bad one, each proven; Tried is how many
	// changes were tried. Hints are what is merely suspicious.
	Causes []Cause
	Hints  []string
	Tried  int
}

// Cause is what is wrong with a request. Without it the signature is right: that
// was tried.
type Cause struct {
	// Kind is one of clock, header, body, url, secret, source, settings, provider.
	Kind string
	What string // the cause as a sentence
	Do   string // what to do about it
}

// Explain verifies a captured request for a source as if it was received at this
// time. ctx bounds the keys that may have to be fetched, and all that is tried.
func Explain(ctx context.Context, cat *catalog.Catalog, name string, c *Captured, at time.Time) *Report {
	src := cat.Sources[name]
	r := &Report{At: at, Notes: slices.Clone(c.Notes), Request: provider.Request{
		Method: c.Method, Query: c.Query, Header: c.Header,
	}}
	if other := sourceOf(c.Path); other != "" && other != name {
		r.Notes = append(r.Notes, fmt.Sprintf("it was sent to /webhooks/%s, and is verified for %s", other, name))
	}
	if ack, ok := src.Handshake(r.Request, false); ok {
		r.Handshake, r.Answer = true, ack
		return r
	}
	r.Request.Body = c.Body
	if !r.open(c, cat.Config.Receiver.MaxBody) {
		return r
	}
	r.Explanation = src.Explain(ctx, r.Request, at)
	switch {
	case errors.Is(r.Err, provider.ErrUnavailable):
		r.Answer = src.Again()
	case r.Err != nil:
		r.Answer = src.Reject()
		q := &inquiry{ctx: ctx, cat: cat, src: src, captured: c, request: r.Request, first: r.Explanation, received: at, at: at}
		r.Causes, r.Tried = q.causes(), q.tried
		if len(r.Causes) == 0 {
			r.Hints = q.hints()
		}
	default:
		if r.Answer, r.Handshake = src.Handshake(r.Request, true); !r.Handshake {
			r.Answer, r.Events = src.Ack(), src.Events(r.Request, at)
		}
	}
	return r
}

// open takes the body as the receiver does, and reports whether there is one to
// verify.
func (r *Report) open(c *Captured, limit int64) bool {
	refuse := func(status int, format string, args ...any) bool {
		r.Answer.Status = status
		r.Err = fmt.Errorf(format, args...)
		return false
	}
	switch {
	case c.Method != http.MethodPost:
		return refuse(http.StatusMethodNotAllowed, "the method is %s; webhooks are sent with POST", c.Method)
	case int64(len(c.Body)) > limit:
		return refuse(http.StatusRequestEntityTooLarge, "the body has %d bytes; receiver.max_body is %d", len(c.Body), limit)
	}
	encoding := strings.Join(c.Header.Values("Content-Encoding"), ", ")
	plain, err := body.Inflate(encoding, c.Body, limit)
	switch {
	case errors.Is(err, body.ErrLimit):
		return refuse(http.StatusRequestEntityTooLarge, "open body: %w", err)
	case errors.Is(err, body.ErrUnsupported):
		return refuse(http.StatusUnsupportedMediaType, "open body: %w", err)
	case err != nil:
		// Most tools that capture requests show the body decompressed.
		r.Notes = append(r.Notes, fmt.Sprintf("Content-Encoding says %s, and the body is not: it is taken as decompressed already; "+
			"had it arrived so, the receiver would answer 400", encoding))
		plain = c.Body
	case len(plain) != len(c.Body):
		r.Notes = append(r.Notes, fmt.Sprintf("the body was compressed (%s); its %d bytes are %d", encoding, len(c.Body), len(plain)))
	}
	r.Request.Body = plain
	return true
}

// sourceOf returns the source that a path names, as the receiver reads it.
func sourceOf(path string) string {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(parts) != 2 || parts[0] != "webhooks" {
		return ""
	}
	return parts[1]
}
