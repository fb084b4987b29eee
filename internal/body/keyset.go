package body

import (
	"crypto"
	"crypto/rsa"
	"fmt"
	"math/big"

	"github.com/onceledger/onceledger/internal/jsondoc"
)

// MaxKeys is how many keys a key set may have; Google's has two or three.
const MaxKeys = 50

// ReadKeySet reads a JSON Web Key Set, such as the one Google publishes, and
// returns its RSA keys for signatures by their ids. Keys of other kinds or uses
// are passed over; one without an id, with an id that is there already, or that
// is too weak is an error. Errors wrap ErrSyntax, ErrLimit or jsondoc's.
func ReadKeySet(data []byte) (map[string]crypto.PublicKey, error) {
	doc, err := jsondoc.Scan(data, jsondoc.NewPaths([]string{"keys"}))
	if err != nil {
		return nil, fmt.Errorf("read key set: %w", err)
	}
	found, _ := jsondoc.Lookup(doc, "keys")
	list, ok := found.([]any)
	switch {
	case !ok:
		return nil, fmt.Errorf("read key set: %w: it has no keys", ErrSyntax)
	case len(list) > MaxKeys:
		return nil, fmt.Errorf("read key set: %w: %d keys", ErrLimit, len(list))
	}
	keys := make(map[string]crypto.PublicKey, len(list))
	for i, value := range list {
		entry, ok := value.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("read key set: %w: key %d is no object", ErrSyntax, i)
		}
		if use, given := entry["use"]; entry["kty"] != "RSA" || given && use != "sig" {
			continue
		}
		id, _ := entry["kid"].(string)
		if _, twice := keys[id]; twice || id == "" {
			return nil, fmt.Errorf("read key set: %w: key %d has no id of its own", ErrSyntax, i)
		}
		if keys[id], err = rsaKey(entry); err != nil {
			return nil, fmt.Errorf("read key set: key %q: %w", clip(id), err)
		}
	}
	return keys, nil
}

// rsaKey reads the modulus and the exponent of a key.
func rsaKey(entry map[string]any) (*rsa.PublicKey, error) {
	const maxBits = 8192 // more only costs time
	n, okN := entry["n"].(string)
	e, okE := entry["e"].(string)
	if !okN || !okE {
		return nil, fmt.Errorf("%w: it has no modulus or no exponent", ErrSyntax)
	}
	modulus, err := Base64RawURL.Decode([]byte(n))
	if err != nil {
		return nil, err
	}
	exponent, err := Base64RawURL.Decode([]byte(e))
	if err != nil {
		return nil, err
	}
	key := &rsa.PublicKey{N: new(big.Int).SetBytes(modulus)}
	public := new(big.Int).SetBytes(exponent)
	switch bits := key.N.BitLen(); {
	case bits < minRSABits || bits > maxBits || key.N.Bit(0) == 0:
		return nil, fmt.Errorf("%w: a modulus of %d bits", ErrSyntax, bits)
	case public.BitLen() > 31 || public.Int64() < 3 || public.Bit(0) == 0:
		return nil, fmt.Errorf("%w: an exponent of %d bits", ErrSyntax, public.BitLen())
	}
	key.E = int(public.Int64())
	return key, nil
}
