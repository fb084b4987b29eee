package body

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
)

// OpenSealed decrypts what AES-GCM has sealed, as WeChat Pay v3 seals resources:
// the nonce and the associated data stand beside the ciphertext, which ends with
// its tag. A key of 32 bytes is AES-256, the algorithm of WeChat Pay; of 16
// bytes AES-128, which its own test data has. Keys are tried in their order, so
// that a new one can be there before the old one has gone.
//
// Errors wrap ErrDecrypt: which of key, nonce and data is wrong cannot be told.
// The receiver should answer them as a failure of its own (case 78), since the
// provider then repeats the notice until the key is right.
func OpenSealed(nonce, associated, ciphertext []byte, keys ...[]byte) ([]byte, error) {
	for _, key := range keys {
		if len(key) != 16 && len(key) != 32 {
			return nil, fmt.Errorf("%w: the key has %d bytes, not 32", ErrDecrypt, len(key))
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDecrypt, err)
		}
		gcm, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDecrypt, err)
		}
		if len(nonce) != gcm.NonceSize() {
			return nil, fmt.Errorf("%w: the nonce has %d bytes, not %d", ErrDecrypt, len(nonce), gcm.NonceSize())
		}
		if plain, err := gcm.Open(nil, nonce, ciphertext, associated); err == nil {
			return plain, nil
		}
	}
	return nil, fmt.Errorf("%w: no key of %d fits it", ErrDecrypt, len(keys))
}

// OpenResource returns what opens WeChat Pay's resource.ciphertext for Inner,
// with the nonce and the associated_data that stand beside it.
func OpenResource(keys ...[]byte) func(text string, beside map[string]any) ([]byte, error) {
	return func(text string, beside map[string]any) ([]byte, error) {
		if algorithm := beside["algorithm"]; algorithm != "AEAD_AES_256_GCM" {
			return nil, fmt.Errorf("%w: algorithm %v", ErrDecrypt, algorithm)
		}
		ciphertext, err := Base64Std.Decode([]byte(text))
		if err != nil {
			return nil, err
		}
		nonce, _ := beside["nonce"].(string)
		associated, _ := beside["associated_data"].(string) // which may be absent
		return OpenSealed([]byte(nonce), []byte(associated), ciphertext, keys...)
	}
}
