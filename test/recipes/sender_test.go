package recipes

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/catalog"
	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/provider"
)

// senders are the sources of a recipe, with keys that can sign.
type senders map[string]*provider.Source

func newSenders(t *testing.T, cat *catalog.Catalog) senders {
	t.Helper()
	s := senders{}
	for name, source := range cat.Sources {
		src := source.Config
		switch src.Provider.Value {
		case "paypal", "alipay", "wechatpay-v3", "google-play":
			key, err := rsaKey()
			require.NoError(t, err)
			src = signedBy(t, src, key)
		case "apple":
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			require.NoError(t, err)
			src = signedBy(t, src, key)
		}
		made, faults := provider.New(src)
		require.Empty(t, faults)
		s[name] = made
	}
	return s
}

// signedBy is src whose provider has this key, with a certificate that can issue others.
func signedBy(t *testing.T, src config.Source, key crypto.Signer) config.Source {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	src.PublicKeys = []config.Text{{Value: base64.StdEncoding.EncodeToString(certificate)}}
	src.Secrets = append(slices.Clone(src.Secrets), config.NewSecret(private(t, key)))
	return src
}

func private(t *testing.T, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// rsaKey is made once: it takes a tenth of a second.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// variable is a reference to the environment.
var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// load reads a recipe as it stands, with secrets of the right form in the
// environment.
func load(t *testing.T, name string) *catalog.Catalog {
	t.Helper()
	path := filepath.Join(recipesDir, name+".yaml")
	env := map[string]string{}
	for _, found := range variable.FindAllStringSubmatch(file(t, path), -1) {
		env[found[1]] = secret(t, found[1])
	}
	cat, err := catalog.Load(path, func(name string) (string, bool) { value, ok := env[name]; return value, ok })
	require.NoError(t, err)
	return cat
}

func secret(t *testing.T, variable string) string {
	t.Helper()
	switch variable {
	case "ADYEN_HMAC_KEY":
		return strings.Repeat("0a", 32)
	case "WECHATPAY_APIV3_KEY":
		return strings.Repeat("k", 32)
	case "GOOGLE_PLAY_ACCOUNT_KEY":
		key, err := rsaKey()
		require.NoError(t, err)
		file, err := json.Marshal(map[string]string{
			"type": "service_account", "client_email": "reader@example.iam.gserviceaccount.com", "private_key_id": "1", "private_key": private(t, key),
		})
		require.NoError(t, err)
		return string(file)
	}
	return "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
}
