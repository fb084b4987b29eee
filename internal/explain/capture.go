// Package explain says why a captured webhook is refused, in words and with
// what to do about it. It verifies the request as the receiver would, with a
// record of each step, and then changes one thing at a time (a newline, how the
// JSON is written, the secret, the URL, the clock) until the signature is right:
// that one thing is the cause.
//
// It guarantees that the verdict is Source.Verify's own, and that a cause is
// told only where the signature was found to be right without it.
//
//	captured, err := explain.Parse(data)
//	report, err := explain.Report(ctx, catalog, "stripe", captured, time.Now())
package explain

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"github.com/onceledger/onceledger/internal/exit"
)

const (
	// maxHead bounds the request line and the headers, in bytes; maxHeaders their
	// number, since each is tried in the place of one that is missing.
	maxHead    = 256 << 10
	maxHeaders = 200
)

// Captured is a request as somebody kept it.
type Captured struct {
	Method string
	// Scheme and Host are empty where the target is only a path. Path and Query are
	// as they stand, escapes and all.
	Scheme, Host, Path, Query string

	Header http.Header
	// Body is what came after the headers, byte for byte.
	Body []byte
	// Notes say what is odd about the capture itself.
	Notes []string
}

// FileLimit returns how many bytes of a file Parse needs to see of a request whose
// body may have maxBody bytes: JSON may write one byte as six.
func FileLimit(maxBody int64) int64 { return 6*maxBody + maxHead }

// Parse reads a captured request: as text, the way it travels ("POST /path
// HTTP/1.1", headers, an empty line, the body up to the end), where a line of
// the head may end in LF alone; or as JSON with method, url, headers and body
// or body_base64, such as a HAR entry. The body is taken as it stands; only one
// that is chunked is put together.
//
// Errors say where the capture cannot be read, and have the exit code for wrong
// arguments.
func Parse(data []byte) (*Captured, error) {
	c := &Captured{Header: http.Header{}}
	if rest, ok := bytes.CutPrefix(data, []byte(bom)); ok {
		data = rest
		c.note("the file begins with a byte order mark: an editor has written it")
	}
	read := c.readText
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		read = c.readJSON
	}
	if err := read(data); err != nil {
		return nil, err
	}
	c.unchunk()
	c.compareLength()
	return c, nil
}

const bom = "\xEF\xBB\xBF"

func (c *Captured) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

func unreadable(format string, args ...any) error {
	return exit.Usagef("read request: "+format, args...)
}

func (c *Captured) readText(data []byte) error {
	rest := bytes.TrimLeft(data, "\r\n")
	line, rest, found := cutLine(rest)
	if !found && line == "" {
		return unreadable("it is empty")
	}
	if err := c.requestLine(line); err != nil {
		return err
	}
	for n := 2; ; n++ {
		line, rest, found = cutLine(rest)
		if line == "" {
			if !found {
				c.note("there is no empty line after the headers, and so no body")
			}
			break
		}
		if len(data)-len(rest) > maxHead {
			return unreadable("the headers are longer than %d bytes; is there an empty line after them?", maxHead)
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return unreadable("line %d is no header, such as Content-Type: application/json; headers end at an empty line", n)
		}
		if err := c.add(name, strings.Trim(value, " \t")); err != nil {
			return err
		}
	}
	c.Body = rest
	return nil
}

// requestLine reads POST /path HTTP/1.1; the version may be missing.
func (c *Captured) requestLine(line string) error {
	parts := strings.Fields(line)
	if len(parts) == 3 && !strings.HasPrefix(parts[2], "HTTP/") || len(parts) != 2 && len(parts) != 3 || !token(parts[0]) {
		return unreadable("it does not begin with a line such as POST /webhooks/stripe HTTP/1.1")
	}
	return c.target(parts[0], parts[1])
}

func (c *Captured) target(method, text string) error {
	c.Method = method
	if strings.HasPrefix(text, "/") {
		c.Path, c.Query, _ = strings.Cut(text, "?")
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return unreadable("%q is no path, such as /webhooks/stripe, and no address", text)
	}
	c.Scheme, c.Host, c.Path, c.Query = u.Scheme, u.Host, u.EscapedPath(), u.RawQuery
	return nil
}

// add takes one header; those of HTTP/2 that begin with a colon are no headers.
func (c *Captured) add(name, value string) error {
	name = strings.TrimSpace(name)
	if name == "" { // ":method: POST", as browsers and HTTP/2 tools show it
		return nil
	}
	if !token(name) {
		return unreadable("%q is no name of a header", name)
	}
	count := 0
	for _, values := range c.Header {
		count += len(values)
	}
	if count == maxHeaders {
		return unreadable("it has more than %d headers", maxHeaders)
	}
	c.Header.Add(name, value)
	return nil
}

// token reports whether text can be the name of a header or a method.
func token(text string) bool {
	const others = "!#$%&'*+-.^_`|~"
	for i := range len(text) {
		c := text[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return text != ""
}

// cutLine returns a line without its end, and whether there was one.
func cutLine(data []byte) (line string, rest []byte, found bool) {
	before, rest, found := bytes.Cut(data, []byte("\n"))
	return string(bytes.TrimSuffix(before, []byte("\r"))), rest, found
}

// unchunk puts a chunked body together. Many tools keep the header and show the
// body as a whole: that is taken as it is.
func (c *Captured) unchunk() {
	if !strings.EqualFold(c.Header.Get("Transfer-Encoding"), "chunked") {
		return
	}
	whole, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(c.Body)))
	if err != nil {
		c.note("Transfer-Encoding says chunked, and the body is not: it is taken as it stands")
		return
	}
	c.note("the body was chunked, and is put together again: %d bytes", len(whole))
	c.Body = whole
}

// compareLength notes a body of another length than announced.
func (c *Captured) compareLength() {
	announced, ok := c.announced()
	switch have := len(c.Body); {
	case !ok || have == announced:
	case have < announced:
		c.note("the body is cut off: it has %d of the %d bytes that Content-Length announces", have, announced)
	default:
		c.note("the body has %d bytes, %d more than Content-Length announces", have, have-announced)
	}
}

// announced returns the Content-Length, if there is one.
func (c *Captured) announced() (int, bool) {
	n, err := strconv.Atoi(c.Header.Get("Content-Length"))
	return n, err == nil && n >= 0
}
