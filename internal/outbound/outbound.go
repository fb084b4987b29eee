// Package outbound makes the HTTP requests that a program sends on its own
// account: alerts, certificates and keys, what a provider's API says.
//
// It guarantees that a request reaches what it is meant for and nothing else: no
// redirect is followed, no proxy of the environment is used, and whatever a name
// resolves to is looked at when it is dialled, so that neither a URL nor an
// answer of DNS leads into this machine, a private network or a cloud's metadata.
// Every request is bounded in time, and every answer in bytes.
//
//	client := outbound.Client(outbound.Options{Timeout: 5 * time.Second})
//	answer, err := outbound.Do(client, request, 64<<10)
package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/onceledger/onceledger/internal/telemetry"
)

// maxHeader bounds the headers of an answer, in bytes.
const maxHeader = 64 << 10

var (
	// ErrAddress is an address that this client may not dial.
	ErrAddress = errors.New("address is not one that may be dialled")
	// ErrTooLarge is an answer that is longer than its limit.
	ErrTooLarge = errors.New("answer is too large")
)

// Reach says which addresses a client may dial. The zero value is Public.
type Reach int

const (
	// Public addresses alone: no private network, no loopback, no link-local.
	Public Reach = iota
	// Private networks as well.
	Private
	// Loopback alone: this machine, for stubs and receivers beside the program.
	Loopback
)

// Options describe a client.
type Options struct {
	// Reach is where it may go.
	Reach Reach
	// Timeout bounds a request from dialling to the end of the answer.
	Timeout time.Duration
	// RootCAs are whom its TLS believes; nil means the system's.
	RootCAs *x509.CertPool
	// To is where every connection goes, as host:port, whatever the URL says:
	// for tests, whose stub answers under the names of providers.
	To string
}

// Client returns a client. It is safe for concurrent use.
func Client(o Options) *http.Client {
	dialer := &net.Dialer{Timeout: o.Timeout, Control: control(o.Reach)}
	dial := dialer.DialContext
	if o.To != "" {
		dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, o.To)
		}
	}
	return &http.Client{
		Timeout:       o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dial, TLSHandshakeTimeout: o.Timeout, ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
			MaxIdleConns:    4, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHeader,
		},
	}
}

var (
	// shared is the address space of carriers (RFC 6598), which is not public either.
	shared = netip.MustParsePrefix("100.64.0.0/10")
	// translated addresses hold one of IPv4 in their last four bytes (RFC 6052).
	translated = netip.MustParsePrefix("64:ff9b::/96")
	// special are blocks that nobody out there answers from (RFC 6890), but
	// perhaps something in here.
	special = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
		netip.MustParsePrefix("fec0::/10"),
	}
)

// control looks at each address when it is dialled.
func control(r Reach) func(string, string, syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error { return r.allow(address) }
}

// allow returns ErrAddress for an address, as ip:port, that is out of reach.
func (r Reach) allow(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("read address: %w", err)
	}
	ip := at.Addr().Unmap()
	if translated.Contains(ip) {
		bytes := ip.As16()
		ip = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	switch {
	case r == Loopback && ip.IsLoopback():
		return nil
	case r == Loopback, ip.IsLoopback(), !ip.IsGlobalUnicast(): // also link-local: the metadata of clouds
		return ErrAddress
	case slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) }):
		return ErrAddress
	case r == Private, !ip.IsPrivate() && !shared.Contains(ip):
		return nil
	}
	return ErrAddress
}

// Answer is a response that was read to its end.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends a request and reads its answer, which must not be longer than limit
// bytes, unpacked. Its errors, among them ErrAddress and ErrTooLarge, do not show
// the URL.
func Do(client *http.Client, request *http.Request, limit int64) (*Answer, error) {
	request.Header.Set("User-Agent", "onceledger/"+telemetry.Version())
	response, err := client.Do(request)
	if err != nil {
		return nil, WithoutURL(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", WithoutURL(err))
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("read answer: %w: more than %d bytes", ErrTooLarge, limit)
	}
	return &Answer{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

// WithoutURL takes the URL, which may hold a token, off an error of a client.
func WithoutURL(err error) error {
	var parts *url.Error
	if errors.As(err, &parts) {
		return parts.Err
	}
	return err
}
