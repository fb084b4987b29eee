package body

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// MaxRatio is how many times its size a compressed body may grow. Batches of
	// like events reach some 30; deflate ends at 1,032.
	MaxRatio = 100
	// minInflated is what any compressed body may grow to: the ratio of a short
	// one says nothing.
	minInflated = 64 << 10
	// inflateBuffer is the first room for what comes out, in bytes.
	inflateBuffer = 16 << 10
)

// Inflate undoes the Content-Encoding of a request: gzip, x-gzip, or deflate (as
// HTTP has it, with the zlib header). Without one, and for identity, it returns
// data itself. The result has at most limit bytes, and at most MaxRatio times
// those of data; the work stops at the first byte past either, with ErrLimit.
//
// What is inflated is the body: providers sign it before they compress it (as
// GetStream and QuickNode document; none is known to sign what is on the wire),
// and a repeat may be compressed differently. So it is what is verified, hashed
// and stored, and the encoding ends with the request. A signature over the
// compressed bytes is a wrong one (case 42).
//
// Errors wrap ErrUnsupported (any other encoding, or several), ErrLimit or
// ErrSyntax.
func Inflate(encoding string, data []byte, limit int64) ([]byte, error) {
	source := bytes.NewReader(data)
	var plain io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return data, nil
	case "gzip", "x-gzip":
		plain, err = gzip.NewReader(source)
	case "deflate":
		plain, err = zlib.NewReader(source)
	default:
		return nil, fmt.Errorf("%w %q", ErrUnsupported, clip(encoding))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: inflate: %w", ErrSyntax, err)
	}
	most := min(limit, max(minInflated, MaxRatio*int64(len(data))))
	inflated, err := readUpTo(plain, most)
	if err != nil {
		return nil, err
	}
	if source.Len() > 0 {
		return nil, fmt.Errorf("%w: bytes after the compressed body", ErrSyntax)
	}
	return inflated, nil
}

// readUpTo reads all of r; ErrLimit if that is more than most bytes. Room is
// taken as bytes come, so that little is held for what turns out too large.
func readUpTo(r io.Reader, most int64) ([]byte, error) {
	// One byte past the limit shows that there is more.
	buffer := make([]byte, 0, min(inflateBuffer, most+1))
	for {
		if len(buffer) == cap(buffer) {
			larger := make([]byte, len(buffer), min(2*int64(cap(buffer)), most+1))
			copy(larger, buffer)
			buffer = larger
		}
		n, err := r.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		switch {
		case int64(len(buffer)) > most:
			return nil, fmt.Errorf("%w: it inflates to more than %d bytes", ErrLimit, most)
		case errors.Is(err, io.EOF):
			return buffer, nil
		case err != nil:
			return nil, fmt.Errorf("%w: inflate: %w", ErrSyntax, err)
		}
	}
}
