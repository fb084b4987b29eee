package keyring

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const v3Key = "0123456789abcdef0123456789abcdef"

// weChat answers as WeChat Pay does, signed and encrypted.
type weChat struct {
	t      *testing.T
	key    string
	serial string // that the answer is signed under
	change func(body string, h http.Header) string
}

func (c weChat) body(certificates ...*x509.Certificate) string {
	block, err := aes.NewCipher([]byte(c.key))
	require.NoError(c.t, err)
	gcm, err := cipher.NewGCM(block)
	require.NoError(c.t, err)
	var items []string
	for _, certificate := range certificates {
		nonce := "61f9c719728a"
		text := gcm.Seal(nil, []byte(nonce), inPEM(certificate), []byte("certificate"))
		items = append(items, fmt.Sprintf(`{"serial_no":"%X","effective_time":"2018-06-08T10:34:56+08:00","expire_time":"2028-06-08T10:34:56+08:00",`+
			`"encrypt_certificate":{"algorithm":"AEAD_AES_256_GCM","nonce":%q,"associated_data":"certificate","ciphertext":%q}}`,
			certificate.SerialNumber, nonce, base64.StdEncoding.EncodeToString(text)))
	}
	return `{"data":[` + strings.Join(items, ",") + `]}`
}

func (c weChat) answer(certificates ...*x509.Certificate) http.HandlerFunc {
	body := c.body(certificates...)
	sum := sha256.Sum256([]byte("1554209980\nc5ac7061fccab6bf3e254dcf98995b8c\n" + body + "\n"))
	signature, err := rsa.SignPKCS1v15(rand.Reader, signingKey(), crypto.SHA256, sum[:])
	require.NoError(c.t, err)
	return func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Wechatpay-Serial", c.serial)
		h.Set("Wechatpay-Timestamp", "1554209980")
		h.Set("Wechatpay-Nonce", "c5ac7061fccab6bf3e254dcf98995b8c")
		h.Set("Wechatpay-Signature", base64.StdEncoding.EncodeToString(signature))
		text := body
		if c.change != nil {
			text = c.change(body, h)
		}
		_, _ = w.Write([]byte(text))
	}
}

func serialOf(c *x509.Certificate) string { return fmt.Sprintf("%X", c.SerialNumber) }

func TestWeChatCertificates(t *testing.T) {
	t.Parallel()
	merchantKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	m := Merchant{ID: "1900009191", Serial: "1DDE55AD98ED71D6EDD4A4A16996DE7B47773A8C", Key: merchantKey, APIv3Key: []byte(v3Key)}
	p := newProvider(t, nil)
	now, next := p.leaf("Tenpay.com sign"), p.leaf("Tenpay.com sign")
	c := weChat{t: t, key: v3Key, serial: serialOf(now)}
	p.answers(func(w http.ResponseWriter, r *http.Request) {
		requireSigned(t, r, m)
		c.answer(now, next)(w, r)
	})
	keys, err := WeChat(m, p.Options)
	require.NoError(t, err)
	for _, certificate := range []*x509.Certificate{now, next} {
		key, err := keys.Key(t.Context(), serialOf(certificate))
		require.NoError(t, err)
		require.True(t, signingKey().PublicKey.Equal(key))
	}
	_, err = keys.Key(t.Context(), "5157F09EFDC096DE15EBE81A47057A7232F1B8E1")
	require.ErrorIs(t, err, ErrRefused)
	p.asked(1)

	expired := p.leaf("Tenpay.com sign", func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = start.Add(-48*time.Hour), start.Add(-24*time.Hour)
	})
	for what, answer := range map[string]http.HandlerFunc{
		"another APIv3 key":   weChat{t: t, key: strings.Repeat("x", 32), serial: c.serial}.answer(now),
		"signed under none":   weChat{t: t, key: v3Key, serial: "ABC"}.answer(now),
		"unsigned":            weChat{t: t, key: v3Key, change: func(b string, h http.Header) string { h.Del("Wechatpay-Signature"); return b }}.answer(now),
		"changed":             weChat{t: t, key: v3Key, serial: c.serial, change: func(b string, _ http.Header) string { return b + " " }}.answer(now),
		"another serial":      weChat{t: t, key: v3Key, serial: c.serial, change: func(b string, _ http.Header) string { return strings.ReplaceAll(b, serialOf(now), "ABCDEF") }}.answer(now),
		"only an expired one": weChat{t: t, key: v3Key, serial: serialOf(expired)}.answer(expired),
		"another encryption":  weChat{t: t, key: v3Key, serial: c.serial, change: func(b string, _ http.Header) string { return strings.ReplaceAll(b, "GCM", "SM4") }}.answer(now),
		"no data":             weChat{t: t, key: v3Key, serial: c.serial}.answer(),
		"not JSON":            says(http.StatusOK, []byte("<xml>")),
		"our own fault":       says(http.StatusUnauthorized, []byte(`{"code":"SIGN_ERROR"}`)),
	} {
		p.answers(answer)
		keys, err := WeChat(m, p.Options)
		require.NoError(t, err)
		_, err = keys.Key(t.Context(), serialOf(now))
		require.ErrorIs(t, err, ErrUnavailable, "%s: the notice must be sent again", what)
	}
}

var authorization = regexp.MustCompile(`^WECHATPAY2-SHA256-RSA2048 mchid="1900009191",nonce_str="([0-9a-f]{32})",signature="([^"]+)",timestamp="([0-9]+)",serial_no="1DDE55AD98ED71D6EDD4A4A16996DE7B47773A8C"$`)

// requireSigned checks the merchant's request as WeChat does.
func requireSigned(t *testing.T, r *http.Request, m Merchant) {
	require.Equal(t, "/v3/certificates", r.URL.RequestURI())
	require.NotEmpty(t, r.UserAgent())
	parts := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	require.NotNil(t, parts)
	signature, err := base64.StdEncoding.DecodeString(parts[2])
	require.NoError(t, err)
	sum := sha256.Sum256([]byte("GET\n/v3/certificates\n" + parts[3] + "\n" + parts[1] + "\n\n"))
	require.NoError(t, rsa.VerifyPKCS1v15(&m.Key.PublicKey, crypto.SHA256, sum[:], signature))
}

func TestAMerchantIsChecked(t *testing.T) {
	t.Parallel()
	whole := Merchant{ID: "1", Serial: "2", Key: signingKey(), APIv3Key: []byte(v3Key)}
	for _, change := range []func(*Merchant){
		func(m *Merchant) { m.ID = "" }, func(m *Merchant) { m.Serial = "" }, func(m *Merchant) { m.Key = nil },
		func(m *Merchant) { m.APIv3Key = m.APIv3Key[:31] }, func(m *Merchant) { m.ID = `1",x="` },
	} {
		m := whole
		change(&m)
		_, err := WeChat(m, Options{})
		require.Error(t, err)
	}
	_, err := WeChat(whole, Options{})
	require.NoError(t, err)
}
