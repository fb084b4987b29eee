package keyring

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/outbound"
)

const (
	liveURL  = "https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-1d93a270"
	liveName = "messageverificationcerts.paypal.com"
)

// The sender names the URL: whatever is not exactly one of PayPal's is refused
// without a request, without a connection, without asking DNS.
func TestAURLOfTheSendersIsRefusedBeforeAnyDial(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(http.StatusOK, nil))
	keys := PayPal(Live, p.Options)
	const path = "/v1/notifications/certs/CERT-360caa42-fca2a594-1d93a270"
	for _, link := range []string{
		"",
		"https://api.paypal.com.attacker.example" + path,
		"http://api.paypal.com" + path,
		"https://api.paypal.com@evil.example" + path,
		"https://evil.example@api.paypal.com" + path,
		"https://user:pw@api.paypal.com" + path,
		"https://api.paypal.com:443" + path,
		"https://api.paypal.com:8443" + path,
		"https://api.paypal.com." + path,
		"https://xapi.paypal.com" + path,
		"https://www.paypal.com" + path,
		"https://evil.paypal.com" + path,
		"https://api%2epaypal.com" + path,
		"https://api.paypal.com%2f.evil.example" + path,
		"https://api.paypal.com%00.evil.example" + path,
		"https://аpi.paypal.com" + path, // a Cyrillic а
		"https://API.PAYPAL.COM" + path,
		"HTTPS://api.paypal.com" + path,
		"https:/api.paypal.com" + path,
		"https:///api.paypal.com" + path,
		"https://\tapi.paypal.com" + path,
		" https://api.paypal.com" + path,
		"https://api.paypal.com\\@evil.example" + path,
		"https://evil.example\\.api.paypal.com" + path,
		"https://evil.example#@api.paypal.com" + path,
		"https://evil.example?@api.paypal.com" + path,
		"https://127.0.0.1" + path,
		"https://2130706433" + path,
		"https://0x7f.1" + path,
		"https://[::1]" + path,
		"https://[::ffff:127.0.0.1]" + path,
		"https://169.254.169.254/latest/meta-data",
		"https://localhost" + path,
		"file:///etc/passwd",
		"gopher://api.paypal.com" + path,
		"//api.paypal.com" + path,
		"https://api.paypal.com",
		"https://api.paypal.com/",
		"https://api.paypal.com/v1/oauth2/token",
		"https://api.paypal.com/v1/notifications/certs/",
		"https://api.paypal.com/v1/notifications/certs/CERT-",
		"https://api.paypal.com/v1/notifications/certs/../webhooks",
		"https://api.paypal.com/v1/notifications/certs/CERT-1/../../webhooks",
		"https://api.paypal.com/v1/notifications/certs/CERT-1%2f..%2f..",
		"https://api.paypal.com//v1/notifications/certs/CERT-1",
		"https://api.paypal.com" + path + "?x=1",
		"https://api.paypal.com" + path + "#x",
		"https://api.paypal.com" + path + "\n",
		"https://api.paypal.com" + path + "\r\nHost: evil.example",
		"https://api.paypal.com" + path + ";x",
		"https://api.paypal.com/v1/notifications/certs/CERT-" + strings.Repeat("a", 300),
		"https://api.sandbox.paypal.com" + path, // the other side
	} {
		_, err := keys.Certificate(t.Context(), link)
		require.ErrorIs(t, err, ErrRefused, "%q", link)
		require.NotContains(t, err.Error(), "evil", "what the sender wrote goes into no log")
	}
	require.Zero(t, p.conns.Load())
}

func TestACertificateIsFetchedOnce(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	want := p.leaf(liveName)
	p.answers(says(http.StatusOK, inPEM(want, p.between)))
	keys := PayPal(Live, p.Options)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			got, err := keys.Certificate(t.Context(), liveURL)
			require.NoError(t, err)
			require.True(t, got.Equal(want))
		})
	}
	group.Wait()
	require.EqualValues(t, 1, p.requests.Load())
}

func TestTheSandboxHasItsOwnCertificates(t *testing.T) {
	t.Parallel()
	const name = "messageverificationcerts.sandbox.paypal.com"
	p := newProvider(t, nil)
	p.answers(says(http.StatusOK, inPEM(p.leaf(name), p.between)))
	_, err := PayPal(Sandbox, p.Options).Certificate(t.Context(), "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-1")
	require.NoError(t, err)
	_, err = PayPal(Live, p.Options).Certificate(t.Context(), liveURL)
	require.ErrorIs(t, err, ErrRefused)
}

// A file on the right host proves nothing yet: it must hold PayPal's certificate.
func TestWhatIsNoCertificateOfPayPalIsRefused(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	other := newAuthority(t)
	weak, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	past := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = start.Add(-48*time.Hour), start.Add(-24*time.Hour)
	}
	future := func(c *x509.Certificate) { c.NotBefore, c.NotAfter = start.Add(time.Hour), start.Add(24*time.Hour) }
	for what, file := range map[string][]byte{
		"empty":             nil,
		"no PEM":            []byte("<html>"),
		"a key":             pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}),
		"broken":            pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte{1}}),
		"of another":        inPEM(p.leaf("evil.example"), p.between),
		"of a suffix":       inPEM(p.leaf(liveName+".evil.example"), p.between),
		"of a prefix":       inPEM(p.leaf("x"+liveName), p.between),
		"without its chain": inPEM(p.leaf(liveName)),
		"of another root":   inPEM(other.leaf(liveName), other.between),
		"with another root": inPEM(other.leaf(liveName), other.between, other.root),
		"its own issuer":    inPEM(p.make(&x509.Certificate{DNSNames: []string{liveName}}, nil, signingKey(), &signingKey().PublicKey)),
		"expired":           inPEM(p.leaf(liveName, past), p.between),
		"not yet valid":     inPEM(p.leaf(liveName, future), p.between),
		"not RSA":           inPEM(p.make(&x509.Certificate{DNSNames: []string{liveName}}, p.between, p.key, &weak.PublicKey), p.between),
		"too large":         []byte(strings.Repeat("x", maxAnswer+1)),
	} {
		p.answers(says(http.StatusOK, file))
		_, err := PayPal(Live, p.Options).Certificate(t.Context(), liveURL)
		require.ErrorIs(t, err, ErrRefused, what)
	}
}

func TestAnswersAreToldApart(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	for status, want := range map[int]error{
		http.StatusMovedPermanently: ErrRefused, http.StatusNotFound: ErrRefused, http.StatusForbidden: ErrRefused,
		http.StatusTooManyRequests: ErrUnavailable, http.StatusRequestTimeout: ErrUnavailable,
		http.StatusInternalServerError: ErrUnavailable, http.StatusServiceUnavailable: ErrUnavailable,
	} {
		p.answers(says(status, nil, "Location", "https://api.paypal.com/elsewhere"))
		before := p.requests.Load()
		_, err := PayPal(Live, p.Options).Certificate(t.Context(), liveURL)
		require.ErrorIs(t, err, want, status)
		require.EqualValues(t, 1, p.requests.Load()-before, "a redirect is not followed")
	}
}

func TestWhatIsRefusedIsNotAskedForAgainAtOnce(t *testing.T) {
	t.Parallel()
	p := newProvider(t, says(http.StatusNotFound, nil))
	keys := PayPal(Live, p.Options)
	refused := func() {
		_, err := keys.Certificate(t.Context(), liveURL)
		require.ErrorIs(t, err, ErrRefused)
	}
	refused()
	p.pass(refusedFor - time.Second)
	refused()
	p.asked(1)
	p.pass(time.Second)
	refused()
	p.asked(2)
}

// A DNS that leads in here, a provider that is mute: nobody connects or waits.
func TestNobodyIsReached(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	for _, reach := range []outbound.Reach{outbound.Public, outbound.Private} {
		o := p.Options
		o.Client = p.client(reach, patience)
		_, err := PayPal(Live, o).Certificate(t.Context(), liveURL)
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorIs(t, err, outbound.ErrAddress)
	}
	require.Zero(t, p.conns.Load())

	held := make(chan struct{})
	defer close(held)
	p.answers(func(http.ResponseWriter, *http.Request) { <-held })
	o := p.Options
	o.Client = p.client(outbound.Loopback, 50*time.Millisecond)
	_, err := PayPal(Live, o).Certificate(t.Context(), liveURL)
	require.ErrorIs(t, err, ErrUnavailable)

	o.Client = p.client(outbound.Loopback, patience)
	ctx, cancel := contextWithTimeout(t, 50*time.Millisecond)
	defer cancel()
	_, err = PayPal(Live, o).Certificate(ctx, liveURL)
	require.ErrorIs(t, err, ErrUnavailable)
}

func TestACertificateIsRenewedAheadAndUsedOn(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	want := p.leaf(liveName, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = start.Add(-time.Hour), start.Add(3*time.Hour) })
	good := says(http.StatusOK, inPEM(want, p.between), "Cache-Control", "public, max-age=3600")
	p.answers(good)
	keys := PayPal(Live, p.Options)
	get := func() error { _, err := keys.Certificate(t.Context(), liveURL); return err }
	require.NoError(t, get())
	p.pass(47 * time.Minute)
	require.NoError(t, get())
	p.asked(1)
	p.pass(2 * time.Minute) // past four fifths
	require.NoError(t, get())
	p.asked(2)
	require.Eventually(t, func() bool { return keys.(*certificates).document(liveURL).ended() == 2 }, patience, time.Millisecond, "what came is kept")

	p.answers(says(http.StatusBadGateway, nil))
	p.pass(90 * time.Minute) // past its freshness
	require.NoError(t, get(), "the last good one is used on")
	p.asked(3)
	require.NoError(t, get())
	p.asked(3)
	p.pass(2 * time.Second)
	require.NoError(t, get())
	p.asked(4)
	p.pass(time.Hour) // past its own end
	require.ErrorIs(t, get(), ErrUnavailable)
	p.answers(good)
	p.pass(mostPause)
	require.ErrorIs(t, get(), ErrRefused, "it is expired")
}

// Made-up URLs cost PayPal a few requests, and its own certificate keeps working.
func TestAFloodOfURLsIsNotPassedOn(t *testing.T) {
	t.Parallel()
	p := newProvider(t, nil)
	file := inPEM(p.leaf(liveName), p.between)
	p.answers(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != strings.TrimPrefix(liveURL, "https://api.paypal.com") {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(file)
	})
	keys := PayPal(Live, p.Options)
	_, err := keys.Certificate(t.Context(), liveURL)
	require.NoError(t, err)
	flood := func(from string) {
		for i := range 2 * maxCertificates {
			_, err := keys.Certificate(t.Context(), fmt.Sprintf("https://api.paypal.com/v1/notifications/certs/CERT-%s%d", from, i))
			require.Error(t, err)
		}
	}
	flood("a")
	p.asked(askedBurst)
	_, err = keys.Certificate(t.Context(), "https://api.paypal.com/v1/notifications/certs/CERT-new")
	require.ErrorIs(t, err, ErrUnavailable, "a new one waits, nothing is lost")
	for range 3 {
		p.pass(refusedFor + askedEvery) // what was refused may be looked at again
		before := p.requests.Load()
		flood("a")
		require.LessOrEqual(t, p.requests.Load()-before, int64(askedBurst))
	}
	for i := range maxCertificates {
		p.pass(askedEvery)
		_, err := keys.Certificate(t.Context(), fmt.Sprintf("https://api.paypal.com/v1/notifications/certs/CERT-b%d", i))
		require.ErrorIs(t, err, ErrRefused)
	}
	before := p.requests.Load()
	_, err = keys.Certificate(t.Context(), liveURL)
	require.NoError(t, err, "it is not forgotten")
	require.Equal(t, before, p.requests.Load())
	require.LessOrEqual(t, len(keys.(*certificates).known), maxCertificates)
}

func FuzzURL(f *testing.F) {
	f.Add(liveURL)
	f.Add("https://api.paypal.com@evil.example/v1/notifications/certs/CERT-1")
	f.Add("https://api.paypal.com/v1/notifications/certs/CERT-1%2f..")
	c := PayPal(Live, Options{}).(*certificates)
	f.Fuzz(func(t *testing.T, link string) {
		if c.check(link) != nil {
			return
		}
		u, err := url.Parse(link)
		require.NoError(t, err)
		require.Equal(t, "https", u.Scheme)
		require.Nil(t, u.User)
		require.True(t, slices.Contains(c.hosts, u.Host))
		require.True(t, strings.HasPrefix(u.Path, "/v1/notifications/certs/CERT-"))
		require.Equal(t, link, "https://"+u.Host+u.Path)
	})
}

func FuzzCertificateFile(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"))
	c := PayPal(Live, Options{Roots: x509.NewCertPool()}).(*certificates)
	f.Fuzz(func(t *testing.T, file []byte) {
		_, err := c.read(file)
		require.Error(t, err)
	})
}
