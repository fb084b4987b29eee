package worker

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands between a worker and a service, and can be cut like a cable.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	down  bool
	lose  func(answer []byte) bool // cuts instead of passing this answer on
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// newProxy returns a proxy to the service of a URL, and the URL to use instead.
func newProxy(t *testing.T, service string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(service)
	require.NoError(t, err)
	p := &proxy{target: u.Host, conns: map[net.Conn]bool{}}
	p.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u.Host = p.listener.Addr().String()
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.cut()
		p.wg.Wait()
	})
	return p, u.String()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		p.mu.Lock()
		if err != nil || p.down {
			p.mu.Unlock()
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(server, client, false) })
		p.wg.Go(func() { p.pass(client, server, true) })
	}
}

// pass copies until either side ends.
func (p *proxy) pass(to, from net.Conn, answers bool) {
	defer func() {
		_, _ = to.Close(), from.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, to)
		delete(p.conns, from)
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		lost := answers && p.lose != nil && p.lose(buf[:n])
		p.mu.Unlock()
		if lost {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cut ends every connection and refuses new ones.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

// loseAnswers cuts the connection instead of passing on each of the next n
// answers that hold text.
func (p *proxy) loseAnswers(n int, text string) (left func() int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = func(answer []byte) bool {
		if n == 0 || !bytes.Contains(answer, []byte(text)) {
			return false
		}
		n--
		return true
	}
	return func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return n
	}
}

// at calls f instead of passing on the n-th answer from now, and cuts its
// connection.
func (p *proxy) at(n int, f func()) (reached func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = func([]byte) bool {
		if n--; n != 0 {
			return false
		}
		f()
		return true
	}
	return func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return n <= 0
	}
}

// committed is Postgres's answer to COMMIT.
const committed = "C\x00\x00\x00\x0bCOMMIT\x00"
