package receiver

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestDelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t)

	t.Run("is in the stream, byte for byte, before its ack", func(t *testing.T) {
		body := stripe("evt_1")
		got := r.must(r.request(body))
		require.Equal(t, r.cat.Sources[r.name].Ack().Status, got.status)
		events := r.stored()
		require.Len(t, events, 1)
		require.Equal(t, body, string(events[0].Data))
		require.Equal(t, "evt_1", events[0].ID)
		require.Equal(t, "charge.succeeded", events[0].Type)
		require.Equal(t, r.name, events[0].Source)
		require.Equal(t, "live", events[0].Mode)
	})
	t.Run("that cannot be read is acked and stored with its reason", func(t *testing.T) {
		require.Equal(t, http.StatusOK, r.send(`not json`))
		require.Equal(t, http.StatusOK, r.send(`{"object":"event","livemode":true}`))
		require.Equal(t, http.StatusOK, r.send(strings.Repeat("[", 10_000))) // case 85
		events := r.stored()
		require.Equal(t, "bad_json", events[1].Fault)
		require.Equal(t, "no_event_id", events[2].Fault)
		require.Equal(t, "bad_json", events[3].Fault)
	})
}

// Case 80: senders count a redirect as a failure, or follow it with a GET.
func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at, err := url.Parse(r.url)
	require.NoError(t, err)

	for i, path := range []string{"/webhooks/%s", "/webhooks/%s/", "//webhooks/%s", "/webhooks//%s//"} {
		req := r.request(stripe(fmt.Sprintf("evt_path_%d", i)))
		req.URL = &url.URL{Scheme: "http", Host: at.Host, Opaque: "//" + at.Host + fmt.Sprintf(path, r.name)}
		require.Equal(t, http.StatusOK, r.must(req).status, path)
	}
	require.Len(t, r.stored(), 4)

	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodOptions, http.MethodDelete} {
		for _, slash := range []string{"", "/"} {
			req, err := http.NewRequestWithContext(t.Context(), method, r.url+slash, nil)
			require.NoError(t, err)
			got := r.must(req)
			require.Equal(t, http.StatusMethodNotAllowed, got.status, method)
			require.Equal(t, http.MethodPost, got.header.Get("Allow"))
		}
	}
	for _, path := range []string{"/", "/webhooks/", "/webhooks/nobody", "/webhooks/" + r.name + "/more", "/metrics"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at.Host+path, strings.NewReader("{}"))
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, r.must(req).status, path)
	}
	require.InDelta(t, 5, testutil.ToFloat64(r.server.metrics.deliveries.WithLabelValues("", "unknown_source")), 0)
	require.Equal(t, 3, testutil.CollectAndCount(r.server.metrics.deliveries), "a stranger's path is no label")
}

func TestBadSignature(t *testing.T) {
	t.Parallel()
	now := time.Now() // one kind of refusal is logged once in a while
	r := newRig(t, func(s *Server) { s.now = func() time.Time { return now } })

	// Case 31: a rejected copy takes no key from the good one.
	forged := r.request(stripe("evt_C7"))
	forged.Body = io.NopCloser(strings.NewReader(stripeAmount("evt_C7", 9999)))
	got := r.must(forged)
	require.Equal(t, http.StatusUnauthorized, got.status)
	require.Empty(t, r.stored())
	require.Equal(t, http.StatusOK, r.send(stripe("evt_C7")))
	require.Len(t, r.stored(), 1)

	// Case 48: text in the wrong shape.
	signature := r.request(stripe("evt_48")).Header.Get("Stripe-Signature")
	for _, text := range []string{"", "v1=", "t=1,v1=", "t=,v1=zz", strings.Replace(signature, "v1=", "v1=0", 1), strings.ReplaceAll(signature, "=", ""), "\xff\xfe"} {
		req := r.request(stripe("evt_48"))
		req.Header.Set("Stripe-Signature", text)
		require.Equal(t, http.StatusUnauthorized, r.must(req).status, text)
	}
	unsigned := r.request(stripe("evt_48"))
	unsigned.Header.Del("Stripe-Signature")
	require.Equal(t, http.StatusUnauthorized, r.must(unsigned).status)
	require.Len(t, r.stored(), 1)

	// One line of nine, without what it must not say.
	log := r.log.String()
	require.Equal(t, 1, strings.Count(log, "delivery refused"), log)
	require.Contains(t, log, `"reason":"bad_signature"`)
	require.NotContains(t, log, secret)
	require.NotContains(t, log, "evt_C7")
	require.NotContains(t, log, strings.TrimPrefix(strings.Split(signature, "v1=")[1], "v1="))
	require.InDelta(t, 9, testutil.ToFloat64(r.server.metrics.deliveries.WithLabelValues(r.name, "bad_signature")), 0)
}

// Case 81: the bytes are what is signed, whatever their type is said to be.
func TestContentTypeDoesNotTouchTheBytes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, contentType := range []string{"application/x-www-form-urlencoded", "", "application/json; charset=utf8", "multipart/form-data", "text/plain; charset=iso-8859-1"} {
		body := stripe(fmt.Sprintf("evt_é_%d", i))
		req := r.request(body)
		req.Header.Del("Content-Type")
		if contentType != "" {
			req.Header.Set("Content-Type", contentType)
		}
		require.Equal(t, http.StatusOK, r.must(req).status)
		events := r.stored()
		require.Equal(t, body, string(events[i].Data))
		require.Equal(t, contentType, events[i].ContentType)
	}
}

// Case 42: what is signed is what was compressed, and it grows within the limit.
func TestContentEncoding(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	send := func(encoding, signed, sent string) reply {
		req := r.request(signed)
		req.Header.Set("Content-Encoding", encoding)
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(sent)), int64(len(sent))
		return r.must(req)
	}
	body := stripe("evt_gzip")
	require.Equal(t, http.StatusOK, send("gzip", body, zipped(t, body)).status)
	require.Equal(t, http.StatusOK, send("Identity", stripe("evt_plain"), stripe("evt_plain")).status)
	events := r.stored()
	require.Len(t, events, 2)
	require.Equal(t, body, string(events[0].Data), "it is stored as it was signed")

	require.Equal(t, http.StatusUnauthorized, send("gzip", zipped(t, body), zipped(t, body)).status, "nobody signs what is on the wire")
	bomb := zipped(t, strings.Repeat("x", 64<<20))
	require.Less(t, len(bomb), 100_000)
	require.Equal(t, http.StatusRequestEntityTooLarge, send("gzip", body, bomb).status)
	require.Equal(t, http.StatusBadRequest, send("gzip", body, body).status)
	for _, encoding := range []string{"br", "identity, gzip", "gzip, gzip"} {
		got := send(encoding, body, zipped(t, body))
		require.Equal(t, http.StatusUnsupportedMediaType, got.status, encoding)
		require.Equal(t, "gzip, deflate, identity", got.header.Get("Accept-Encoding"))
	}
	require.Len(t, r.stored(), 2)
	require.True(t, r.server.bodies.TryAcquire(bodiesBytes), "everything was given back")
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// Case 85.
func TestBodySize(t *testing.T) {
	t.Parallel()
	const limit = 100_000
	r := newRig(t, func(s *Server) { s.maxBody = limit })
	sized := func(id string, size int) string {
		body := strings.TrimSuffix(stripe(id), "}") + `,"pad":"`
		return body + strings.Repeat("x", size-len(body)-2) + `"}`
	}

	t.Run("up to the limit it is stored", func(t *testing.T) {
		for _, size := range []int{limit - 1, limit} {
			require.Equal(t, http.StatusOK, r.send(sized(fmt.Sprintf("evt_%d", size), size)))
		}
		require.Len(t, r.stored()[1].Data, limit)
	})
	t.Run("chunked, up to the limit it is stored", func(t *testing.T) {
		req := r.request(sized("evt_chunked", limit))
		req.Body, req.ContentLength = io.NopCloser(req.Body), -1
		require.Equal(t, http.StatusOK, r.must(req).status)
	})
	t.Run("one byte more is 413 and ends the connection", func(t *testing.T) {
		got := r.must(r.request(sized("evt_more", limit+1)))
		require.Equal(t, http.StatusRequestEntityTooLarge, got.status)
		req := r.request(sized("evt_more", limit+1))
		req.Body, req.ContentLength = io.NopCloser(req.Body), -1
		require.Equal(t, http.StatusRequestEntityTooLarge, r.must(req).status)
		require.NotContains(t, r.ids(), "evt_more")
	})
	t.Run("a sender that reads its answer last hears it", func(t *testing.T) {
		r := newRig(t, func(s *Server) { s.maxBody, s.limits.linger = limit, time.Minute }) // a test may be slow
		for _, header := range []string{"", "Connection: close\r\n"} {
			conn := r.post(t, header+fmt.Sprintf("Content-Length: %d\r\n", limit+1))
			answer := bufio.NewReader(conn)
			_, err := answer.Peek(1)
			require.NoError(t, err, "it is answered before the body")
			for rest := limit + 1; rest > 0; rest -= 1000 { // no write may find the connection reset
				_, err := conn.Write(make([]byte, min(rest, 1000)))
				require.NoError(t, err)
			}
			text, err := io.ReadAll(answer)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(text), "HTTP/1.1 413 "), string(text))
		}
	})
	t.Run("an announced one is refused unread, without 100 Continue", func(t *testing.T) {
		text := r.raw(t, "Content-Length: 9999999999\r\nExpect: 100-continue\r\n", "")
		require.True(t, strings.HasPrefix(text, "HTTP/1.1 413 "), text)
		require.Contains(t, text, "Connection: close")
	})
	t.Run("chunks without end are cut", func(t *testing.T) {
		began := time.Now()
		text := r.raw(t, "Transfer-Encoding: chunked\r\n", strings.Repeat("1000\r\n"+strings.Repeat("y", 0x1000)+"\r\n", 64))
		require.True(t, strings.HasPrefix(text, "HTTP/1.1 413 "), text)
		require.Less(t, time.Since(began), r.server.limits.read, "nobody waits for the rest")
	})
	t.Run("100 Continue is sent when the body is wanted", func(t *testing.T) {
		text := r.raw(t, "Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n", "{}")
		require.True(t, strings.HasPrefix(text, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 401 "), text)
	})
	t.Run("with its headers over what the broker takes it is 413 for it alone", func(t *testing.T) {
		r.server.maxBody = 4 << 20
		defer func() { r.server.maxBody = limit }()
		most := int(r.conn.NC.MaxPayload()) - headerRoom
		require.Equal(t, http.StatusRequestEntityTooLarge, r.send(sized("evt_huge", most)))
		require.Equal(t, http.StatusOK, r.send(sized("evt_large", most-2000)))
		require.True(t, r.conn.NC.IsConnected(), "the broker hangs up on what it does not take")
	})
}

// raw sends a POST with these header lines and returns all that comes back.
func (r *rig) raw(t *testing.T, header, body string) string {
	t.Helper()
	conn := r.post(t, header)
	_, _ = io.WriteString(conn, body) // the server may hang up before its end
	text, _ := io.ReadAll(bufio.NewReader(conn))
	return string(text)
}

// post opens a connection and sends the head of a POST on it.
func (r *rig) post(t *testing.T, header string) net.Conn {
	t.Helper()
	at, err := url.Parse(r.url)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", at.Host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n", at.Path, header)
	require.NoError(t, err)
	return conn
}

func TestSlowSendersAreCut(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(s *Server) {
		s.limits.header, s.limits.read, s.limits.idle = time.Second, 2*time.Second, time.Second
	})
	at, err := url.Parse(r.url)
	require.NoError(t, err)
	once := func(text string) (string, error) {
		conn, err := net.Dial("tcp", at.Host)
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = io.WriteString(conn, text)
		answer, ended := io.ReadAll(conn)
		return string(answer), errors.Join(err, ended)
	}
	// What this test itself sends too late is not read.
	dial := func(text, wanted string) {
		t.Helper()
		var answer string
		var err error
		for began := time.Now(); time.Since(began) < patience; {
			if answer, err = once(text); err == nil && (answer != "" || wanted == "") {
				break
			}
		}
		require.NoError(t, err, "the server hangs up")
		require.Equal(t, wanted, answer[:min(len(answer), len(wanted))])
		require.Equal(t, wanted == "", answer == "")
	}
	t.Run("in the header", func(t *testing.T) {
		dial("POST "+at.Path+" HTTP/1.1\r\nHost: x\r\nX-Slow: ", "")
	})
	t.Run("in the body", func(t *testing.T) {
		dial("POST "+at.Path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", "HTTP/1.1 408 ")
	})
	t.Run("between requests", func(t *testing.T) {
		dial("GET "+at.Path+" HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 ")
	})
	t.Run("and one with a larger header than any sender's", func(t *testing.T) {
		dial("POST "+at.Path+" HTTP/1.1\r\nHost: x\r\nX-Large: "+strings.Repeat("x", 2*headerBytes)+"\r\n\r\n", "HTTP/1.1 431 ")
	})
	require.Empty(t, r.stored())
}

func TestMemoryForBodiesIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.True(t, r.server.bodies.TryAcquire(bodiesBytes))
	got := r.must(r.request(stripe("evt_memory")))
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Equal(t, retryAfter, got.header.Get("Retry-After"))
	r.server.bodies.Release(bodiesBytes)
	require.Equal(t, http.StatusOK, r.send(stripe("evt_memory")))
	require.True(t, r.server.bodies.TryAcquire(bodiesBytes), "everything was given back")
}
