// Package providertest gives tests the other side of providers: keys that sign as
// those do whose public half alone a source knows, and secrets of the right form.
//
//	source, faults := provider.New(providertest.Signing(t, src))
package providertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

// validity is how long a certificate is good, in both directions.
const validity = 48 * time.Hour

// The keys are made once: RSA takes a tenth of a second.
var (
	rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })
	ecKey  = sync.OnceValues(func() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) })
)

// Signing is src with a key of its provider's, public and private, where those
// sign that have one; any other stays as it is.
func Signing(t testing.TB, src config.Source) config.Source {
	t.Helper()
	switch src.Provider.Value {
	case "wise", "sendgrid", "paypal", "alipay", "apple", "google-play", "wechatpay-v3":
		certificate, private := Pair(t, src.Provider.Value)
		src.PublicKeys = []config.Text{{Value: certificate}}
		src.Secrets = append(slices.Clone(src.Secrets), config.NewSecret(private))
	}
	return src
}

// Pair is a key of the kind with which a provider signs, as PEM: a certificate that
// can issue others, and the private key.
func Pair(t testing.TB, provider string) (certificate, private string) {
	t.Helper()
	var key crypto.Signer
	var err error
	switch provider {
	case "sendgrid", "apple":
		key, err = ecKey()
	default:
		key, err = rsaKey()
	}
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-validity), NotAfter: time.Now().Add(validity),
	}
	issued, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return encode("CERTIFICATE", issued), privatePEM(t, key)
}

func privatePEM(t testing.TB, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return encode("PRIVATE KEY", der)
}

func encode(kind string, der []byte) string {
	return strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

// Secret is a value for a variable of the documents' configurations.
func Secret(t testing.TB, variable string) string {
	t.Helper()
	switch variable {
	case "ADYEN_HMAC_KEY", "ADYEN_PLATFORM_HMAC_KEY":
		return strings.Repeat("0a", 32)
	case "BRAINTREE_KEYS":
		return "public:private"
	case "CHARGEBEE_WEBHOOK_LOGIN":
		return "user:password"
	case "WECHATPAY_APIV3_KEY":
		return strings.Repeat("k", 32)
	case "GOOGLE_PLAY_ACCOUNT_KEY":
		key, err := rsaKey()
		require.NoError(t, err)
		file, err := json.Marshal(map[string]string{
			"type": "service_account", "client_email": "reader@example.iam.gserviceaccount.com", "private_key_id": "1",
			"private_key": privatePEM(t, key),
		})
		require.NoError(t, err)
		return string(file)
	}
	return "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
}
