package body_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// wechatKey opens V52; it is from the same tests of wechatpay-go.
var wechatKey = []byte("testMchAPIv3Key0")

// resource is how the bodies of WeChat Pay v3 are read.
func resource(keys ...[]byte) *body.Kind {
	return &body.Kind{Inner: []body.Inner{{Path: []string{"resource", "ciphertext"}, Open: body.OpenResource(keys...)}}}
}

func TestSealed(t *testing.T) {
	v := vectors(t)["V52"]
	another := bytes.Repeat([]byte("k"), 32)

	t.Run("V52 opens, also with a second key", func(t *testing.T) {
		for _, keys := range [][][]byte{{wechatKey}, {another, wechatKey}} {
			doc, err := body.View(resource(keys...), "application/json", v.Body, everything)
			require.NoError(t, err)
			require.Equal(t, "PAYSCORE.USER_OPEN_SERVICE", lookup(t, doc, "event_type"))
			require.Equal(t, "1234567890", lookup(t, doc, "resource", "ciphertext", "mchid"))
		}
	})

	t.Run("case 78: another key, a key of another length, and none", func(t *testing.T) {
		for _, keys := range [][][]byte{{another}, {wechatKey[:15]}, {append(another, 'k')}, {nil}, {}} {
			_, err := body.View(resource(keys...), "", v.Body, everything)
			require.ErrorIs(t, err, body.ErrDecrypt)
			require.Equal(t, dlq.DecryptFailed, body.Reason(err))
		}
	})

	t.Run("case 78: a key of another length is said to be one", func(t *testing.T) {
		for _, n := range []int{0, 15, 24, 33} {
			_, err := body.OpenSealed(make([]byte, 12), nil, nil, make([]byte, n))
			require.ErrorContains(t, err, "bytes, not 32")
		}
	})

	t.Run("case 78: changed data", func(t *testing.T) {
		for before, after := range map[string]string{
			`"associated_data":"payscore"`:  `"associated_data":"payscorf"`,
			`,"associated_data":"payscore"`: ``,
			`"Kj7QIyUiYx1q"`:                `"Kj7QIyUiYx1r"`,
			`"nonce":"Kj7QIyUiYx1q"`:        `"nonce":"short"`,
			`YDS3lKPa`:                      `YDS3lKPb`,
			`AEAD_AES_256_GCM`:              `AEAD_AES_128_GCM`,
		} {
			changed := bytes.Replace(v.Body, []byte(before), []byte(after), 1)
			require.NotEqual(t, v.Body, changed)
			_, err := body.View(resource(wechatKey), "", changed, everything)
			require.ErrorIs(t, err, body.ErrDecrypt, after)
		}
	})

	t.Run("what is no base64 is no matter of keys", func(t *testing.T) {
		_, err := body.View(resource(wechatKey), "", bytes.Replace(v.Body, []byte("YDS3"), []byte("YD-3"), 1), everything)
		require.Equal(t, dlq.BadJSON, body.Reason(err))
	})

	t.Run("it opens whether rules read it or not", func(t *testing.T) {
		_, err := body.View(resource(another), "", v.Body, jsondoc.NewPaths([]string{"id"}))
		require.ErrorIs(t, err, body.ErrDecrypt)
		doc, err := body.View(resource(wechatKey), "", v.Body, nil)
		require.NoError(t, err)
		require.Nil(t, doc)
	})
}
