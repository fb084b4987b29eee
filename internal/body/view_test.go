package body_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/body"
	"github.com/onceledger/onceledger/internal/jsondoc"
	"github.com/onceledger/onceledger/pkg/dlq"
)

// The kinds of some providers, as their presets would declare them.
var (
	appleKind = &body.Kind{Inner: []body.Inner{{
		Path: []string{"signedPayload"}, Open: body.OpenToken,
		Kind: body.Kind{Inner: []body.Inner{
			{Path: []string{"data", "signedTransactionInfo"}, Open: body.OpenToken},
			{Path: []string{"data", "signedRenewalInfo"}, Open: body.OpenToken},
		}},
	}}}
	pubsubKind    = &body.Kind{Inner: []body.Inner{{Path: []string{"message", "data"}, Open: body.Base64Std.Open}}}
	braintreeKind = &body.Kind{Format: body.FormatForm, Inner: []body.Inner{{
		Path: []string{"bt_payload"}, Open: body.Base64Lines.Open, Kind: body.Kind{Format: body.FormatXML},
	}}}
	alipayKind = &body.Kind{Format: body.FormatForm, CharsetField: "charset", Inner: []body.Inner{{Path: []string{"fund_bill_list"}}}}
)

func TestView(t *testing.T) {
	all := vectors(t)

	t.Run("Apple: the payload stands where its token stood (V57)", func(t *testing.T) {
		doc, err := body.View(appleKind, "application/json", all["V57"].Body, everything)
		require.NoError(t, err)
		require.Equal(t, "TEST", lookup(t, doc, "signedPayload", "notificationType"))
		require.Equal(t, int64(1681314324000), lookup(t, doc, "signedPayload", "signedDate"))
	})

	t.Run("Apple: the transaction within the payload, too", func(t *testing.T) {
		transaction := encode(`{"alg":"ES256"}`) + "." + encode(`{"price":1990}`) + ".AA"
		payload := encode(`{"alg":"ES256"}`) + "." + encode(`{"data":{"signedTransactionInfo":"`+transaction+`"}}`) + ".AA"
		doc, err := body.View(appleKind, "", []byte(`{"signedPayload":"`+payload+`"}`), everything)
		require.NoError(t, err)
		require.Equal(t, int64(1990), lookup(t, doc, "signedPayload", "data", "signedTransactionInfo", "price"))

		broken := encode(`{"alg":"ES256"}`) + "." + encode(`{"data":{"signedTransactionInfo":"x"}}`) + ".AA"
		_, err = body.View(appleKind, "", []byte(`{"signedPayload":"`+broken+`"}`), jsondoc.NewPaths([]string{"x"}))
		require.Equal(t, dlq.BadJSON, body.Reason(err), "whether rules read it or not")
	})

	t.Run("case 84: Pub/Sub wraps base64", func(t *testing.T) {
		data := base64.StdEncoding.EncodeToString([]byte(`{"eventTimeMillis":"1700000000000","voidedPurchaseNotification":{"orderId":"GPA.1"}}`))
		doc, err := body.View(pubsubKind, "", []byte(`{"message":{"data":"`+data+`","messageId":"136969346945"}}`), everything)
		require.NoError(t, err)
		require.Equal(t, "1700000000000", lookup(t, doc, "message", "data", "eventTimeMillis"))
		require.Equal(t, "136969346945", lookup(t, doc, "message", "messageId"))
	})

	t.Run("Braintree: XML in base64 in a form (V47)", func(t *testing.T) {
		doc, err := body.View(braintreeKind, "application/x-www-form-urlencoded", all["V47"].Body, everything)
		require.NoError(t, err)
		require.Equal(t, "check", lookup(t, doc, "bt_payload", "notification", "kind"))
	})

	t.Run("Alipay: JSON in a form (V62)", func(t *testing.T) {
		doc, err := body.View(alipayKind, "", all["V62"].Body, everything)
		require.NoError(t, err)
		require.Equal(t, "0.01", lookup(t, doc, "fund_bill_list", "0", "amount"))
		require.Equal(t, "0.01", lookup(t, doc, "invoice_amount"))
	})

	t.Run("an inner document can be the whole body", func(t *testing.T) {
		github := &body.Kind{Format: body.FormatForm, Inner: []body.Inner{{Path: []string{"payload"}, Whole: true}}}
		doc, err := body.View(github, "", all["V07"].Body, everything)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"yo": true}, doc)
		doc, err = body.View(github, "", []byte("load=1"), everything)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"load": "1"}, doc)
	})

	t.Run("an inner document can be required", func(t *testing.T) {
		github := &body.Kind{Format: body.FormatForm, Inner: []body.Inner{{Path: []string{"payload"}, Whole: true, Required: true}}}
		doc, err := body.View(github, "", all["V07"].Body, everything)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"yo": true}, doc)
		for _, data := range []string{"load=1", "", "hello"} {
			for _, keep := range []*jsondoc.Paths{everything, nil} { // acceptance does not depend on keep
				_, err = body.View(github, "", []byte(data), keep)
				require.ErrorIs(t, err, body.ErrSyntax, data)
			}
		}
	})

	t.Run("case 81: the bytes tell their format", func(t *testing.T) {
		for data, format := range map[string]body.Format{
			"\xEF\xBB\xBF {}": body.FormatJSON, "\r\n[]": body.FormatJSON, " <xml/>": body.FormatXML, "--B\r\n": body.FormatMultipart, "payload=%7B": body.FormatForm, "": body.FormatForm,
		} {
			require.Equal(t, format, body.FormatOf([]byte(data)), data)
		}
	})

	t.Run("what is absent, null or of another kind", func(t *testing.T) {
		for data, reason := range map[string]dlq.Reason{
			`{}`: "", `{"message":null}`: "", `{"message":{}}`: "", `{"message":{"data":null}}`: "", `{"message":[1]}`: "", `[]`: "", `1`: "",
			`{"message":{"data":1}}`:                         dlq.BadJSON,
			`{"message":{"data":"***"}}`:                     dlq.BadJSON,
			`{"message":{"data":""}}`:                        dlq.BadJSON,
			`{"message":{"data":"\ud800"}}`:                  dlq.UnstorableText,
			`{"message":{"data":"eyJhIjoxLCJhIjoyfQ=="}}`:    dlq.AmbiguousJSON,
			`{"message":{"data":"e30=","x":1},"message":{}}`: dlq.AmbiguousJSON,
		} {
			_, err := body.View(pubsubKind, "", []byte(data), everything)
			require.Equal(t, reason, body.Reason(err), "%s: %v", data, err)
		}
	})

	t.Run("JSON is jsondoc's, kept paths and all", func(t *testing.T) {
		data := []byte("\xEF\xBB\xBF{\"id\":9007199254740993,\"note\":\"caf\\u00e9 \\/ \u2028 🎉\",\"x\":{\"y\":1}}")
		keep := jsondoc.NewPaths([]string{"id"}, []string{"note"})
		want, err := jsondoc.Scan(data, keep)
		require.NoError(t, err)
		doc, err := body.View(nil, "", data, keep)
		require.NoError(t, err)
		require.Equal(t, want, doc)
		for _, contentType := range []string{"", "application/json; charset=iso-8859-1", "application/x-www-form-urlencoded"} { // cases 39 and 81
			doc, err := body.View(&body.Kind{}, contentType, data, keep)
			require.NoError(t, err)
			require.Equal(t, want, doc)
		}
		require.Equal(t, "café / \u2028 🎉", lookup(t, want, "note")) // cases 39 and 40
	})

	t.Run("nothing is built where nothing is kept, and all is checked", func(t *testing.T) {
		for kind, data := range map[*body.Kind]string{
			{}: `{"a":1}`, {Format: body.FormatForm}: "a=1", {Format: body.FormatXML}: "<a/>", pubsubKind: `{}`,
		} {
			doc, err := body.View(kind, "", []byte(data), nil)
			require.NoError(t, err)
			require.Nil(t, doc)
			_, err = body.View(kind, "", []byte(data+"%<"), nil)
			require.Error(t, err)
		}
	})

	t.Run("case 85: 10,000 levels", func(t *testing.T) {
		for _, kind := range []*body.Kind{{}, pubsubKind} {
			_, err := body.View(kind, "", []byte(strings.Repeat(`{"a":`, 10_000)), everything)
			require.Equal(t, dlq.BadJSON, body.Reason(err))
			require.ErrorIs(t, err, jsondoc.ErrDepth)
		}
	})
}
