package keyring

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// leastFresh, usualFresh and mostFresh bound how long a document counts as
	// fresh: whatever its sender says, and where it says nothing.
	leastFresh = 5 * time.Minute
	usualFresh = time.Hour
	mostFresh  = 24 * time.Hour
	// stale is how long a document is used on that cannot be fetched again. A key
	// that its owner took back is believed no longer than that.
	stale = 24 * time.Hour
	// firstPause and mostPause bound how long nothing is asked after a failure.
	firstPause = time.Second
	mostPause  = time.Minute
	// refusedFor is how long a document counts as refused without another look.
	refusedFor = 5 * time.Minute
)

// document is one fetched document and what was made of it: the last good one,
// for as long as it may be used, and what the last try came to. It is safe for
// concurrent use.
type document[T any] struct {
	load func(context.Context) (loaded[T], error)
	now  func() time.Time

	flights singleflight.Group
	mu      sync.Mutex
	last    loaded[T]
	fetched time.Time // of last; zero: there is none
	pause   time.Duration
	next    time.Time // nothing is asked before
	err     error     // of the last try, nil if it went well
	tries   int       // that have ended
}

// loaded is a document as it was fetched.
type loaded[T any] struct {
	value T
	fresh time.Duration
	// end is when the value must not be used any more whatever happens; zero: by
	// no date of its own.
	end time.Time
}

// get returns the document: as it is while it is fresh; as it is with a fetch
// under way from four fifths of that on; after one that failed, the stale one.
func (d *document[T]) get(ctx context.Context) (T, error) {
	d.mu.Lock()
	last, age, usable := d.last, d.now().Sub(d.fetched), d.usable()
	due, err, tries := !d.now().Before(d.next), d.err, d.tries
	d.mu.Unlock()
	switch {
	case usable && (age < last.fresh/5*4 || !due):
		return last.value, nil
	case usable && age < last.fresh:
		d.start(tries)
		return last.value, nil
	case !usable && !due:
		return last.value, err
	}
	value, err := d.wait(ctx, tries)
	if err != nil && usable {
		return last.value, nil
	}
	return value, err
}

// usable reports whether the last good document may still be used; the caller
// holds mu.
func (d *document[T]) usable() bool {
	now := d.now()
	return !d.fetched.IsZero() && now.Sub(d.fetched) < d.last.fresh+stale && (d.last.end.IsZero() || now.Before(d.last.end))
}

// renew fetches a document that is older than age, and returns the newest.
func (d *document[T]) renew(ctx context.Context, age time.Duration) (T, error) {
	d.mu.Lock()
	last, err, tries := d.last.value, d.err, d.tries
	young, due := !d.fetched.IsZero() && d.now().Sub(d.fetched) < age, !d.now().Before(d.next)
	d.mu.Unlock()
	switch {
	case young:
		return last, nil
	case !due:
		return last, err
	}
	return d.wait(ctx, tries)
}

// start begins a fetch, unless one is under way or has ended since tries was
// read. It ends by itself, whoever gives up waiting.
func (d *document[T]) start(tries int) <-chan singleflight.Result {
	return d.flights.DoChan("", func() (any, error) {
		d.mu.Lock()
		last, err, ended := d.last.value, d.err, d.tries != tries
		d.mu.Unlock()
		if ended {
			return last, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
		defer cancel()
		got, err := d.load(ctx)
		d.keep(got, err)
		return got.value, err
	})
}

// wait waits for a fetch.
func (d *document[T]) wait(ctx context.Context, tries int) (T, error) {
	select {
	case result := <-d.start(tries):
		value, _ := result.Val.(T)
		return value, result.Err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// keep notes what a fetch came to.
func (d *document[T]) keep(got loaded[T], err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
	d.tries++
	switch {
	case err == nil:
		got.fresh = min(max(got.fresh, leastFresh), mostFresh)
		d.last, d.fetched, d.pause, d.next = got, d.now(), 0, time.Time{}
	case errors.Is(err, ErrRefused):
		d.next = d.now().Add(refusedFor)
	default:
		d.pause = min(max(2*d.pause, firstPause), mostPause)
		d.next = d.now().Add(d.pause)
	}
}

// freshness is how long an answer says that it stays as it is.
func freshness(h http.Header) time.Duration {
	for directive := range strings.SplitSeq(h.Get("Cache-Control"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		seconds, err := strconv.Atoi(strings.Trim(value, `"`))
		if strings.EqualFold(name, "max-age") && err == nil && seconds >= 0 {
			age, _ := strconv.Atoi(h.Get("Age")) // in caches on the way; 0 where it says nothing
			return time.Duration(min(max(seconds-age, 0), int(mostFresh/time.Second))) * time.Second
		}
	}
	return usualFresh
}

// good reports whether there is a document that may be used.
func (d *document[T]) good() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.usable()
}
