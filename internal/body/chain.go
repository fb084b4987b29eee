package body

import (
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"slices"
	"time"
)

const (
	// MaxChain is how many certificates a token may bring: leaf, intermediate
	// and root, and one to spare.
	MaxChain = 4
	// maxCertificate is the longest certificate, in bytes of base64.
	maxCertificate = 16 << 10
)

// The extensions that mark the certificates with which Apple signs App Store
// data, for Chain.
var (
	AppleLeaf         = asn1.ObjectIdentifier{1, 2, 840, 113635, 100, 6, 11, 1}
	AppleIntermediate = asn1.ObjectIdentifier{1, 2, 840, 113635, 100, 6, 2, 1}
)

// Chain says which certificates may sign a token that brings its own (x5c).
type Chain struct {
	// Roots are the certificates that are trusted. One in the token is not, even
	// where it looks like one of them.
	Roots []*x509.Certificate
	// Leaf and Intermediate are extensions that the leaf, and the certificate
	// above it, must have; nil asks for none. With Intermediate the chain has
	// exactly three certificates, as with Apple.
	Leaf, Intermediate asn1.ObjectIdentifier
}

// VerifyChain checks that the token's certificates lead to one of the roots at
// the time at, and that the leaf has signed it (see Verify), and returns the
// payload. No certificate is fetched, and revocation is not asked for.
//
// The time is the caller's choice: now; or, for tokens that are read long after,
// as Apple's own libraries do it, when they claim to be signed (Unverified),
// which lets whoever gets hold of an expired key sign for the past.
// Errors wrap ErrToken.
func (t *Token) VerifyChain(c Chain, at time.Time, allowed ...Algorithm) ([]byte, error) {
	leaf, err := t.leaf(c, at)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, err)
	}
	return t.Verify(leaf.PublicKey, allowed...)
}

// leaf returns the token's own certificate once its chain is verified.
func (t *Token) leaf(c Chain, at time.Time) (*x509.Certificate, error) {
	given, err := t.parseCertificates()
	if err != nil {
		return nil, err
	}
	options := x509.VerifyOptions{
		Roots:         x509.NewCertPool(),
		Intermediates: x509.NewCertPool(),
		CurrentTime:   at,
		// Certificates that sign data name no use of TLS.
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	if at.IsZero() { // which crypto/x509 would read as now
		return nil, fmt.Errorf("verify certificates: no time is given")
	}
	for _, root := range c.Roots {
		options.Roots.AddCert(root)
	}
	for _, certificate := range given[1:] {
		options.Intermediates.AddCert(certificate)
	}
	chains, err := given[0].Verify(options)
	if err != nil {
		return nil, fmt.Errorf("verify certificates: %w", err)
	}
	if !slices.ContainsFunc(chains, c.marked) {
		return nil, fmt.Errorf("verify certificates: the chain lacks the extensions %s and %s, or is too long", c.Leaf, c.Intermediate)
	}
	return given[0], nil
}

// marked reports whether a verified chain has the extensions that c asks for.
func (c Chain) marked(chain []*x509.Certificate) bool {
	if c.Leaf != nil && !hasExtension(chain[0], c.Leaf) {
		return false
	}
	return c.Intermediate == nil || len(chain) == 3 && hasExtension(chain[1], c.Intermediate)
}

func hasExtension(certificate *x509.Certificate, id asn1.ObjectIdentifier) bool {
	for _, extension := range certificate.Extensions {
		if extension.Id.Equal(id) {
			return true
		}
	}
	return false
}

func (t *Token) parseCertificates() ([]*x509.Certificate, error) {
	if n := len(t.certificates); n == 0 || n > MaxChain {
		return nil, fmt.Errorf("read x5c: %d certificates, not 1 to %d", n, MaxChain)
	}
	parsed := make([]*x509.Certificate, 0, MaxChain)
	for i, value := range t.certificates {
		text, ok := value.(string)
		if !ok || len(text) > maxCertificate {
			return nil, fmt.Errorf("read x5c: certificate %d is no text, or too long", i)
		}
		der, err := Base64Std.Decode([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("read x5c: certificate %d: %w", i, err)
		}
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("read x5c: certificate %d: %w", i, err)
		}
		parsed = append(parsed, certificate)
	}
	return parsed, nil
}
