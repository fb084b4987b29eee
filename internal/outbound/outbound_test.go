package outbound

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReach(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]struct{ loopback, public, private bool }{
		"127.0.0.1:443":                {loopback: true},
		"[::1]:443":                    {loopback: true},
		"[::ffff:127.0.0.1]:1":         {loopback: true},
		"10.1.2.3:443":                 {private: true},
		"192.168.0.1:443":              {private: true},
		"172.16.0.1:443":               {private: true},
		"100.64.0.1:443":               {private: true},
		"[fd00::1]:443":                {private: true},
		"169.254.169.254:80":           {},
		"[fe80::1]:443":                {},
		"0.0.0.0:443":                  {},
		"0.1.2.3:443":                  {},
		"192.0.0.170:443":              {},
		"198.18.0.1:443":               {},
		"240.0.0.1:443":                {},
		"255.255.255.255:443":          {},
		"[::]:443":                     {},
		"224.0.0.1:443":                {},
		"[2002:7f00:1::1]:443":         {},
		"[64:ff9b::127.0.0.1]:443":     {loopback: true},
		"[64:ff9b::169.254.1.1]:443":   {},
		"[64:ff9b::10.0.0.1]:443":      {private: true},
		"[64:ff9b::93.184.216.34]:443": {public: true, private: true},
		"93.184.216.34:443":            {public: true, private: true},
		"[2606:2800::1]:443":           {public: true, private: true},
		"nonsense":                     {},
	} {
		require.Equal(t, want.loopback, Loopback.allow(address) == nil, "loopback %s", address)
		require.Equal(t, want.public, Public.allow(address) == nil, "public %s", address)
		require.Equal(t, want.private, Private.allow(address) == nil, "private %s", address)
	}
}

// stub counts the connections and requests that reach this machine.
func stub(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, client *http.Client, url string, limit int64) (*Answer, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	return Do(client, request, limit)
}

func TestOtherAddressesAreNotDialled(t *testing.T) {
	t.Parallel()
	var connected atomic.Int64
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ConnState = func(net.Conn, http.ConnState) { connected.Add(1) }
	s.Start()
	defer s.Close()
	for _, reach := range []Reach{Public, Private} {
		_, err := get(t, Client(Options{Reach: reach, Timeout: time.Minute}), s.URL+"/?token=tiptop", 1<<10)
		require.ErrorIs(t, err, ErrAddress)
		require.NotContains(t, err.Error(), "tiptop")
	}
	require.Zero(t, connected.Load())
}

// What DNS says is looked at when it is dialled: a name that was public a moment
// ago may lead in here now.
func TestANameThatResolvesToAPrivateAddressIsNotDialled(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1", "10.0.0.7", "169.254.169.254", "100.64.0.9"} {
		client := Client(Options{Timeout: time.Minute})
		client.Transport.(*http.Transport).DialContext = (&net.Dialer{
			Resolver: nameServer(t, address),
			Control:  control(Public),
		}).DialContext
		_, err := get(t, client, "https://api.paypal.com/v1/notifications/certs/CERT-1", 1<<10)
		require.ErrorIs(t, err, ErrAddress, address)
	}
}

// nameServer is a resolver whose every name has this one address.
func nameServer(t *testing.T, address string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	go func() {
		query := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(answerTo(query[:n], net.ParseIP(address).To4()), from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// answerTo is a DNS answer with one address, or none for other types.
func answerTo(query []byte, ip net.IP) []byte {
	end := 12
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // the root, type and class
	kind := binary.BigEndian.Uint16(query[end-4:])
	answer := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
	if kind == 1 {
		answer[7] = 1
		answer = append(answer, 0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4)
		answer = append(answer, ip...)
	}
	return answer
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	other := make(chan struct{}, 1)
	to := stub(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/other" {
			other <- struct{}{}
			return
		}
		http.Redirect(w, r, "/other", http.StatusFound)
	})
	answer, err := get(t, Client(Options{Reach: Loopback, Timeout: time.Minute}), to.URL, 1<<10)
	require.NoError(t, err)
	require.Equal(t, http.StatusFound, answer.Status)
	require.Empty(t, other)
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	to := stub(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 1000)) })
	client := Client(Options{Reach: Loopback, Timeout: time.Minute})
	answer, err := get(t, client, to.URL, 1000)
	require.NoError(t, err)
	require.Len(t, answer.Body, 1000)
	_, err = get(t, client, to.URL, 999)
	require.ErrorIs(t, err, ErrTooLarge)

	held := make(chan struct{})
	mute := stub(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "x")
		w.(http.Flusher).Flush()
		<-held // an answer that never ends
	})
	defer close(held)
	_, err = get(t, Client(Options{Reach: Loopback, Timeout: 100 * time.Millisecond}), mute.URL+"/?token=tiptop", 1000)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "tiptop")
}
