package body_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

// The examples of RFC 7515, appendices A.2 and A.3.
const (
	rfcPayload = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
	rfcRS256   = "eyJhbGciOiJSUzI1NiJ9." + rfcPayload + ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
	rfcES256   = "eyJhbGciOiJFUzI1NiJ9." + rfcPayload + ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
	rfcModulus = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
)

func rawURL(tb testing.TB, text string) []byte {
	data, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(tb, err)
	return data
}

func rsaKey(tb testing.TB) *rsa.PublicKey {
	return &rsa.PublicKey{N: new(big.Int).SetBytes(rawURL(tb, rfcModulus)), E: 65537}
}

func ecKey(tb testing.TB) *ecdsa.PublicKey {
	x := rawURL(tb, "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU")
	y := rawURL(tb, "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0")
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
	require.NoError(tb, err)
	return key
}

// ecSigner signs the ES256 tokens of the tests.
var ecSigner = sync.OnceValue(func() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
})

// signEC makes a token with a signature of 64 bytes.
func signEC(tb testing.TB, key *ecdsa.PrivateKey, header, payload string) string {
	text := encode(header) + "." + encode(payload)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	require.NoError(tb, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// encode spells a part of a token.
func encode(data string) string { return base64.RawURLEncoding.EncodeToString([]byte(data)) }

func TestToken(t *testing.T) {
	verify := func(text string, key crypto.PublicKey, allowed ...body.Algorithm) error {
		token, err := body.ParseToken(text)
		if err != nil {
			return err
		}
		_, err = token.Verify(key, allowed...)
		return err
	}

	t.Run("RFC 7515 A.2 and A.3", func(t *testing.T) {
		for text, key := range map[string]crypto.PublicKey{rfcRS256: rsaKey(t), rfcES256: ecKey(t)} {
			token, err := body.ParseToken(text)
			require.NoError(t, err)
			payload, err := token.Verify(key, body.RS256, body.ES256)
			require.NoError(t, err)
			require.Equal(t, "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}", string(payload))
			require.Equal(t, payload, token.Unverified())
		}
	})

	t.Run("any other bit is another token", func(t *testing.T) {
		for text, key := range map[string]crypto.PublicKey{rfcRS256: rsaKey(t), rfcES256: ecKey(t)} {
			for at := 22; at < len(text)-1; at += 7 {
				other := []byte(text)
				if other[at] == '.' {
					continue
				}
				other[at] = map[bool]byte{true: 'B', false: 'A'}[other[at] == 'A']
				require.ErrorIs(t, verify(string(other), key, body.RS256, body.ES256), body.ErrToken, "byte %d", at)
			}
		}
	})

	t.Run("the caller chooses the algorithm, and the key has to be made for it", func(t *testing.T) {
		require.ErrorIs(t, verify(rfcRS256, rsaKey(t), body.ES256), body.ErrToken)
		require.ErrorIs(t, verify(rfcES256, ecKey(t), body.RS256), body.ErrToken)
		require.ErrorIs(t, verify(rfcES256, ecKey(t)), body.ErrToken)
		require.ErrorIs(t, verify(rfcES256, rsaKey(t), body.RS256, body.ES256), body.ErrToken)
		require.ErrorIs(t, verify(rfcRS256, ecKey(t), body.RS256, body.ES256), body.ErrToken)
		require.ErrorIs(t, verify(rfcRS256, nil, body.RS256), body.ErrToken)
		p384 := ecKey(t)
		p384.Curve = elliptic.P384()
		require.ErrorIs(t, verify(rfcES256, p384, body.ES256), body.ErrToken)
	})

	t.Run("an algorithm that the header does not name", func(t *testing.T) {
		require.NoError(t, verify(signEC(t, ecSigner(), `{"alg":"ES256"}`, "{}"), &ecSigner().PublicKey, body.ES256, body.RS256))
		require.ErrorIs(t, verify(signEC(t, ecSigner(), `{"alg":"RS256"}`, "{}"), &ecSigner().PublicKey, body.ES256, body.RS256), body.ErrToken)
		require.ErrorIs(t, verify(sign(t, `{"alg":"ES256"}`, nil), &signer().PublicKey, body.ES256, body.RS256), body.ErrToken)
	})

	t.Run("another curve, and a short RSA key, sign nothing", func(t *testing.T) {
		p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
		require.NoError(t, err)
		require.ErrorIs(t, verify(signEC(t, p224, `{"alg":"ES256"}`, "{}"), &p224.PublicKey, body.ES256), body.ErrToken)

		short, err := rsa.GenerateKey(rand.Reader, 1024)
		require.NoError(t, err)
		text := encode(`{"alg":"RS256"}`) + "." + rfcPayload
		digest := sha256.Sum256([]byte(text))
		signature, err := rsa.SignPKCS1v15(nil, short, crypto.SHA256, digest[:])
		require.NoError(t, err)
		require.ErrorIs(t, verify(text+"."+base64.RawURLEncoding.EncodeToString(signature), &short.PublicKey, body.RS256), body.ErrToken)
	})

	t.Run("well signed, and refused all the same", func(t *testing.T) {
		for name, header := range map[string]string{
			"no JSON": `alg`, "a list": `["ES256"]`, "alg twice": `{"alg":"none","alg":"ES256"}`, "alg twice, the other way": `{"alg":"ES256","alg":"none"}`,
			"alg as a list": `{"alg":["ES256"]}`, "critical members": `{"alg":"ES256","crit":["b64"],"b64":false}`, "critical null": `{"alg":"ES256","crit":null}`,
		} {
			require.ErrorIs(t, verify(signEC(t, ecSigner(), header, "{}"), &ecSigner().PublicKey, body.ES256), body.ErrToken, name)
		}
		large := strings.Repeat("x", body.MaxToken*3/4)
		require.ErrorIs(t, verify(signEC(t, ecSigner(), `{"alg":"ES256"}`, large), &ecSigner().PublicKey, body.ES256), body.ErrToken)
		require.NoError(t, verify(signEC(t, ecSigner(), `{"alg":"ES256"}`, large[:len(large)-200]), &ecSigner().PublicKey, body.ES256))
	})

	t.Run("a signature has one spelling", func(t *testing.T) {
		at := strings.LastIndexByte(rfcES256, '.') + 1
		signature := rawURL(t, rfcES256[at:])
		longer := append(append(bytes.Clone(signature[:32]), 0), signature[32:]...)
		require.ErrorIs(t, verify(rfcES256[:at]+base64.RawURLEncoding.EncodeToString(longer), ecKey(t), body.ES256), body.ErrToken)
	})

	t.Run("none and shared secrets are no algorithms, even where they are allowed", func(t *testing.T) {
		for _, name := range []string{"none", "None", "", "HS256", "RS384", "es256"} {
			header := encode(`{"alg":"` + name + `"}`)
			for _, signature := range []string{"", "AAAA"} {
				err := verify(header+"."+rfcPayload+"."+signature, rsaKey(t), body.RS256, body.ES256, body.Algorithm(name))
				require.ErrorIs(t, err, body.ErrToken, name)
			}
		}
	})

	t.Run("case 48: texts of the wrong shape", func(t *testing.T) {
		signature := strings.SplitN(rfcES256, ".", 3)[2]
		for name, text := range map[string]string{
			"nothing":           "",
			"two parts":         "eyJhbGciOiJFUzI1NiJ9." + rfcPayload,
			"four parts":        rfcES256 + ".x",
			"padding":           rfcES256 + "==",
			"a line break":      rfcES256 + "\n",
			"a short signature": rfcES256[:len(rfcES256)-4],
			"no signature":      strings.TrimSuffix(rfcES256, signature),
			"a zero signature":  strings.TrimSuffix(rfcES256, signature) + base64.RawURLEncoding.EncodeToString(make([]byte, 64)),
		} {
			require.ErrorIs(t, verify(text, ecKey(t), body.ES256), body.ErrToken, name)
		}
	})
}

func TestKeySet(t *testing.T) {
	set := func(keys ...map[string]any) []byte {
		data, err := json.Marshal(map[string]any{"keys": keys})
		require.NoError(t, err)
		return data
	}
	with := func(changes ...any) map[string]any {
		key := map[string]any{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "k1", "n": rfcModulus, "e": "AQAB"}
		for i := 0; i < len(changes); i += 2 {
			key[changes[i].(string)] = changes[i+1]
		}
		return key
	}

	t.Run("keys for signatures, by id", func(t *testing.T) {
		keys, err := body.ReadKeySet(set(with(), with("kid", "k2", "kty", "EC"), with("kid", "k3", "use", "enc")))
		require.NoError(t, err)
		require.Equal(t, map[string]crypto.PublicKey{"k1": rsaKey(t)}, keys)
	})
	t.Run("refused", func(t *testing.T) {
		short := base64.RawURLEncoding.EncodeToString(rawURL(t, rfcModulus)[:255])
		for name, data := range map[string][]byte{
			"the same id twice":  set(with(), with()),
			"no id":              set(with("kid", nil)),
			"a short key":        set(with("n", short)),
			"no modulus":         set(with("n", nil)),
			"an exponent of one": set(with("e", "AQ")),
			"an even exponent":   set(with("e", "BA")),
			"a huge exponent":    set(with("e", rfcModulus)),
			"padding":            set(with("e", "AQAB==")),
			"no keys":            []byte(`{}`),
			"keys that are none": []byte(`{"keys":[1]}`),
			"too many keys":      []byte(`{"keys":[` + strings.Repeat("{},", body.MaxKeys) + `{}]}`),
		} {
			_, err := body.ReadKeySet(data)
			require.Error(t, err, name)
		}
		_, err := body.ReadKeySet([]byte(`{"keys":[],"keys":[]}`))
		require.ErrorIs(t, err, jsondoc.ErrAmbiguous)
	})
}
