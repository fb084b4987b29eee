package provider

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/config"
)

// wechatV3 signs time, nonce and body; what happened is sealed in resource,
// with the merchant's APIv3 key. Rules find it at body.resource.ciphertext. It
// wants 200 or 204, and otherwise a code with a message. Read:
// pay.weixin.qq.com/doc/v3, wechatpay-go.
var wechatV3 = preset{
	name:     "wechatpay-v3",
	signed:   "RSA with SHA-256, base64, header Wechatpay-Signature, over time, nonce and body, a line each",
	secret:   "the APIv3 key; public_keys has the platform certificates, or WeChat Pay's public key",
	scheme:   wechatScheme,
	uses:     usesKeys,
	inner:    wechatInner,
	id:       []string{"body:id"},
	typ:      []string{"body:event_type"},
	account:  "body:resource.ciphertext.mchid,resource.ciphertext.sp_mchid",
	occurred: "body:create_time",
	keep:     []string{"Wechatpay-Serial"},
	fingerprint: []string{
		"event_type", "resource.ciphertext.transaction_id", "resource.ciphertext.out_trade_no", "resource.ciphertext.trade_state",
		"resource.ciphertext.amount", "resource.ciphertext.refund_id", "resource.ciphertext.refund_status", "resource.ciphertext.mchid",
	},
	ack:    Ack{Status: http.StatusNoContent},
	reject: jsonAck(http.StatusUnauthorized, `{"code":"FAIL","message":"signature does not verify"}`),
	again:  jsonAck(http.StatusServiceUnavailable, `{"code":"FAIL","message":"please send again"}`),
	sample: `{"id":"{id}","create_time":"2024-01-01T08:00:00+08:00","event_type":"TRANSACTION.SUCCESS","resource_type":"encrypt-resource",` +
		`"resource":{"original_type":"transaction","algorithm":"AEAD_AES_256_GCM","associated_data":"transaction","nonce":"fdasflkja484",` +
		`"ciphertext":{"mchid":"1230000109","transaction_id":"{number}","out_trade_no":"order-{id}","trade_state":"SUCCESS","amount":{"total":100,"currency":"CNY"}}}}`,
	amount:   []string{"resource.ciphertext.amount.total"},
	currency: []string{"resource.ciphertext.amount.currency"},
}

// wechat is public with something sealed inside.
type wechat struct {
	public
	key  []byte // the first one; for sign
	kind body.Kind
}

func wechatScheme(src config.Source, f *faults) scheme {
	w := &wechat{public: public{
		header: "Wechatpay-Signature", timeHeader: "Wechatpay-Timestamp", idHeader: "Wechatpay-Nonce",
		content: mustTemplate("{timestamp}\n{id}\n{body}\n"), clock: clock{tolerance: tolerance},
	}}
	var sealing []string
	w.keys, sealing = publicKeys(src, f)
	w.configure(src, f)
	if len(sealing) == 0 {
		f.add(src.Pos, "secrets", "the APIv3 key is needed to open what is sent")
		return w
	}
	for i, secret := range sealing {
		if len(secret) != 32 && len(secret) != 16 {
			f.add(src.Pos, fmt.Sprintf("secrets[%d]", i), "has %d bytes; an APIv3 key has 32", len(secret))
		}
	}
	w.key = []byte(sealing[0])
	w.kind.Inner = wechatInner(src)
	return w
}

// wechatInner opens the resource with the APIv3 keys among the secrets.
func wechatInner(src config.Source) []body.Inner {
	var sealing [][]byte
	for _, secret := range src.Secrets {
		if private, err := parseSigner(secret.Reveal()); private == nil && err == nil {
			sealing = append(sealing, []byte(secret.Reveal()))
		}
	}
	return []body.Inner{{Path: []string{"resource", "ciphertext"}, Open: body.OpenResource(sealing...)}}
}

// verify answers ErrUnavailable for what no key opens: WeChat then sends again
// for a day, until somebody has put the right key there (case 78).
func (w *wechat) verify(ctx context.Context, req Request, now time.Time) error {
	if err := w.public.verify(ctx, req, now); err != nil {
		return err
	}
	_, err := body.View(&w.kind, "", req.Body, everything)
	if err == nil || errors.Is(err, body.ErrDecrypt) {
		req.trace.judged("resource.ciphertext, opened with the APIv3 keys", err)
	}
	if errors.Is(err, body.ErrDecrypt) {
		return fmt.Errorf("verify request: %w: %w", ErrUnavailable, err)
	}
	return nil
}

// sign seals what stands open in resource.ciphertext, and signs the whole.
func (w *wechat) sign(req *Request, id string, now time.Time) error {
	beside := members(req.Body, []string{"resource", "nonce"}, []string{"resource", "associated_data"})
	seal := func(open json.RawMessage) (any, error) { return w.seal(open, beside[0], beside[1]) }
	var err error
	if req.Body, err = sealed(req.Body, seal, "resource", "ciphertext"); err != nil {
		return err
	}
	return w.public.sign(req, id, now)
}

func (w *wechat) seal(plain []byte, nonce, associated string) (string, error) {
	block, err := aes.NewCipher(w.key)
	if err != nil {
		return "", err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return "", err
	}
	if len(nonce) != gcm.NonceSize() {
		return "", fmt.Errorf("the nonce has %d bytes, not %d", len(nonce), gcm.NonceSize())
	}
	return base64.StdEncoding.EncodeToString(gcm.Seal(nil, []byte(nonce), plain, []byte(associated))), nil
}
