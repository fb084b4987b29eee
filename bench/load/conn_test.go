package load

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConnSpeaksWithARealServer(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 3)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/webhooks/x" || r.Header.Get("X-Signed") != "yes" {
			w.WriteHeader(http.StatusTeapot)
		}
		bodies <- string(body)
		if string(body) == "two" {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	c, err := dial(t.Context(), host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })

	for _, sent := range []struct {
		body   string
		status int
		closed bool
	}{{"one", 200, false}, {"", 200, false}, {"two", 503, true}} {
		status, closed, err := c.do(appendRequest(nil, host, "/webhooks/x", http.Header{"X-Signed": {"yes"}}, []byte(sent.body)))
		require.NoError(t, err)
		require.Equal(t, sent.status, status)
		require.Equal(t, sent.closed, closed)
		require.Equal(t, sent.body, <-bodies)
	}
}

func TestReadAnswerRefusesWhatItCannotFollow(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"no http":        "SMTP 200 hello\r\n\r\n",
		"no status":      "HTTP/1.1 abc\r\n\r\n",
		"no length":      "HTTP/1.1 200 OK\r\n\r\n",
		"cut short":      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
		"headers cut":    "HTTP/1.1 200 OK\r\nContent-Le",
		"length is text": "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nab",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := readAnswer(bufio.NewReader(strings.NewReader(answer)))
			require.Error(t, err)
		})
	}
}
