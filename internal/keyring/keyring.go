// Package keyring holds the certificates and keys of providers that sign with a
// key of their own and let it be fetched: PayPal, Google, WeChat Pay.
//
// It guarantees that nothing is fetched but over https from the hosts of that
// provider, that what a sender names is looked at before anything is dialled,
// that nobody's stream of made-up names makes it ask more than now and then, and
// that a key once fetched is used on while the provider is away.
//
//	keys := keyring.PayPal(keyring.Live, keyring.Options{})
//	certificate, err := keys.Certificate(ctx, r.Header.Get("PAYPAL-CERT-URL"))
//	switch {
//	case errors.Is(err, keyring.ErrRefused):     // 401: nobody signed with that
//	case errors.Is(err, keyring.ErrUnavailable): // 503: the provider sends again
//	}
package keyring

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/onceledger/onceledger/internal/outbound"
)

// The errors of this package wrap one of these two.
var (
	// ErrRefused means that what the sender named is no key of the provider's: a
	// forgery, or a fault of the sender. The request has a bad signature.
	ErrRefused = errors.New("no key of the provider")
	// ErrUnavailable means that nobody knows for now: the provider does not answer,
	// or may not be asked again yet. The sender is to send again.
	ErrUnavailable = errors.New("key is not available for now")
)

// Certificates finds the certificate that a sender names by its URL.
type Certificates interface {
	// Certificate returns a certificate whose chain, name and time were checked.
	// It asks the provider only for a URL that it does not know yet. Errors:
	// ErrRefused, ErrUnavailable.
	Certificate(ctx context.Context, url string) (*x509.Certificate, error)
}

// Keys finds the public key that a sender names by its id.
type Keys interface {
	// Key returns an *rsa.PublicKey or *ecdsa.PublicKey. It asks the provider only
	// for an id that it does not know, and not more often than once a minute.
	// Errors: ErrRefused, ErrUnavailable.
	Key(ctx context.Context, id string) (crypto.PublicKey, error)
}

// Environment says which side of a provider is asked.
type Environment int

// The environments.
const (
	Live Environment = iota
	Sandbox
)

// Options are what tests replace. The zero value is what programs use.
type Options struct {
	// Client sends the requests. Default: one that reaches public addresses alone.
	Client *http.Client
	// Roots are whom the chain of a fetched certificate must lead to. Default: the
	// system's.
	Roots *x509.CertPool
	// Now is the clock.
	Now func() time.Time
}

func (o Options) orDefault() Options {
	if o.Client == nil {
		o.Client = outbound.Client(outbound.Options{Timeout: fetchTimeout})
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

const (
	// fetchTimeout bounds one request: less than any provider waits for us.
	fetchTimeout = 3 * time.Second
	// maxAnswer bounds an answer in bytes; a list of keys has some 2 KiB, a chain 6.
	maxAnswer = 64 << 10
)

// fetch asks for url. An answer other than 200 is answered(status).
func (o Options) fetch(ctx context.Context, url string, header http.Header) (*outbound.Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: no request can be made of its URL", ErrRefused)
	}
	if header != nil {
		request.Header = header
	}
	answer, err := outbound.Do(o.Client, request, maxAnswer)
	if errors.Is(err, outbound.ErrTooLarge) {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return answer, nil
}

// answered says what an answer without a key means: the provider does not have
// what was asked for, or it has trouble of its own.
func answered(status int) error {
	verdict := ErrUnavailable
	if status/100 == 3 || status/100 == 4 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests {
		verdict = ErrRefused
	}
	return fmt.Errorf("%w: answered %d %s", verdict, status, http.StatusText(status))
}
