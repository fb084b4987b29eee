package body

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

const (
	// MaxToken is the longest token in bytes. Apple's, which hold two more
	// tokens with three certificates each, stay below 20,000.
	MaxToken = 256 << 10
	// minRSABits is the shortest RSA key that is believed (RFC 7518, section 3.3).
	minRSABits = 2048
)

// Algorithm is a signature algorithm of JWS that is read here. There is no
// "none", and none with a shared secret, which a public key could be taken for.
type Algorithm string

// The algorithms.
const (
	ES256 Algorithm = "ES256" // ECDSA on P-256 with SHA-256
	RS256 Algorithm = "RS256" // RSASSA-PKCS1-v1_5 with SHA-256
)

// Token is a JWS in compact form whose header was read; nothing of it is to be
// believed before Verify or VerifyChain.
type Token struct {
	// KeyID is the header's kid, empty without one.
	KeyID string

	algorithm    Algorithm
	certificates []any // x5c
	signed       string
	signature    []byte
	payload      []byte
}

// ParseToken reads a JWS in compact form: header.payload.signature, each in
// base64url without padding. A header with a repeated member, or with crit
// (nothing it could name is understood here), is refused. Errors wrap ErrToken.
func ParseToken(text string) (*Token, error) {
	if len(text) > MaxToken {
		return nil, fmt.Errorf("%w: token of %d bytes", ErrToken, len(text))
	}
	parts := strings.SplitN(text, ".", 4)
	if len(parts) != 3 {
		return nil, fmt.Errorf("%w: it is not in three parts", ErrToken)
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = Base64RawURL.Decode([]byte(part)); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrToken, err)
		}
	}
	doc, err := jsondoc.Scan(decoded[0], tokenHeader)
	if err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrToken, err)
	}
	header, _ := doc.(map[string]any)
	if _, found := header["crit"]; found {
		return nil, fmt.Errorf("%w: its header is critical of what is not known", ErrToken)
	}
	t := &Token{signed: text[:len(parts[0])+1+len(parts[1])], payload: decoded[1], signature: decoded[2]}
	algorithm, _ := header["alg"].(string)
	t.algorithm = Algorithm(algorithm)
	t.KeyID, _ = header["kid"].(string)
	t.certificates, _ = header["x5c"].([]any)
	return t, nil
}

// tokenHeader is what is read of a token's header.
var tokenHeader = jsondoc.NewPaths([]string{"alg"}, []string{"kid"}, []string{"x5c"}, []string{"crit"})

// Verify checks the signature with key and returns the payload. The algorithm
// has to be one of allowed, which the caller knows without looking at the token,
// and the key one that is made for it: *ecdsa.PublicKey on P-256, or
// *rsa.PublicKey of 2,048 bits or more. Errors wrap ErrToken.
func (t *Token) Verify(key crypto.PublicKey, allowed ...Algorithm) ([]byte, error) {
	if !slices.Contains(allowed, t.algorithm) {
		return nil, fmt.Errorf("%w: its algorithm is %q, not one of %q", ErrToken, clip(string(t.algorithm)), allowed)
	}
	digest := sha256.Sum256([]byte(t.signed))
	valid := false
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		valid = t.algorithm == ES256 && key.Curve == elliptic.P256() && verifyES256(key, digest[:], t.signature)
	case *rsa.PublicKey:
		valid = t.algorithm == RS256 && key.N.BitLen() >= minRSABits &&
			rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], t.signature) == nil
	}
	if !valid {
		return nil, fmt.Errorf("%w: the signature is not by this key (%s, %T)", ErrToken, t.algorithm, key)
	}
	return t.payload, nil
}

// verifyES256 checks a signature that is r and s, each of 32 bytes.
func verifyES256(key *ecdsa.PublicKey, digest, signature []byte) bool {
	const size = 32
	if len(signature) != 2*size {
		return false
	}
	r := new(big.Int).SetBytes(signature[:size])
	s := new(big.Int).SetBytes(signature[size:])
	return ecdsa.Verify(key, digest, r, s)
}

// Unverified returns the payload without any check. It is for what was verified
// before, and for finding out when a token claims to be signed.
func (t *Token) Unverified() []byte { return t.payload }

// OpenToken returns the payload of a JWS for Inner, unverified: the receiver has
// verified the token before it became an event, or the one around it.
func OpenToken(text string, _ map[string]any) ([]byte, error) {
	t, err := ParseToken(text)
	if err != nil {
		return nil, err
	}
	return t.payload, nil
}
