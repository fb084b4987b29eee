package explain

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/provider"
)

// inquiry looks for what is wrong with one refused request.
type inquiry struct {
	ctx      context.Context
	cat      *catalog.Catalog
	src      *catalog.Source
	captured *Captured
	request  provider.Request
	first    provider.Explanation
	// received is the receiver's clock, and at the one by which changes are judged:
	// where the time is off, the signed one.
	received, at time.Time
	tried        int
}

// causes changes one thing after the other, the likeliest first, and returns what
// was found of the first kind that makes the signature right.
func (q *inquiry) causes() []Cause {
	late := q.late(q.first.Signed)
	if late != nil {
		q.at = q.first.Signed
		if q.right(q.src.Source, q.request) {
			late.What = "the signature is right, and only " + late.What
			return []Cause{*late}
		}
	}
	for _, look := range []func() []Cause{q.headers, q.bodies, q.urls, q.secrets, q.sources, q.settings, q.providers} {
		if found := look(); len(found) > 0 {
			if late != nil {
				late.What = "besides, " + late.What
				found = append(found, *late)
			}
			return found
		}
	}
	return nil
}

// right reports whether a request verifies, by a source that may be another.
func (q *inquiry) right(s *provider.Source, req provider.Request) bool {
	if q.ctx.Err() != nil {
		return false
	}
	q.tried++
	return s.Verify(q.ctx, req, q.at) == nil
}

// with reports whether the request verifies by another configuration; one with
// faults does not.
func (q *inquiry) with(src config.Source) bool {
	s, faults := provider.New(src)
	return len(faults) == 0 && q.right(s, q.request)
}

// late is the cause that a request was signed at another time than it is judged
// at; nil if that is near enough.
func (q *inquiry) late(signed time.Time) *Cause {
	tolerance := q.src.Tolerance()
	apart := time.Duration(q.received.Unix()-signed.Unix()) * time.Second
	if signed.IsZero() || tolerance == 0 || apart.Abs() <= tolerance {
		return nil
	}
	stamp := signed.UTC().Format(time.RFC3339)
	if apart < 0 {
		return &Cause{
			Kind: "clock",
			What: fmt.Sprintf("the time is off: it was signed at %s, %s after the clock it is held to, and %s are allowed", stamp, -apart, tolerance),
			Do:   "set the clock of the receiver by NTP; if that one is right, the sender's is wrong. If --at is too early, correct it",
		}
	}
	return &Cause{
		Kind: "clock",
		What: fmt.Sprintf("the time is off: it was signed at %s, %s before the clock it is held to, and %s are allowed", stamp, apart, tolerance),
		Do: fmt.Sprintf("if it was received then, say so: --at %s. If it was refused when it came, set the receiver's clock by NTP, "+
			"or find what held the request back: a queue or a proxy that sends again later, or somebody who replays it", stamp),
	}
}

// withHeader is a request whose header name has this one value.
func withHeader(req provider.Request, name, value string) provider.Request {
	h := req.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h[name] = []string{value}
	req.Header = h
	return req
}
