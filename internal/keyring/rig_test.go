package keyring

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/onceledger/onceledger/internal/outbound"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// signingKey is an RSA key that several tests use: making one takes a while.
var signingKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// authority is a root with an intermediate, and what leads to it.
type authority struct {
	t             *testing.T
	root, between *x509.Certificate
	rootKey, key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	var err error
	a.rootKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a.root = a.make(&x509.Certificate{Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, a.rootKey, &a.rootKey.PublicKey)
	a.between = a.make(&x509.Certificate{Subject: pkix.Name{CommonName: "between"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, a.root, a.rootKey, &a.key.PublicKey)
	return a
}

var serials atomic.Int64

func (a *authority) make(template, parent *x509.Certificate, signer crypto.Signer, public crypto.PublicKey) *x509.Certificate {
	a.t.Helper()
	template.SerialNumber = big.NewInt(0xABC000 + serials.Add(1))
	if template.NotBefore.IsZero() {
		template.NotBefore, template.NotAfter = start.Add(-time.Hour), start.Add(30*24*time.Hour)
	}
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	require.NoError(a.t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return certificate
}

// leaf is a certificate of signingKey under the intermediate.
func (a *authority) leaf(name string, change ...func(*x509.Certificate)) *x509.Certificate {
	a.t.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}}
	for _, f := range change {
		f(template)
	}
	return a.make(template, a.between, a.key, &signingKey().PublicKey)
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.root)
	return pool
}

func inPEM(chain ...*x509.Certificate) []byte {
	var text []byte
	for _, c := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return text
}

// patience is how long a test waits for what must happen, on a busy machine, too.
const patience = time.Minute

// ended is how many fetches have ended.
func (d *document[T]) ended() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tries
}

// start is when the clocks of tests begin.
var start = time.Now().Truncate(time.Second)

// provider stands for PayPal, Google and WeChat: it answers under their names.
type provider struct {
	*authority
	Options
	server   *httptest.Server
	requests atomic.Int64
	conns    atomic.Int64

	mu     sync.Mutex
	clock  time.Time
	answer http.HandlerFunc
}

func newProvider(t *testing.T, answer http.HandlerFunc) *provider {
	t.Helper()
	p := &provider{authority: newAuthority(t), clock: start, answer: answer}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	host := p.make(&x509.Certificate{DNSNames: []string{
		"api.paypal.com", "api-m.paypal.com", "api.sandbox.paypal.com", "www.googleapis.com", "api.mch.weixin.qq.com",
	}}, p.between, p.key, &key.PublicKey)
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.requests.Add(1)
		p.mu.Lock()
		answer := p.answer
		p.mu.Unlock()
		answer(w, r)
	}))
	p.server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			p.conns.Add(1)
		}
	}
	p.server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{host.Raw, p.between.Raw}, PrivateKey: key}}}
	p.server.StartTLS()
	t.Cleanup(p.server.Close)
	p.Options = Options{Client: p.client(outbound.Loopback, patience), Roots: p.pool(), Now: p.now}
	return p
}

func (p *provider) client(reach outbound.Reach, timeout time.Duration) *http.Client {
	c := outbound.Client(outbound.Options{Reach: reach, Timeout: timeout, RootCAs: p.pool(), To: p.server.Listener.Addr().String()})
	p.t.Cleanup(c.CloseIdleConnections)
	return c
}

func (p *provider) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clock
}

func (p *provider) pass(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock = p.clock.Add(d)
}

func (p *provider) answers(answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = answer
}

// asked waits until that many requests have come, in the background perhaps.
func (p *provider) asked(n int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.requests.Load() == int64(n) }, patience, time.Millisecond, "%d requests", n)
}

func says(status int, body []byte, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}
