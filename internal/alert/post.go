package alert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/telemetry"
)

const (
	// postTimeout bounds one try, from dialling to the end of the answer.
	postTimeout = 10 * time.Second
	// maxAnswer is how much of an answer is read, to use its connection again.
	maxAnswer = 4 << 10
)

// errAddress is an address that alerts may not be sent to.
var errAddress = errors.New("address is not public; set alerts.network to private where that is meant")

// newClient returns a client that follows no redirect, knows no proxy, and
// dials only addresses that cfg allows: whatever a name resolves to is looked at
// when it is dialled.
func newClient(cfg config.Alerts) *http.Client {
	target, _ := url.Parse(cfg.URL.Reveal()) // the configuration has checked it
	local := target != nil && config.Loopback(target.Hostname())
	dialer := &net.Dialer{Timeout: postTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		return allowed(address, local, cfg.Network == "private")
	}}
	return &http.Client{
		Timeout:       postTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: postTimeout, ForceAttemptHTTP2: true,
			MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxAnswer,
		},
	}
}

// shared is the address space of carriers (RFC 6598), which is not public either.
var shared = netip.MustParsePrefix("100.64.0.0/10")

func allowed(address string, local, private bool) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("read address: %w", err)
	}
	ip := at.Addr().Unmap()
	switch {
	case local && ip.IsLoopback():
		return nil
	case local, ip.IsLoopback(), !ip.IsGlobalUnicast(): // also link-local: the metadata of clouds
		return errAddress
	case private, !ip.IsPrivate() && !shared.Contains(ip):
		return nil
	}
	return errAddress
}

// post sends a conflict once. Its errors do not show the URL.
func (s *Sender) post(ctx context.Context, l *letter) error {
	body, err := l.body()
	if err != nil {
		return fmt.Errorf("write alert: %w", err)
	}
	signed, err := s.signer.Sign(body, l.id, time.Now())
	if err != nil {
		return fmt.Errorf("sign alert: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("build request: alerts.url is not usable")
	}
	request.Header = signed.Header
	request.Header.Set("User-Agent", "onceledger/"+telemetry.Version())
	response, err := s.client.Do(request)
	if err != nil {
		var parts *url.Error
		if errors.As(err, &parts) {
			err = parts.Err
		}
		return fmt.Errorf("post alert: %w", err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswer)) // the status says it all
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("post alert: answered %s", response.Status)
	}
	return nil
}
