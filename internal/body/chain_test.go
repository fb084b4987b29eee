package body_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
)

// appleCertificates are those of the tests of Apple's own library: made up ones,
// and the chain with which Apple signs.
func appleCertificates(tb testing.TB) map[string]string {
	data, err := os.ReadFile("testdata/apple.json")
	require.NoError(tb, err)
	var certificates map[string]string
	require.NoError(tb, json.Unmarshal(data, &certificates))
	return certificates
}

func certificate(tb testing.TB, text string) *x509.Certificate {
	parsed, err := x509.ParseCertificate(decode64(tb, text))
	require.NoError(tb, err)
	return parsed
}

// appleChain is what a preset for Apple asks for, with another root.
func appleChain(tb testing.TB, root string) body.Chain {
	return body.Chain{
		Roots: []*x509.Certificate{certificate(tb, appleCertificates(tb)[root])},
		Leaf:  body.AppleLeaf, Intermediate: body.AppleIntermediate,
	}
}

// hugeCertificate is one that holds, and is longer than any has to be.
func hugeCertificate(tb testing.TB) string {
	template := &x509.Certificate{
		SerialNumber:    big.NewInt(1),
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: make([]byte, 16<<10)}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &ecSigner().PublicKey, ecSigner())
	require.NoError(tb, err)
	return base64.StdEncoding.EncodeToString(der)
}

// signedPayload is the token in a notification of Apple's.
func signedPayload(tb testing.TB, data []byte) string {
	doc, err := jsondoc.Scan(data, everything)
	require.NoError(tb, err)
	return lookup(tb, doc, "signedPayload").(string)
}

func TestChainOfNotifications(t *testing.T) {
	all := vectors(t)
	at := time.UnixMilli(1681314324000) // V57's signedDate
	verify := func(text string, chain body.Chain, at time.Time) ([]byte, error) {
		token, err := body.ParseToken(text)
		require.NoError(t, err)
		return token.VerifyChain(chain, at, body.ES256)
	}

	t.Run("case 51: V57, V58 and V60 are signed", func(t *testing.T) {
		for _, id := range []string{"V57", "V58", "V60"} {
			payload, err := verify(signedPayload(t, all[id].Body), appleChain(t, "test_ca"), at)
			require.NoError(t, err, id)
			require.Contains(t, string(payload), `"com.example`, id)
		}
	})
	t.Run("case 51: V59 brings no certificates", func(t *testing.T) {
		_, err := verify(signedPayload(t, all["V59"].Body), appleChain(t, "test_ca"), at)
		require.ErrorIs(t, err, body.ErrToken)
	})
	t.Run("the root in the token is not trusted", func(t *testing.T) {
		_, err := verify(signedPayload(t, all["V57"].Body), appleChain(t, "real_apple_root"), at)
		require.ErrorIs(t, err, body.ErrToken)
		_, err = verify(signedPayload(t, all["V57"].Body), body.Chain{}, at)
		require.ErrorIs(t, err, body.ErrToken)
	})
	t.Run("certificates count at the given time", func(t *testing.T) {
		text := signedPayload(t, all["V57"].Body)
		for name, at := range map[string]time.Time{
			"expired": time.Date(2033, 1, 3, 0, 0, 0, 0, time.UTC), "not yet valid": time.Date(2023, 1, 4, 0, 0, 0, 0, time.UTC), "none": {},
		} {
			_, err := verify(text, appleChain(t, "test_ca"), at)
			require.ErrorIs(t, err, body.ErrToken, name)
		}
	})
	t.Run("other extensions are not the ones", func(t *testing.T) {
		chain := appleChain(t, "test_ca")
		chain.Leaf, chain.Intermediate = chain.Intermediate, chain.Leaf
		_, err := verify(signedPayload(t, all["V57"].Body), chain, at)
		require.ErrorIs(t, err, body.ErrToken)
	})
	t.Run("another payload under the same certificates is not signed", func(t *testing.T) {
		parts := strings.Split(signedPayload(t, all["V57"].Body), ".")
		forged := encode(`{"notificationType":"REFUND","notificationUUID":"1"}`)
		_, err := verify(parts[0]+"."+forged+"."+parts[2], appleChain(t, "test_ca"), at)
		require.ErrorIs(t, err, body.ErrToken)
	})
	t.Run("RS256 is not what Apple signs with", func(t *testing.T) {
		token, err := body.ParseToken(signedPayload(t, all["V57"].Body))
		require.NoError(t, err)
		_, err = token.VerifyChain(appleChain(t, "test_ca"), at, body.RS256)
		require.ErrorIs(t, err, body.ErrToken)
	})
}

func TestChainOfCertificates(t *testing.T) {
	certificates := appleCertificates(t)
	at := time.Unix(1761962975, 0)

	// What is asked is whether the chain holds: no token is signed by these.
	const unsigned = "the signature is not by this key"
	verify := func(root string, at time.Time, names ...string) error {
		var texts []string
		for _, name := range names {
			text, found := certificates[name]
			if !found {
				text = name
			}
			texts = append(texts, text)
		}
		header, err := json.Marshal(map[string]any{"alg": "ES256", "x5c": texts})
		require.NoError(t, err)
		token, err := body.ParseToken(encode(string(header)) + "." + encode("{}") + "." + encode(strings.Repeat("s", 64)))
		require.NoError(t, err)
		_, err = token.VerifyChain(appleChain(t, root), at, body.ES256)
		require.ErrorIs(t, err, body.ErrToken)
		return err
	}

	t.Run("the chain with which Apple signs holds", func(t *testing.T) {
		err := verify("real_apple_root", at, "real_apple_signing_certificate", "real_apple_intermediate", "real_apple_root")
		require.ErrorContains(t, err, unsigned)
		err = verify("real_apple_root", at, "real_apple_signing_certificate", "real_apple_intermediate")
		require.ErrorContains(t, err, unsigned)
	})
	t.Run("Apple's test chain holds", func(t *testing.T) {
		require.ErrorContains(t, verify("root_ca", at, "leaf_cert", "intermediate_ca", "root_ca"), unsigned)
	})
	for name, err := range map[string]error{
		"an intermediate without its extension": verify("root_ca", at, "leaf_cert_for_intermediate_ca_invalid_oid", "intermediate_ca_invalid_oid", "root_ca"),
		"a leaf without its extension":          verify("root_ca", at, "leaf_cert_invalid_oid", "intermediate_ca", "root_ca"),
		"no leaf":                               verify("root_ca", at, "intermediate_ca", "root_ca"),
		"no intermediate":                       verify("root_ca", at, "leaf_cert", "root_ca"),
		"a root alone":                          verify("root_ca", at, "root_ca"),
		"base64 of nothing":                     verify("root_ca", at, "abc", "intermediate_ca", "root_ca"),
		"no certificate":                        verify("root_ca", at, "YWJj", "intermediate_ca", "root_ca"),
		"an empty one":                          verify("root_ca", at, "leaf_cert", "intermediate_ca", ""),
		"another root":                          verify("real_apple_root", at, "leaf_cert", "intermediate_ca", "root_ca"),
		"after its end":                         verify("root_ca", time.Unix(2280946846, 0), "leaf_cert", "intermediate_ca", "root_ca"),
		"too many":                              verify("root_ca", at, "leaf_cert", "intermediate_ca", "root_ca", "root_ca", "root_ca"),
		"a huge one":                            verify("root_ca", at, "leaf_cert", "intermediate_ca", hugeCertificate(t)),
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			require.NotContains(t, err.Error(), unsigned)
		})
	}
}
