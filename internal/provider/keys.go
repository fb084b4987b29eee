package provider

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/onceledger/onceledger/internal/config"
)

// keys are those of a provider that signs with a key of its own: what it
// publishes, and for trying a source the private half of a made-up pair.
type keys struct {
	publics      []crypto.PublicKey
	names        []string            // where each of publics is configured
	certificates []*x509.Certificate // those of publics that came as such
	private      crypto.Signer       // nil: nothing can be signed
}

// errKey is told without the text it is about, which may be a secret.
var errKey = errors.New("is no public key or certificate, as PEM or as base64 of its DER")

// publicKeys returns the source's public_keys, and the private keys among its
// secrets with their public halves. What else is among the secrets is returned.
func publicKeys(src config.Source, f *faults) (k keys, others []string) {
	if len(src.PublicKeys) > maxSecrets {
		f.add(src.Pos, "public_keys", "%d keys are too many; at most %d can be live", len(src.PublicKeys), maxSecrets)
	}
	for i, text := range src.PublicKeys {
		if err := k.add(text.Value); err != nil {
			f.add(text.Pos, fmt.Sprintf("public_keys[%d]", i), "%v", err)
			continue
		}
		k.names = append(k.names, fmt.Sprintf("public_keys[%d]", i))
	}
	for i, secret := range optionalSecrets(src, f) {
		private, err := parseSigner(secret)
		switch {
		case err != nil:
			f.add(src.Pos, fmt.Sprintf("secrets[%d]", i), "%v", err)
		case private == nil:
			others = append(others, secret)
		default:
			k.publics = append(k.publics, private.Public())
			k.names = append(k.names, fmt.Sprintf("secrets[%d]", i))
			if k.private == nil {
				k.private = private
			}
		}
	}
	return k, others
}

func (k *keys) add(text string) error {
	der, err := decodeKey(text)
	if err != nil {
		return err
	}
	if certificate, err := x509.ParseCertificate(der); err == nil {
		k.certificates = append(k.certificates, certificate)
		return k.addPublic(certificate.PublicKey)
	}
	public, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return errKey
	}
	return k.addPublic(public)
}

func (k *keys) addPublic(public crypto.PublicKey) error {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
	case *rsa.PublicKey:
		if key.N.BitLen() < 2048 || key.N.BitLen() > 8192 {
			return fmt.Errorf("is an RSA key of %d bits, not 2048 to 8192", key.N.BitLen())
		}
	default:
		return fmt.Errorf("is a key of another kind (%T) than RSA or ECDSA", public)
	}
	k.publics = append(k.publics, public)
	return nil
}

// decodeKey returns the DER of a PEM block, or of base64 without its armour.
func decodeKey(text string) ([]byte, error) {
	if block, rest := pem.Decode([]byte(text)); block != nil {
		if len(strings.TrimSpace(string(rest))) > 0 {
			return nil, errors.New("holds more than one PEM block; write one item of the list for each")
		}
		return block.Bytes, nil
	}
	der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil || len(der) == 0 {
		return nil, errKey
	}
	return der, nil
}

// parseSigner returns the private key in a PEM block, nil if text is none.
func parseSigner(text string) (crypto.Signer, error) {
	if !strings.HasPrefix(text, "-----BEGIN") {
		return nil, nil
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("is no whole PEM block")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("is no private key; public keys and certificates stand under public_keys")
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return key, nil
	case *ecdsa.PrivateKey:
		return key, nil
	}
	return nil, errors.New("is a private key of another kind than RSA or ECDSA")
}

// verify reports whether one of the keys has signed message, with SHA-256 and
// PKCS #1 v1.5 for RSA, or in ASN.1 for ECDSA. signature is in base64.
func (k *keys) verify(message []byte, signature string, t *trace) bool {
	const longest = 2 << 10 // RSA of 8192 bits has 1368 characters
	if len(signature) > longest {
		return false
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(signature)
	if err != nil {
		t.judged("signature", err)
		return false
	}
	digest := sha256.Sum256(message)
	for i, public := range k.publics {
		found := verifyDigest(public, digest[:], raw)
		t.key(k, i, found)
		if found {
			return true
		}
	}
	return false
}

func verifyDigest(public crypto.PublicKey, digest, signature []byte) bool {
	switch key := public.(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest, signature) == nil
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, digest, signature)
	}
	return false
}

// sign is what verify accepts.
func (k *keys) sign(message []byte) (string, error) {
	if k.private == nil {
		return "", errUnsigned
	}
	digest := sha256.Sum256(message)
	signature, err := k.private.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(signature), nil
}
