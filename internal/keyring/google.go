package keyring

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
)

// googleKeys is where Google publishes the keys that sign its OIDC tokens, those
// of Pub/Sub among them.
const googleKeys = "https://www.googleapis.com/oauth2/v3/certs"

// Bounds of what is believed: Google's keys are RSA of 2,048 bits, and two or
// three at a time.
const (
	maxKeys     = 64
	leastRSA    = 2048
	mostRSA     = 8192
	mostRSAExpt = 1<<31 - 1
)

// Google returns the keys of Google's OIDC tokens by their kid.
func Google(o Options) Keys {
	o = o.orDefault()
	return newSet(o, func(ctx context.Context) (loaded[map[string]crypto.PublicKey], error) {
		var got loaded[map[string]crypto.PublicKey]
		answer, err := o.fetch(ctx, googleKeys, nil)
		if err != nil {
			return got, err
		}
		if answer.Status != http.StatusOK {
			return got, answered(answer.Status)
		}
		got.fresh = freshness(answer.Header)
		got.value, err = readKeySet(answer.Body)
		return got, err
	})
}

// jwk is one key of a JSON Web Key set (RFC 7517), with the members of its kind.
type jwk struct {
	Type  string `json:"kty"`
	ID    string `json:"kid"`
	Use   string `json:"use"`
	N     string `json:"n"`
	E     string `json:"e"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y"`
}

// readKeySet returns the signing keys of a JWK set. Keys of kinds that it does
// not know are left out; a set without any it knows is an error.
func readKeySet(data []byte) (map[string]crypto.PublicKey, error) {
	var list struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read key set: %w", err)
	}
	if len(list.Keys) > maxKeys {
		return nil, fmt.Errorf("read key set: %d keys are too many", len(list.Keys))
	}
	keys := make(map[string]crypto.PublicKey, len(list.Keys))
	for _, k := range list.Keys {
		if k.ID == "" || len(k.ID) > maxID || k.Use != "" && k.Use != "sig" {
			continue
		}
		if _, twice := keys[k.ID]; twice {
			return nil, errors.New("read key set: two keys have one id")
		}
		key, err := k.public()
		if err != nil {
			return nil, fmt.Errorf("read key set: %w", err)
		}
		if key != nil {
			keys[k.ID] = key
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("read key set: it has no signing key")
	}
	return keys, nil
}

// public returns the key, nil where its kind is unknown.
func (k jwk) public() (crypto.PublicKey, error) {
	switch {
	case k.Type == "RSA":
		return k.rsa()
	case k.Type == "EC" && k.Curve == "P-256":
		x, errX := base64.RawURLEncoding.DecodeString(k.X)
		y, errY := base64.RawURLEncoding.DecodeString(k.Y)
		if errX != nil || errY != nil || len(x) != 32 || len(y) != 32 {
			return nil, errors.New("a point is no base64 of 32 bytes")
		}
		return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
	}
	return nil, nil
}

func (k jwk) rsa() (crypto.PublicKey, error) {
	n, errN := base64.RawURLEncoding.DecodeString(k.N)
	e, errE := base64.RawURLEncoding.DecodeString(k.E)
	if errN != nil || errE != nil || len(e) > 4 {
		return nil, errors.New("an RSA key is no base64 of a modulus and an exponent")
	}
	key := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
	if err := checkRSA(key); err != nil {
		return nil, err
	}
	return key, nil
}

// checkRSA refuses keys that are too weak to prove anything or so large that
// using them costs too much.
func checkRSA(key *rsa.PublicKey) error {
	if bits := key.N.BitLen(); bits < leastRSA || bits > mostRSA {
		return fmt.Errorf("an RSA key has %d bits; %d to %d are used", bits, leastRSA, mostRSA)
	}
	if key.E < 3 || key.E > mostRSAExpt || key.E%2 == 0 || key.N.Bit(0) == 0 {
		return errors.New("an RSA key has an exponent or a modulus that none has")
	}
	return nil
}
