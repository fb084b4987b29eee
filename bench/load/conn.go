package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// errAnswer is an answer that this small client does not read.
var errAnswer = errors.New("unexpected answer")

// conn speaks as much HTTP as the receiver's answers need: net/http's client
// would cost the two cores as much as the receiver does.
type conn struct {
	net.Conn
	answers *bufio.Reader
}

func dial(ctx context.Context, address string) (*conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to receiver: %w", err)
	}
	return &conn{c, bufio.NewReaderSize(c, 1024)}, nil
}

func appendRequest(dst []byte, host, path string, header http.Header, body []byte) []byte {
	line := func(name, value string) {
		dst = append(dst, name...)
		dst = append(dst, ": "...)
		dst = append(dst, value...)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, "POST "...)
	dst = append(dst, path...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	line("Host", host)
	for name, values := range header {
		for _, value := range values {
			line(name, value)
		}
	}
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(body)), 10)
	dst = append(dst, "\r\n\r\n"...)
	return append(dst, body...)
}

// do sends a request and returns the status of its answer. When closed, or after
// an error, the connection is of no more use.
func (c *conn) do(request []byte) (status int, closed bool, err error) {
	if err := c.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return 0, true, err
	}
	if _, err := c.Write(request); err != nil {
		return 0, true, err
	}
	return readAnswer(c.answers)
}

// readAnswer reads one answer whole; its length must be given.
func readAnswer(r *bufio.Reader) (status int, closed bool, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, true, err
	}
	// HTTP/1.1 200 OK
	if len(line) < 12 || string(line[:9]) != "HTTP/1.1 " {
		return 0, true, fmt.Errorf("%w: status line %q", errAnswer, line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, true, fmt.Errorf("%w: status line %q", errAnswer, line)
	}
	length := -1
	for {
		if line, err = r.ReadSlice('\n'); err != nil {
			return 0, true, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, true, fmt.Errorf("%w: length %q", errAnswer, value)
			}
		case bytes.EqualFold(name, []byte("Connection")) && bytes.EqualFold(value, []byte("close")):
			closed = true
		}
	}
	if length < 0 && status != http.StatusNoContent {
		return 0, true, fmt.Errorf("%w: status %d without a length", errAnswer, status)
	}
	if _, err := r.Discard(max(length, 0)); err != nil {
		return 0, true, fmt.Errorf("read answer: %w", io.ErrUnexpectedEOF)
	}
	return status, closed, nil
}
