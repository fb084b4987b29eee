package keyring

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxURL bounds the URL of a certificate in bytes; they have about 90.
	maxURL = 256
	// maxCertificates bounds the URLs that are remembered, good and bad.
	maxCertificates = 256
	// maxChain bounds the certificates of one file.
	maxChain = 8
	// askedBurst and askedEvery bound how often a URL without a certificate makes us
	// ask: so many at once, and one more each askedEvery. PayPal has a handful.
	askedBurst = 8
	askedEvery = 10 * time.Second
)

// certificatePath is where PayPal keeps certificates: a name without a dot, a
// percent sign or anything else that two readers could read in two ways.
var certificatePath = regexp.MustCompile(`^/v1/notifications/certs/CERT-[0-9A-Za-z]+(-[0-9A-Za-z]+)*$`)

// payPalHosts have the certificates, and payPalNames are in them.
var (
	payPalHosts = [...][]string{
		Live:    {"api.paypal.com", "api-m.paypal.com"},
		Sandbox: {"api.sandbox.paypal.com", "api-m.sandbox.paypal.com"},
	}
	payPalNames = [...]string{
		Live:    "messageverificationcerts.paypal.com",
		Sandbox: "messageverificationcerts.sandbox.paypal.com",
	}
)

// PayPal returns the certificates that sign PayPal's webhooks: those of the live
// side or those of the sandbox, never both, so that nothing that the sandbox
// signs counts as money.
//
// A certificate's file must hold its chain up to a root that is trusted.
func PayPal(e Environment, o Options) Certificates {
	return &certificates{
		options: o.orDefault(), hosts: payPalHosts[e], name: payPalNames[e],
		known: map[string]*document[*x509.Certificate]{}, allowed: askedBurst,
	}
}

// certificates are found by the URLs that senders name.
type certificates struct {
	options Options
	hosts   []string
	name    string

	mu      sync.Mutex
	known   map[string]*document[*x509.Certificate]
	order   []string  // of known, oldest first
	allowed int       // how often may be asked for such URLs now
	filled  time.Time // when one was last added to allowed
}

// Certificate implements Certificates.
func (c *certificates) Certificate(ctx context.Context, link string) (*x509.Certificate, error) {
	if err := c.check(link); err != nil {
		return nil, fmt.Errorf("find certificate: %w", err)
	}
	certificate, err := c.document(link).get(ctx)
	if err != nil {
		return nil, fmt.Errorf("find certificate: %w", err)
	}
	return certificate, nil
}

// check refuses a URL unless it is, byte for byte, https, a host of the list and
// the path of a certificate. A parser that reads it otherwise has nothing to read.
func (c *certificates) check(link string) error {
	if len(link) > maxURL {
		return fmt.Errorf("%w: its URL has %d bytes", ErrRefused, len(link))
	}
	rest, https := strings.CutPrefix(link, "https://")
	host, path, _ := strings.Cut(rest, "/")
	if !https || !slices.Contains(c.hosts, host) || !certificatePath.MatchString("/"+path) {
		return fmt.Errorf("%w: its URL is not one of https://%s/v1/notifications/certs/CERT-…", ErrRefused, strings.Join(c.hosts, " or "))
	}
	if u, err := url.Parse(link); err != nil || u.Host != host || u.Path != "/"+path {
		return fmt.Errorf("%w: its URL can be read in two ways", ErrRefused)
	}
	return nil
}

// document returns what is known under a URL, or a place for it.
func (c *certificates) document(link string) *document[*x509.Certificate] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, ok := c.known[link]; ok {
		return d
	}
	if len(c.order) >= maxCertificates {
		c.forget()
	}
	d := &document[*x509.Certificate]{now: c.options.Now}
	d.load = func(ctx context.Context) (loaded[*x509.Certificate], error) {
		if !d.good() && !c.take() {
			return loaded[*x509.Certificate]{}, fmt.Errorf("%w: too many URLs without a certificate were named of late", ErrUnavailable)
		}
		return c.load(ctx, link)
	}
	c.known[link], c.order = d, append(c.order, link)
	return d
}

// take reports whether PayPal may be asked for a URL without a certificate now.
func (c *certificates) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.options.Now()
	if n := int(now.Sub(c.filled) / askedEvery); n > 0 || now.Before(c.filled) {
		c.allowed, c.filled = min(c.allowed+max(n, 0), askedBurst), now
	}
	if c.allowed == 0 {
		return false
	}
	c.allowed--
	return true
}

// forget drops the oldest URL that has no certificate, or else the oldest.
func (c *certificates) forget() {
	i := max(slices.IndexFunc(c.order, func(link string) bool { return !c.known[link].good() }), 0)
	delete(c.known, c.order[i])
	c.order = slices.Delete(c.order, i, i+1)
}

// load fetches a certificate and checks it.
func (c *certificates) load(ctx context.Context, link string) (got loaded[*x509.Certificate], err error) {
	answer, err := c.options.fetch(ctx, link, nil)
	if err != nil {
		return got, err
	}
	if answer.Status != http.StatusOK {
		return got, answered(answer.Status)
	}
	if got.value, err = c.read(answer.Body); err != nil {
		return got, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	got.fresh, got.end = max(freshness(answer.Header), usualFresh), got.value.NotAfter
	return got, nil
}

// read returns the first certificate of a PEM file, which the others lead to a
// root, and whose name and time are right.
func (c *certificates) read(data []byte) (*x509.Certificate, error) {
	var chain []*x509.Certificate
	for len(chain) < maxChain {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("its file holds a %q", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		chain = append(chain, certificate)
	}
	if len(chain) == 0 {
		return nil, errors.New("its file holds no certificate")
	}
	leaf, between := chain[0], x509.NewCertPool()
	for _, certificate := range chain[1:] {
		between.AddCert(certificate)
	}
	if leaf.Subject.CommonName != c.name && leaf.VerifyHostname(c.name) != nil {
		return nil, fmt.Errorf("it is not that of %s", c.name)
	}
	key, ok := leaf.PublicKey.(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("its key is not RSA")
	}
	if err := checkRSA(key); err != nil {
		return nil, err
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: c.options.Roots, Intermediates: between, CurrentTime: c.options.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	if err != nil {
		return nil, fmt.Errorf("verify chain: %w", err)
	}
	return leaf, nil
}
