package keyring

import (
	"context"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	weChatHost = "https://api.mch.weixin.qq.com"
	weChatPath = "/v3/certificates"
	// weChatFresh is how long its certificates count as fresh; WeChat asks for less
	// than 12 hours.
	weChatFresh = 10 * time.Hour
	// weChatKey is the length of an APIv3 key in bytes.
	weChatKey = 32
	// serialHeader names the key that has signed an answer or a notice.
	serialHeader = "Wechatpay-Serial"
)

// Merchant is who asks WeChat Pay for its certificates, and how the request is
// signed and the answer opened.
type Merchant struct {
	// ID is the merchant's number (mchid).
	ID string
	// Serial is that of the merchant's own API certificate, and Key its key.
	Serial string
	Key    *rsa.PrivateKey
	// APIv3Key are the 32 bytes with which WeChat encrypts.
	APIv3Key []byte
}

// WeChat returns the keys of WeChat Pay's platform certificates by their serials,
// in upper case as WeChat writes them. What it fetches is believed because only
// WeChat and the merchant know the APIv3 key, and one of the fetched certificates
// has signed the answer; the certificates lead to no public root.
//
// A merchant who signs with WeChat's public key instead (ids that begin with
// PUB_KEY_ID_) has it in a Fixed set; Either is for both.
func WeChat(m Merchant, o Options) (Keys, error) {
	if m.ID == "" || m.Serial == "" || m.Key == nil || strings.ContainsAny(m.ID+m.Serial, "\"\r\n") {
		return nil, errors.New("fetch WeChat certificates: the merchant needs an id, a serial and a key")
	}
	if len(m.APIv3Key) != weChatKey {
		return nil, fmt.Errorf("fetch WeChat certificates: the APIv3 key has %d bytes, not %d", len(m.APIv3Key), weChatKey)
	}
	o = o.orDefault()
	return newSet(o, func(ctx context.Context) (loaded[map[string]crypto.PublicKey], error) {
		got := loaded[map[string]crypto.PublicKey]{fresh: weChatFresh}
		header, err := m.sign(o.Now())
		if err != nil {
			return got, err
		}
		answer, err := o.fetch(ctx, weChatHost+weChatPath, header)
		if err != nil {
			return got, err
		}
		if answer.Status != http.StatusOK {
			return got, answered(answer.Status)
		}
		if got.value, err = m.open(answer.Body, o.Now()); err != nil {
			return got, err
		}
		return got, verifyAnswer(answer.Header, answer.Body, got.value)
	}), nil
}

// sign returns the headers of the request: method, path, time, a nonce and the
// empty body, each ended by a line feed, are what is signed.
func (m Merchant) sign(now time.Time) (http.Header, error) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails since Go 1.24
	nonce, stamp := hex.EncodeToString(random[:]), strconv.FormatInt(now.Unix(), 10)
	sum := sha256.Sum256([]byte("GET\n" + weChatPath + "\n" + stamp + "\n" + nonce + "\n\n"))
	signature, err := rsa.SignPKCS1v15(rand.Reader, m.Key, crypto.SHA256, sum[:])
	if err != nil {
		return nil, fmt.Errorf("sign request: %w", err)
	}
	return http.Header{
		"Accept": {"application/json"},
		"Authorization": {fmt.Sprintf(`WECHATPAY2-SHA256-RSA2048 mchid="%s",nonce_str="%s",signature="%s",timestamp="%s",serial_no="%s"`,
			m.ID, nonce, base64.StdEncoding.EncodeToString(signature), stamp, m.Serial)},
	}, nil
}

// open decrypts the certificates of an answer and returns the keys of those that
// are valid now.
func (m Merchant) open(body []byte, now time.Time) (map[string]crypto.PublicKey, error) {
	var list struct {
		Data []struct {
			Serial    string `json:"serial_no"`
			Encrypted struct {
				Algorithm  string `json:"algorithm"`
				Nonce      string `json:"nonce"`
				Associated string `json:"associated_data"`
				Text       []byte `json:"ciphertext"`
			} `json:"encrypt_certificate"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	block, err := aes.NewCipher(m.APIv3Key)
	if err != nil {
		return nil, fmt.Errorf("open certificates: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("open certificates: %w", err)
	}
	keys := make(map[string]crypto.PublicKey, len(list.Data))
	for _, item := range list.Data {
		e := item.Encrypted
		if e.Algorithm != "AEAD_AES_256_GCM" || len(e.Nonce) != gcm.NonceSize() {
			return nil, errors.New("open certificates: they are encrypted in another way")
		}
		text, err := gcm.Open(nil, []byte(e.Nonce), e.Text, []byte(e.Associated))
		if err != nil {
			return nil, errors.New("open certificates: the APIv3 key does not open them")
		}
		certificate, err := readOne(text)
		if err != nil {
			return nil, err
		}
		if serial := strings.ToUpper(certificate.SerialNumber.Text(16)); serial != strings.TrimLeft(item.Serial, "0") {
			return nil, errors.New("open certificates: a serial is not that of its certificate")
		}
		key, ok := certificate.PublicKey.(*rsa.PublicKey)
		if !ok || checkRSA(key) != nil {
			return nil, errors.New("open certificates: a key is not RSA of a usual size")
		}
		if !now.Before(certificate.NotBefore) && now.Before(certificate.NotAfter) {
			keys[item.Serial] = key
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("open certificates: none is valid now")
	}
	return keys, nil
}

// readOne returns the only certificate of a PEM text.
func readOne(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("read certificate: the text holds none")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	return certificate, nil
}

// verifyAnswer checks that one of keys has signed the answer that brought them.
func verifyAnswer(h http.Header, body []byte, keys map[string]crypto.PublicKey) error {
	key, ok := keys[h.Get(serialHeader)].(*rsa.PublicKey)
	if !ok {
		return errors.New("verify answer: none of its certificates has signed it")
	}
	signature, err := base64.StdEncoding.DecodeString(h.Get("Wechatpay-Signature"))
	if err != nil {
		return errors.New("verify answer: its signature is no base64")
	}
	sum := sha256.Sum256([]byte(h.Get("Wechatpay-Timestamp") + "\n" + h.Get("Wechatpay-Nonce") + "\n" + string(body) + "\n"))
	if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) != nil {
		return errors.New("verify answer: its signature is wrong")
	}
	return nil
}
