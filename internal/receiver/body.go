package receiver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/sync/semaphore"

	read "github.com/onceledger/onceledger/internal/body"
)

const (
	// bodiesBytes bounds the bodies held in memory at once; a request past it
	// is told to come again. Memory is taken as bytes arrive, not as they are
	// announced, so that slow or lying senders hold next to nothing.
	bodiesBytes = 256 << 20
	// firstBytes is what a body may take before any of it arrived.
	firstBytes = 4 << 10
)

var (
	errAborted  = errors.New("sender did not finish its request")
	errEncoding = errors.New("unknown content encoding")
	errInflate  = errors.New("body is not in its content encoding")
)

// body is one request's bytes and its share of the budget.
type body struct {
	bytes  []byte
	budget *semaphore.Weighted
	held   int64
}

func (b *body) release() { b.budget.Release(b.held) }

// inflate undoes the Content-Encoding. What comes out may have limit bytes, for
// which there is room before any comes.
func (b *body) inflate(encodings []string, limit int64) error {
	if len(encodings) == 0 {
		return nil
	}
	if !b.budget.TryAcquire(limit) {
		return errBusy
	}
	b.held += limit
	plain, err := read.Inflate(strings.Join(encodings, ", "), b.bytes, limit)
	switch {
	case errors.Is(err, read.ErrLimit):
		return fmt.Errorf("%w: %w", errTooLarge, err)
	case errors.Is(err, read.ErrUnsupported):
		return fmt.Errorf("%w: %w", errEncoding, err)
	case err != nil:
		return fmt.Errorf("%w: %w", errInflate, err)
	}
	b.bytes = plain
	return nil
}

// grow makes room up to size, or reports errBusy.
func (b *body) grow(size int64) error {
	if !b.budget.TryAcquire(size - b.held) {
		return errBusy
	}
	b.held = size
	larger := make([]byte, len(b.bytes), size)
	copy(larger, b.bytes)
	b.bytes = larger
	return nil
}

// readBody reads r's body, up to limit bytes. It reads nothing of one that is
// announced larger, and stops at the first byte too many of one that is not.
func readBody(r *http.Request, limit int64, budget *semaphore.Weighted) (*body, error) {
	if r.ContentLength > limit {
		return nil, errTooLarge
	}
	b := &body{budget: budget}
	if err := b.read(r, limit); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

func (b *body) read(r *http.Request, limit int64) error {
	// One byte past the limit shows that there is more.
	most := limit + 1
	if r.ContentLength >= 0 {
		most = r.ContentLength
	}
	if err := b.grow(min(firstBytes, most)); err != nil {
		return err
	}
	for {
		if have := int64(len(b.bytes)); have == b.held {
			if have == most {
				break
			}
			if err := b.grow(min(2*have, most)); err != nil {
				return err
			}
		}
		n, err := r.Body.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errAborted, err)
		}
	}
	switch have := int64(len(b.bytes)); {
	case have > limit:
		return errTooLarge
	case r.ContentLength >= 0 && have < r.ContentLength:
		return errAborted
	}
	return nil
}
